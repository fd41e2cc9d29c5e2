// SPDX-License-Identifier: GPL-2.0-only
//! Removes the cgroup of a command once nothing runs in it any more, where no systemd does.
//!
//! `tixctl run` (`nice`, too) becomes the command, so it cannot do this itself. A small process outside the cgroup waits, first for `tixctl run` to
//! have become the command or to have failed (its end of a pipe closes), then for the cgroup to be empty. It is started twice over,
//! so that the command has no child it does not know of.

use crate::failure::Failure;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

/// Remove a cgroup once it is empty; used by `tixctl run` and `tixctl nice`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cgroup's directory
    directory: PathBuf,
    #[arg(long, hide = true)]
    waiting: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let failed = |err| Failure::io("wait for", &args.directory, &err, "");
    if args.waiting {
        std::io::stdin()
            .lock()
            .read_to_end(&mut Vec::new())
            .map_err(failed)?;
        return wait(&args.directory).map_err(failed);
    }
    // Ctrl-C on the terminal is for the command, not for us.
    rustix::process::setsid().map_err(|err| failed(err.into()))?;
    command(&args.directory)?
        .arg("--waiting")
        .stdin(Stdio::inherit())
        .spawn()
        .map(drop)
        .map_err(failed)
}

/// Starts a janitor. It begins when what this returns is closed: by being dropped, or by `exec`.
pub fn start(directory: &Path) -> Result<ChildStdin, Failure> {
    let failed = |err| Failure::io("start a process to clean up", directory, &err, "");
    let mut first = command(directory)?
        .stdin(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let pipe = first
        .stdin
        .take()
        .ok_or_else(|| failed(std::io::ErrorKind::BrokenPipe.into()))?;
    match first.wait() {
        Ok(status) if status.success() => Ok(pipe),
        Ok(status) => Err(failed(std::io::Error::other(status.to_string()))),
        Err(err) => Err(failed(err)),
    }
}

fn command(directory: &Path) -> Result<Command, Failure> {
    let itself = std::env::current_exe()
        .map_err(|err| Failure::io("find", Path::new("tixctl"), &err, ""))?;
    let mut command = Command::new(itself);
    command
        .arg0("tixctl")
        .arg("remove-when-empty")
        .arg(directory)
        .current_dir("/")
        .env_clear()
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}

/// Waits until nothing lives in `directory`, and removes it with the cgroups below it.
fn wait(directory: &Path) -> std::io::Result<()> {
    let mut events = match File::open(directory.join("cgroup.events")) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        events => events?,
    };
    loop {
        let mut text = String::new();
        events.rewind()?;
        match events.read_to_string(&mut text) {
            // Somebody else has removed it.
            Err(err) if err.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                return Ok(());
            }
            read => read?,
        };
        if text.lines().any(|line| line == "populated 0") && remove(directory).is_ok() {
            return Ok(());
        }
        poll(&mut [PollFd::new(&events, PollFlags::PRI)], None)?;
    }
}

/// Removes a cgroup and what the command made below it, deepest first.
fn remove(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(directory)
}
