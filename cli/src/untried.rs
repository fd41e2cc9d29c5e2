// SPDX-License-Identifier: GPL-2.0-only
//! Commands that do more than change the ledger, which nobody can try without doing it.

use crate::failure::Failure;

/// Takes `--dry-run` from whoever types it there, too, to say what to do instead.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Untried {
    #[arg(long, hide = true)]
    dry_run: bool,
}

impl Untried {
    /// `what` cannot be tried; `instead`: what shows, or takes back, what it does.
    ///
    /// # Errors
    /// It is to be.
    pub fn check(self, what: &str, instead: &str) -> Result<(), Failure> {
        match self.dry_run {
            false => Ok(()),
            true => Err(Failure::usage(
                format!("--dry-run: {what}, which cannot be tried without doing it"),
                instead,
            )),
        }
    }
}
