// SPDX-License-Identifier: GPL-2.0-only
//! A cgroup of our own in the tree, where no systemd makes one.
//!
//! The problem: a currency of its own needs a cgroup with the cpu controller, which its parent must
//! give to its children (`cgroup.subtree_control`). A cgroup with processes in it, such as the
//! caller's, can do that only as a threaded domain. And a process may only be moved by who may
//! write the common ancestor's `cgroup.procs`.
//!
//! So, looking from the caller's cgroup upwards, at cgroups where the caller may make children and
//! move processes:
//! 1. the nearest that gives the cpu controller to ordinary children already;
//! 2. else the nearest that can be told to, without a process of its own: for as long as the job
//!    runs (`controller`);
//! 3. else the nearest whose children are threaded already, by somebody else's doing;
//! 4. else, if the caller agrees, the nearest that becomes a threaded domain by it, for as long as
//!    the job runs.
//!
//! Worked example: alice owns /alice, root enabled cpu in /; her shell is in /alice/shell. Then 2
//! makes /alice/tix-run-N. If instead her shell is directly in /alice, then 4 makes a threaded
//! /alice/tix-run-N, if she agrees: nobody can use cgroups beside it meanwhile.

use super::{controller, janitor};
use crate::failure::Failure;
use crate::{ask, host};
use rustix::fs::{Access, access};
use std::fs::{self, File};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use tix_api::shell;

/// A cgroup that was made for the command.
pub struct Own {
    /// Its path, relative to the cgroup root.
    pub cgroup: String,
    directory: PathBuf,
    /// Closed when this process becomes the command, or fails: from then on the janitor removes the
    /// cgroup as soon as it is empty.
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

/// What has to be done to a place before a job's cgroup in it has the cpu controller; what changes
/// least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// Nothing.
    Nothing,
    /// Its other children get the controller, too.
    Enable,
    /// Nothing that is not so already: its children are threaded.
    IsThreaded,
    /// It becomes a threaded domain, or stays one that other jobs have made it.
    BecomesThreaded,
}

impl Change {
    /// Of a place with this `cgroup.type` (empty: the root of all), which gives the controller, has
    /// processes, or was changed for jobs.
    fn of(kind: &str, gives_cpu: bool, has_processes: bool, is_marked: bool) -> Option<Change> {
        match kind {
            "" | "domain" if gives_cpu => Some(Change::Nothing),
            "" => Some(Change::Enable),
            "domain" if has_processes => Some(Change::BecomesThreaded),
            "domain" => Some(Change::Enable),
            "threaded" | "domain threaded" if is_marked => Some(Change::BecomesThreaded),
            "threaded" | "domain threaded" => Some(Change::IsThreaded),
            _ => None,
        }
    }

    fn at(place: &Path) -> Option<Change> {
        // Of a threaded cgroup it cannot be read; it is not asked for then.
        let processes = fs::read_to_string(place.join("cgroup.procs")).unwrap_or_default();
        Change::of(
            &kind(place),
            controller::gives_cpu(place),
            !processes.is_empty(),
            controller::is_marked(place),
        )
    }
}

fn kind(cgroup: &Path) -> String {
    let text = fs::read_to_string(cgroup.join("cgroup.type")).unwrap_or_default();
    text.trim().to_owned()
}

/// Why there is no cgroup for the command.
pub enum Refusal {
    /// There is no place for it.
    Nowhere(Failure),
    /// There is one that would become threaded, and the caller has not agreed.
    Threaded(Failure),
}

/// May the place of the command become threaded?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threaded {
    /// The caller has said so.
    Agreed,
    Ask,
    /// Nothing holds shares, so nothing is changed for one.
    Never,
}

