// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl pages`: the manual pages and the completions as they are installed, from the same source
//! as the help.

use crate::completions::script;
use crate::failure::Failure;
use crate::groups::GROUPS;
use clap::Command;
use std::path::PathBuf;

/// Write the manual pages and the completions below a directory, as /usr/share has them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory
    directory: PathBuf,
}

pub fn main(args: Args, all: Command) -> Result<(), Failure> {
    tix_pages::write(all, GROUPS, "1", &args.directory, &script)
        .map_err(|e| Failure::refused(e.to_string(), "name a directory that you may write to"))
}
