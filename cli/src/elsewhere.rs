// SPDX-License-Identifier: GPL-2.0-only
//! In another cgroup namespace than tixd's, such as a container's, `/a` is another cgroup than for tixd, and so is a unit: none can be
//! named there, lest it be one outside. What tixd says names cgroups as tixd sees them, which is said.

use crate::cli::{Command, wait};
use crate::failure::Failure;
use tix_client::Client;

/// What of a command line, without the program, names a cgroup.
fn cgroup(arguments: impl Iterator<Item = String>) -> Option<String> {
    const UNITS: [&str; 5] = [".service", ".slice", ".scope", ".socket", ".mount"];
    let values = arguments.take_while(|a| a != "--").map(|a| {
        match a.strip_prefix('-').and_then(|a| a.split_once('=')) {
            Some((_, value)) => value.to_owned(),
            None => a,
        }
    });
    let mut values = values.filter(|v| !v.starts_with('-'));
    values.find(|v| v.starts_with('/') || UNITS.iter().any(|unit| v.ends_with(unit)))
}

/// May this be asked from here?
///
/// # Errors
/// When it names a cgroup, or makes one, and tixd would take it for another.
pub fn check(command: &Command) -> Result<(), Failure> {
    let named = match command {
        // What these name are files and disks, or they ask nobody.
        Command::Disk(_)
        | Command::Export(_)
        | Command::Doctor(_)
        | Command::Completions(_)
        | Command::Pages(_)
        | Command::RemoveWhenEmpty(_) => return Ok(()),
        Command::Import(_) => Some("a document".to_owned()),
        Command::Run(_) | Command::Nice(_) => Some("the command's cgroup".to_owned()),
        _ => cgroup(std::env::args().skip(1)),
    };
    let shows = matches!(command, Command::Tree(_) | Command::Top(_));
    if (named.is_none() && !shows) || tix_client::place::sees_all() {
        return Ok(());
    }
    // Who cannot connect is told so by the command.
    if !wait(Client::connect()).is_ok_and(|c| c.is_outside) {
        return Ok(());
    }
    match named {
        Some(what) => Err(Failure::refused(
            format!(
                "{what} cannot be named from here: tixd is outside of this cgroup namespace, and would take it for another cgroup"
            ),
            "name a currency instead, or run tixctl in the cgroup namespace that tixd is in",
        )),
        None => {
            eprintln!(
                "tixctl: cgroups have the names that they have outside of this cgroup namespace"
            );
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cgroup;

    #[test]
    fn what_names_a_cgroup() {
        let found = |line: &str| cgroup(line.split(' ').map(str::to_owned));
        for (line, named) in [
            ("explain /", Some("/")),
            ("bind mine nginx.service", Some("nginx.service")),
            ("fund mine --from /a cpu 5", Some("/a")),
            ("fund mine --from=/a cpu 5", Some("/a")),
            ("fund mine --from base cpu 5", None),
            ("run --cpu 5 -- /bin/true", None),
            ("create mine", None),
        ] {
            assert_eq!(found(line).as_deref(), named, "{line}");
        }
    }
}