/// Makes a cgroup as near to the caller's as can be.
pub fn make(mount: &Path, threaded: Threaded) -> Result<Own, Refusal> {
    let own = host::own_cgroup(Path::new("/")).unwrap_or_default();
    if !own.starts_with('/') || own.starts_with("/..") {
        return Err(Refusal::Nowhere(Failure::refused(
            format!("this process is in a cgroup that cannot be seen from here: {own:?}"),
            "run tixctl in the cgroup namespace that tixd is in",
        )));
    }
    // Path by path: joining an empty one would end it with a slash.
    let home: PathBuf = mount
        .components()
        .chain(Path::new(own.trim_start_matches('/')).components())
        .collect();
    let mut places: Vec<(Change, &Path)> = home
        .ancestors()
        .take_while(|place| place.starts_with(mount))
        .filter(|place| may_place(place))
        .filter_map(|place| Some((Change::at(place)?, place)))
        .collect();
    // The nearest stays first among those with the same change.
    places.sort_by_key(|(change, _)| *change);
    let mut tried = Vec::new();
    for (change, place) in places {
        if change == Change::BecomesThreaded {
            // No answer could help.
            if let Some(why) = cannot_be_threaded(place) {
                tried.push(format!("{}: {why}", place.display()));
                continue;
            }
            match threaded {
                Threaded::Agreed => {}
                Threaded::Ask => agree(place).map_err(Refusal::Threaded)?,
                Threaded::Never => return Err(Refusal::Threaded(in_vain(place))),
            }
        }
        match below(mount, place, change) {
            Ok(made) => return Ok(made),
            Err(err) => tried.push(format!("{}: {err}", place.display())),
        }
    }
    Err(Refusal::Nowhere(impossible(&home, &tried)))
}

/// May the caller make a cgroup in `place`, and move itself from below `place` into it?
/// Where somebody else owns the place, its cgroups can be exchanged before they are bound: root,
/// too, makes them only where they are root's.
fn may_place(place: &Path) -> bool {
    let owner = fs::metadata(place).map(|m| m.uid()).ok();
    owner == Some(rustix::process::geteuid().as_raw())
        && access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok()
        && access(place.join("cgroup.procs"), Access::WRITE_OK).is_ok()
}

/// Why the kernel would not make `place`, which has processes, a threaded domain that gives the cpu
/// controller, whoever agrees (`cgroup_can_be_thread_root`).
fn cannot_be_threaded(place: &Path) -> Option<&'static str> {
    let has_cpu = host::words(&place.join("cgroup.controllers"))
        .iter()
        .any(|name| name == "cpu");
    if !has_cpu {
        return Some("it has no cpu controller to give: the cgroup above it must give it that");
    }
    if access(place.join("cgroup.subtree_control"), Access::WRITE_OK).is_err() {
        return Some("you may not write its cgroup.subtree_control");
    }
    let below = fs::read_dir(place).into_iter().flatten().flatten();
    let mut children = below.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
    let domain = |child: &Path| kind(child) == "domain" && !controller::is_empty(child);
    children
        .any(|child| domain(&child.path()))
        .then_some("a cgroup in it has processes and is no thread of it")
}

fn in_vain(place: &Path) -> Failure {
    Failure::refused(
        format!(
            "{} would have to be a threaded domain for it, and nothing holds shares of cpu now",
            place.display()
        ),
        "`tixctl status` says why; run the command without tixctl, or with --threaded all the same",
    )
}

/// Asks on the terminal whether `place` may become threaded.
fn agree(place: &Path) -> Result<(), Failure> {
    let place = place.display();
    let change = format!(
        "{place} has processes of its own, so it has to be a threaded domain until the command has \
         ended: meanwhile no process can be put into another cgroup in it (\"Operation not \
         supported\"), and a container runtime or a systemd that works in it fails"
    );
    if ask::agrees(&format!(
        "{change}.\nMake it threaded until the command has ended?"
    )) {
        return Ok(());
    }
    let shell = shell::word(&format!("{place}/shell"));
    Err(Failure::refused(
        change,
        format!(
            "`--threaded` allows it; or move its processes into a child, then nothing has to be \
             threaded: mkdir {shell} && echo $$ > {shell}/cgroup.procs"
        ),
    ))
}

/// Makes a cgroup in `place`, ready to take this process.
fn below(mount: &Path, place: &Path, change: Change) -> Result<Own, Error> {
    let (directory, lock) = fresh(place)?;
    // From here on the janitor takes back what was done, however this process ends.
    let pipe = janitor::start(&directory, lock).map_err(|failure| {
        // Nothing is in it: the first error is the one to tell.
        let _ = fs::remove_dir(&directory);
        Error::other(format!("{failure:?}"))
    })?;
    controller::begin(place, &directory)?;
    prepare(&directory, change >= Change::IsThreaded)?;
    let relative = directory.strip_prefix(mount).unwrap_or(&directory);
    Ok(Own {
        cgroup: format!("/{}", relative.display()),
        _janitor: pipe,
        directory,
    })
}

