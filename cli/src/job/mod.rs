// SPDX-License-Identifier: GPL-2.0-only
//! A command in a cgroup of its own, with a currency of its own: what `tixctl run` and `tixctl
//! nice` share.
//!
//! 1. A cgroup that the caller owns is made: by systemd, as a transient scope (`scope`), or in the
//!    cgroup tree itself (`place`).
//! 2. tixd makes a currency, funds it and binds it to the cgroup, all in one request.
//! 3. This process moves in (systemd has moved it already) and becomes the command.
//!
//! So the command never runs with another share, its exit status and signals are its own, and if a
//! step fails nothing stays: a scope ends with this process, and a cgroup of our own is removed by
//! `janitor`, which also does that after the command, and takes back what was changed for it
//! (`controller`).

mod controller;
pub mod janitor;
mod place;
mod scope;

use crate::failure::Failure;
use crate::{host, runtime};
use place::{Refusal, Threaded};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tix_api::{Enforcer, Tix, shell};
use tix_client::Client;

/// What is to be run, and what its currency is to be called.
#[derive(Debug, clap::Args)]
pub struct Job {
    /// The new currency's name; without this tixd makes one up
    #[arg(long)]
    name: Option<String>,
    /// Let the command's place become a threaded domain while the command runs, where there is no
    /// other place
    ///
    /// Without systemd the place is a cgroup of the caller's. One that has processes of its own
    /// gives shares to children only as a threaded domain: meanwhile no process can be put into
    /// another cgroup in it, and a container runtime or a systemd that works in it fails. On a
    /// terminal this is asked.
    #[arg(long)]
    threaded: bool,
    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What tixd is to be asked with, once there is a cgroup.
pub struct Asked<'a> {
    /// The new currency's name, if the caller gave one.
    pub name: Option<&'a str>,
    /// Whose tickets: what the caller named, else the caller's user currency as of where the caller
    /// was before.
    pub from: Option<&'a str>,
    /// The cgroup, relative to the cgroup root.
    pub cgroup: &'a str,
}

/// Becomes the command, in a cgroup of its own. `ask` has tixd make a currency for it.
pub fn launch(
    job: Job,
    from: Option<String>,
    ask: impl AsyncFnOnce(&mut Client, Asked<'_>) -> Result<(), tix_client::Error>,
) -> Result<(), Failure> {
    let [program, arguments @ ..] = job.command.as_slice() else {
        return Err(Failure::usage(
            "no command to run",
            "the command and its arguments stand after `--`",
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
    // Before anything is made or moved: is there somebody to ask, and whose tickets are the
    // caller's where the caller is now?
    let here = runtime::wait(async {
        let mut client = Client::connect().await?;
        client.call(|tixd| tixd.status()).await
    })?;
    // Nobody is asked for a threaded domain where no share would come of it.
    let is_held = here.scheduler.enforcer != Enforcer::None;
    let agreed = match (job.threaded, is_held) {
        (true, _) => Threaded::Agreed,
        (false, true) => Threaded::Ask,
        (false, false) => Threaded::Never,
    };
    let from = from.or(here.user_currency);
    let name = job.name.as_deref();

    let place = || place::make(&mount, agreed).map(Made::Own);
    let made = match host::systemd(root) {
        true => {
            let scope = scope::enter(name).map(|cgroup| Made::Scope { cgroup });
            scope.or_else(|failure| {
                if rustix::process::geteuid().is_root() {
                    return Err(failure);
                }
                // No systemd of the user's own: perhaps the tree lets us in all the same.
                place().map_err(|refusal| match refusal {
                    Refusal::Nowhere(_) => failure,
                    Refusal::Threaded(failure) => failure,
                })
            })
        }
        false => place().map_err(|refusal| match refusal {
            Refusal::Nowhere(failure) | Refusal::Threaded(failure) => failure,
        }),
    }?;
    runtime::wait(async {
        let mut client = Client::connect().await?;
        let asked = Asked {
            name,
            from: from.as_deref(),
            cgroup: made.cgroup(),
        };
        ask(&mut client, asked).await
    })?;
    made.enter()?;
    let err = Command::new(&found).arg0(program).args(arguments).exec();
    let found_word = shell::word(&found.display().to_string());
    Err(Failure::io(
        "run",
        &found,
        &err,
        format!("`file {found_word}` says what it is"),
    ))
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
