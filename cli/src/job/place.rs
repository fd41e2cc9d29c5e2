// SPDX-License-Identifier: GPL-2.0-only
//! A cgroup of our own in the tree, where no systemd makes one.
//!
//! The problem: a currency of its own needs a cgroup with the cpu controller, which its parent must give to its children
//! (`cgroup.subtree_control`). A cgroup with processes in it, such as the caller's, can do that only as the root of a threaded
//! subtree. And a process may only be moved by who may write the common ancestor's `cgroup.procs`.
//!
//! So, looking from the caller's cgroup upwards, at cgroups where the caller may make children and move processes:
//! 1. the nearest that already gives the cpu controller to its children;
//! 2. else the nearest that can be told to. If that makes its children threaded (it has processes), then the new cgroup is threaded:
//!    cpu is the one controller that such cgroups share properly.
//!
//! Worked example: alice owns /alice, root enabled cpu in /; her shell is in /alice/shell, /alice gives cpu to its children. Then 1
//! makes /alice/tix-run-N. If instead her shell is directly in /alice, then 2 makes a threaded /alice/tix-run-N.
//!
//! Known limit: a cgroup that became the root of a threaded subtree stays one until cpu is taken out of its subtree_control.

use super::{Made, janitor};
use crate::failure::Failure;
use crate::host;
use rustix::fs::{Access, access};
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;

/// A cgroup that was made for the command.
pub struct Own {
    /// Its path, relative to the cgroup root.
    pub cgroup: String,
    directory: PathBuf,
    /// Closed when this process becomes the command, or fails: from then on the janitor removes the cgroup as soon as it is empty.
    _janitor: ChildStdin,
}

impl Own {
    /// Moves this process in.
    pub fn enter(self) -> Result<(), Failure> {
        let file = self.directory.join("cgroup.procs");
        fs::write(&file, "0")
            .map_err(|err| Failure::io("move into", &file, &err, "see `tixctl doctor`"))?;
        // The janitor's pipe must live until exec closes it.
        std::mem::forget(self);
        Ok(())
    }
}

/// Makes a cgroup as near to the caller's as can be.
pub fn make(mount: &Path) -> Result<Made, Failure> {
    let own = host::own_cgroup(Path::new("/")).unwrap_or_default();
    if !own.starts_with('/') || own.starts_with("/..") {
        return Err(Failure::refused(
            format!("this process is in a cgroup that cannot be seen from here: {own:?}"),
            "run tixctl in the cgroup namespace that tixd is in",
        ));
    }
    // Path by path: joining an empty one would end it with a slash.
    let home: PathBuf = mount
        .components()
        .chain(Path::new(own.trim_start_matches('/')).components())
        .collect();
    let mut tried = Vec::new();
    let nearest = || {
        home.ancestors()
            .take_while(|parent| parent.starts_with(mount))
    };
    for parent in nearest().filter(|parent| may_place(parent) && gives_cpu(parent)) {
        match below(mount, parent) {
            Ok(made) => return Ok(made),
            Err(err) => tried.push(format!("{}: {err}", parent.display())),
        }
    }
    for parent in nearest().filter(|parent| may_place(parent) && !gives_cpu(parent)) {
        match fs::write(parent.join("cgroup.subtree_control"), "+cpu")
            .and_then(|()| below(mount, parent))
        {
            Ok(made) => return Ok(made),
            Err(err) => tried.push(format!("{}: {err}", parent.display())),
        }
    }
    Err(impossible(&home, &tried))
}

/// May the caller make a cgroup in `parent`, and move itself from below `parent` into it?
fn may_place(parent: &Path) -> bool {
    access(parent, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        && access(parent.join("cgroup.procs"), Access::WRITE_OK).is_ok()
}

fn gives_cpu(parent: &Path) -> bool {
    host::words(&parent.join("cgroup.subtree_control"))
        .iter()
        .any(|name| name == "cpu")
}

/// Makes a cgroup in `parent`, ready to take this process.
fn below(mount: &Path, parent: &Path) -> Result<Made, Error> {
    let directory = fresh(parent)?;
    let prepared = prepare(&directory).and_then(|()| {
        janitor::start(&directory).map_err(|failure| Error::other(format!("{failure:?}")))
    });
    match prepared {
        Ok(pipe) => {
            let relative = directory.strip_prefix(mount).unwrap_or(&directory);
            Ok(Made::Own(Own {
                cgroup: format!("/{}", relative.display()),
                _janitor: pipe,
                directory,
            }))
        }
        Err(err) => {
            // Nothing is in it: the first error is the one to tell.
            let _ = fs::remove_dir(&directory);
            Err(err)
        }
    }
}

/// Makes a directory with a name of its own: a process of this number may have left one.
fn fresh(parent: &Path) -> Result<PathBuf, Error> {
    let pid = std::process::id();
    for attempt in 0..100 {
        let name = match attempt {
            0 => format!("tix-run-{pid}"),
            attempt => format!("tix-run-{pid}-{attempt}"),
        };
        let directory = parent.join(name);
        match fs::create_dir(&directory) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| directory),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Makes sure that processes can be put in, and that they get a share of their own.
fn prepare(directory: &Path) -> Result<(), Error> {
    let kind = directory.join("cgroup.type");
    if fs::read_to_string(&kind)?.trim() == "domain invalid" {
        fs::write(&kind, "threaded")?;
    }
    if !directory.join("cpu.weight").exists() {
        return Err(Error::other("its children do not get the cpu controller"));
    }
    Ok(())
}

fn impossible(home: &Path, tried: &[String]) -> Failure {
    let home = home.display();
    let message = match tried {
        [] => format!(
            "you may not make a cgroup for the command: neither {home} nor a cgroup above it is yours"
        ),
        tried => format!(
            "no cgroup with the cpu controller can be made for the command ({})",
            tried.join("; ")
        ),
    };
    let uid = rustix::process::geteuid().as_raw();
    let hint = match tried {
        [] => format!(
            "as root, give your shell a cgroup that is yours: mkdir {home}/you && chown -R {uid} {home}/you && \
             echo PID-OF-YOUR-SHELL > {home}/you/cgroup.procs"
        ),
        _ => format!(
            "put your shell into a child of its own and enable cpu beside it: mkdir {home}/shell && \
             echo $$ > {home}/shell/cgroup.procs && echo +cpu > {home}/cgroup.subtree_control"
        ),
    };
    Failure::refused(message, hint)
}