/// Makes a directory with a name of its own, and locks it: a process of this number may have left
/// one.
fn fresh(place: &Path) -> Result<(PathBuf, File), Error> {
    let pid = std::process::id();
    for attempt in 0..100 {
        let name = match attempt {
            0 => format!("{}{pid}", controller::NAMES),
            attempt => format!("{}{pid}-{attempt}", controller::NAMES),
        };
        let directory = place.join(name);
        match fs::create_dir(&directory) {
            Err(err) if err.kind() == ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        match controller::lock(&directory) {
            Err(err) if err.kind() == ErrorKind::NotFound => {}
            locked => return Ok((directory, locked?)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Makes sure that processes can be put in, and that they get a share of their own.
fn prepare(directory: &Path, threaded: bool) -> Result<(), Error> {
    if kind(directory) == "domain invalid" {
        if !threaded {
            return Err(Error::other("it has become threaded meanwhile"));
        }
        fs::write(directory.join("cgroup.type"), "threaded")?;
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
            "you may not make a cgroup for the command: neither {home} nor a cgroup above it is \
             yours"
        ),
        tried => format!(
            "no cgroup with the cpu controller can be made for the command ({})",
            tried.join("; ")
        ),
    };
    let uid = rustix::process::geteuid().as_raw();
    let word = |below: &str| shell::word(&format!("{home}{below}"));
    let (you, shell, own) = (word("/you"), word("/you/shell"), word("/shell"));
    let control = word("/cgroup.subtree_control");
    let hint = match tried {
        [] => format!(
            "as root, give your shell a cgroup that is yours: mkdir -p {shell} && chown {uid} \
             {you} {you}/cgroup.procs {you}/cgroup.threads {you}/cgroup.subtree_control && chown \
             -R {uid} {shell} && echo PID-OF-YOUR-SHELL > {shell}/cgroup.procs"
        ),
        _ => format!(
            "put your shell into a child of its own and enable cpu beside it: mkdir {own} && \
             echo $$ > {own}/cgroup.procs && echo +cpu > {control}"
        ),
    };
    Failure::refused(message, hint)
}

#[cfg(test)]
mod tests {
    use super::Change::{self, BecomesThreaded, Enable, IsThreaded, Nothing};
    use super::cannot_be_threaded;

    #[test]
    fn nothing_is_asked_where_no_answer_helps() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path();
        let write = |file: &str, text: &str| std::fs::write(place.join(file), text).unwrap();
        let why = || cannot_be_threaded(place).unwrap_or_default();
        write("cgroup.controllers", "cpuset memory\n");
        write("cgroup.subtree_control", "");
        assert!(why().contains("no cpu controller"), "{}", why());
        write("cgroup.controllers", "cpuset cpu memory\n");
        assert_eq!(why(), "");
        std::fs::create_dir(place.join("box")).unwrap();
        for (kind, populated, can) in [
            ("domain", 1, false),
            ("domain", 0, true),
            ("threaded", 1, true),
            ("domain invalid", 1, true),
        ] {
            write("box/cgroup.type", kind);
            write(
                "box/cgroup.events",
                &format!("populated {populated}\nfrozen 0\n"),
            );
            assert_eq!(
                cannot_be_threaded(place).is_none(),
                can,
                "{kind} {populated}"
            );
        }
    }

    #[test]
    fn what_a_place_becomes() {
        let of = |kind, gives_cpu, has_processes| Change::of(kind, gives_cpu, has_processes, false);
        assert_eq!(of("", true, true), Some(Nothing));
        assert_eq!(of("", false, true), Some(Enable));
        assert_eq!(of("domain", true, false), Some(Nothing));
        assert_eq!(of("domain", false, false), Some(Enable));
        assert_eq!(of("domain", false, true), Some(BecomesThreaded));
        assert_eq!(of("domain threaded", true, true), Some(IsThreaded));
        assert_eq!(of("threaded", false, false), Some(IsThreaded));
        assert_eq!(of("domain invalid", false, false), None);
        // A threaded domain of jobs' making asks again: it stays one for longer.
        let ours = Change::of("domain threaded", true, true, true);
        assert_eq!(ours, Some(BecomesThreaded));
        // The least change comes first.
        assert!(Nothing < Enable && Enable < IsThreaded && IsThreaded < BecomesThreaded);
    }
}
