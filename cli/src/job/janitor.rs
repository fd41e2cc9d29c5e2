// SPDX-License-Identifier: GPL-2.0-only
//! Removes the cgroup of a command once nothing runs in it any more, where no systemd does, and
//! takes back what its place was changed for it.
//!
//! `tixctl run` (`nice`, too) becomes the command, so it cannot do this itself. A small process
//! outside the cgroup waits, first for `tixctl run` to have become the command or to have failed
//! (its end of a pipe closes), then for the cgroup to be empty. It is started twice over, so that
//! the command has no child it does not know of. Its standard output is the cgroup's lock
//! (`controller`), which it holds until it ends.

use super::controller;
use crate::failure::Failure;
use crate::{host, runtime};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use tix_api::{Currency, Kind, Resource, Tix};
use tix_client::Client;

const HELP: &str = "`tixctl doctor` says what this host lacks";

/// Remove a cgroup once it is empty; used by `tixctl run` and `tixctl nice`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cgroup's directory
    directory: PathBuf,
    #[arg(long, hide = true)]
    waiting: bool,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let failed = |err| Failure::io("wait for", &args.directory, &err, HELP);
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
        .stdout(Stdio::inherit())
        .spawn()
        .map(drop)
        .map_err(failed)
}

/// Starts a janitor, which holds `lock` from now on. It begins when what this returns is closed: by
/// being dropped, or by `exec`.
pub fn start(directory: &Path, lock: File) -> Result<ChildStdin, Failure> {
    let failed = |err| Failure::io("start a process to clean up", directory, &err, HELP);
    let mut first = command(directory)?
        .stdin(Stdio::piped())
        .stdout(lock)
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
        .map_err(|err| Failure::io("find", Path::new("tixctl"), &err, HELP))?;
    let mut command = Command::new(itself);
    command
        .arg0("tixctl")
        .arg("remove-when-empty")
        .arg(directory)
        .current_dir("/")
        .env_clear()
        .env(tix_api::SOCKET_ENV, tix_client::socket())
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
        if controller::is_empty(directory) && end(directory).is_ok() {
            return Ok(());
        }
        poll(&mut [PollFd::new(&events, PollFlags::PRI)], None)?;
    }
}

/// Removes the cgroup, with those below it.
fn end(directory: &Path) -> std::io::Result<()> {
    controller::remove_below(directory)?;
    let is_used = directory
        .parent()
        .is_some_and(|place| controller::is_marked(place) && is_used(place));
    controller::end(directory, std::io::stdout(), is_used)
}

/// Has somebody given a share or a limit to a cgroup beside the jobs, who would lose it with the
/// controller?
fn is_used(place: &Path) -> bool {
    let Ok(entries) = fs::read_dir(place) else {
        return true;
    };
    let beside: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            !entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(controller::NAMES.as_bytes())
        })
        .map(|entry| entry.path())
        .filter(|path| path.join("cpu.weight").exists())
        .collect();
    if beside.is_empty() {
        return false;
    }
    let tree = runtime::wait(async {
        let mut client = Client::connect().await?;
        client.call(|tixd| tixd.tree()).await
    });
    match (tree, host::cgroup2(Path::new("/"))) {
        (Ok(tree), Some(mount)) => beside.iter().any(|path| {
            let path = path.strip_prefix(&mount).unwrap_or(path);
            let name = format!("/{}", path.display());
            tree.currencies
                .iter()
                .any(|c| c.name == name && !is_as_made(c))
        }),
        _ => beside.iter().any(|path| !has_defaults(path)),
    }
}

/// Does a cgroup's currency have what every new one has?
fn is_as_made(currency: &Currency) -> bool {
    let cpu: Vec<_> = (currency.funding.iter())
        .filter(|f| f.resource == Resource::Cpu)
        .collect();
    let parent = match currency.name.rsplit_once('/') {
        Some(("", _)) | None => "base",
        Some((parent, _)) => parent,
    };
    currency.limits.is_empty()
        && cpu.len() == 1
        && (cpu.iter()).all(|f| f.amount == 100 && f.kind == Kind::Soft && f.from == parent)
}

/// The same, by the kernel's files, where tixd cannot be asked.
fn has_defaults(cgroup: &Path) -> bool {
    let says = |file: &str, what: &str| {
        host::words(&cgroup.join(file))
            .first()
            .is_none_or(|word| word == what)
    };
    says("cpu.weight", "100") && says("cpu.idle", "0") && says("cpu.max", "max")
}
