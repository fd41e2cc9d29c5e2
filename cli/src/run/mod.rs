// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl run`: a command in a cgroup of its own, with tickets of its own.
//!
//! 1. A cgroup that the caller owns is made: by systemd, as a transient scope (`scope`), or in the cgroup tree itself (`place`).
//! 2. tixd makes a currency, funds it and binds it to the cgroup, all in one request.
//! 3. This process moves in (systemd has moved it already) and becomes the command.
//!
//! So the command never runs with another share, its exit status and signals are its own, and if a step fails nothing stays: a scope
//! ends with this process, and a cgroup of our own is removed by `janitor`, which also does that after the command.

pub mod janitor;
mod place;
mod scope;

use crate::client::Client;
use crate::failure::Failure;
use crate::ticket::tickets;
use crate::{cli, host};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tix_api::Tix;

/// Run a command in a cgroup of its own, with tickets of its own
///
/// It gets a new currency, which goes when the command has ended, with everything it started. With systemd the cgroup is a scope:
/// of the caller's own systemd (no privileges needed), or of the system's for root. Without, it is made below the caller's cgroup, or
/// beside it if only that is possible.
///
/// The exit status is the command's; 1, 2 or 3 if it was not started.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The new currency's name; without this tixd makes one up
    #[arg(long)]
    name: Option<String>,
    /// How many cpu tickets it gets: 1 to 2147483648 [default: 100]
    #[arg(long, value_name = "TICKETS", value_parser = tickets, allow_negative_numbers = true)]
    cpu: Option<i64>,
    /// The currency that issues them [default: your user's currency]
    #[arg(long, value_name = "ISSUER")]
    from: Option<String>,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let [program, arguments @ ..] = args.command.as_slice() else {
        return Err(Failure::refused(
            "no command to run",
            "tixctl run -- COMMAND",
        ));
    };
    let found = find(program)?;
    let root = Path::new("/");
    let Some(mount) = host::cgroup2(root) else {
        return Err(Failure::refused(
            "cgroup v2 is not mounted, so no cgroup can be made for the command",
            "see `tixctl doctor`",
        ));
    };
    // Before anything is made or moved: is there somebody to ask, and whose tickets are the caller's where the caller is now?
    let here = cli::wait(async {
        let mut client = Client::connect().await?;
        client.call(|tixd| tixd.status()).await
    })?;
    let issuer = args.from.or(here.user_currency);

    let made = match host::systemd(root) {
        true => {
            scope::enter(args.name.as_deref()).or_else(|failure| {
                match rustix::process::geteuid().is_root() {
                    true => Err(failure),
                    // No systemd of the user's own: perhaps the tree lets us in all the same.
                    false => place::make(&mount).map_err(|_| failure),
                }
            })
        }
        false => place::make(&mount),
    }?;
    cli::wait(async {
        let mut client = Client::connect().await?;
        let cgroup = made.cgroup().to_owned();
        client
            .call(|tixd| tixd.run_begin(args.name.as_deref(), issuer.as_deref(), args.cpu, &cgroup))
            .await
    })?;
    made.enter()?;
    let err = Command::new(&found).arg0(program).args(arguments).exec();
    Err(Failure::io("run", &found, &err, ""))
}

/// A cgroup for the command.
pub enum Made {
    /// A scope of systemd's; this process is in it.
    Scope { cgroup: String },
    /// A directory of our own; this process is not in it yet.
    Own(place::Own),
}

impl Made {
    /// Its path, relative to the cgroup root.
    fn cgroup(&self) -> &str {
        match self {
            Made::Scope { cgroup } => cgroup,
            Made::Own(own) => &own.cgroup,
        }
    }

    fn enter(self) -> Result<(), Failure> {
        match self {
            Made::Scope { .. } => Ok(()),
            Made::Own(own) => own.enter(),
        }
    }
}

/// Finds the program as `execvp` would, so that nothing is made for a command that does not exist.
fn find(program: &OsString) -> Result<PathBuf, Failure> {
    let executable = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    let path = Path::new(program);
    let found = match path.components().count() > 1
        || path.is_absolute()
        || program.as_encoded_bytes().contains(&b'/')
    {
        true => executable(path).then(|| path.to_owned()),
        false => std::env::var_os("PATH").and_then(|list| {
            std::env::split_paths(&list)
                .map(|directory| directory.join(path))
                .find(|path| executable(path))
        }),
    };
    found.ok_or_else(|| {
        Failure::refused(
            format!("there is no command {}", path.display()),
            "the command and its arguments stand after `--`; nothing was changed",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_execvp_finds() {
        assert!(find(&"sh".into()).is_ok_and(|path| path.is_absolute()));
        assert!(find(&"/bin/sh".into()).is_ok());
        for missing in ["no-such-command-here", "/bin", "/etc/passwd", "", "./sh"] {
            assert!(find(&missing.into()).is_err(), "{missing:?}");
        }
    }
}
