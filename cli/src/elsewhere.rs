// SPDX-License-Identifier: GPL-2.0-only
//! In another cgroup namespace than tixd's, such as a container's, `/a` is another cgroup than for
//! tixd, and so is a unit: none can be named there, lest it be one outside. What tixd says names
//! cgroups as tixd sees them, which is said.

use crate::failure::Failure;
use crate::runtime::wait;
use tix_client::Client;

/// What of a command line, without the program, names a cgroup.
fn cgroup(arguments: impl Iterator<Item = String>) -> Option<String> {
    const UNITS: [&str; 5] = [".service", ".slice", ".scope", ".socket", ".mount"];
    let mut before = String::new();
    let values = arguments.take_while(|a| a != "--").filter_map(|a| {
        let is_socket = std::mem::replace(&mut before, a.clone()) == "--socket";
        match a.strip_prefix('-').and_then(|a| a.split_once('=')) {
            // A file, not a cgroup.
            Some(("-socket", _)) => None,
            Some((_, value)) => Some(value.to_owned()),
            None => Some(a).filter(|_| !is_socket),
        }
    });
    let mut values = values.filter(|v| !v.starts_with('-'));
    values.find(|v| v.starts_with('/') || UNITS.iter().any(|unit| v.ends_with(unit)))
}

/// What a command says to tixd of cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroups {
    /// Nothing: what it names are files and disks, or it asks nobody.
    None,
    /// Those on its command line.
    Named,
    /// It shows all of them, and may name some.
    Shown,
    /// It hands in one that is not on the command line: what it is.
    Made(&'static str),
}

/// May this be asked from here?
///
/// # Errors
/// When it names a cgroup, or makes one, and tixd would take it for another.
pub fn check(cgroups: Cgroups) -> Result<(), Failure> {
    let named = match cgroups {
        Cgroups::None => return Ok(()),
        Cgroups::Made(what) => Some(what.to_owned()),
        Cgroups::Named | Cgroups::Shown => cgroup(std::env::args().skip(1)),
    };
    let shows = cgroups == Cgroups::Shown;
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
                "{what} cannot be named from here: tixd is outside of this cgroup namespace, and \
                 would take it for another cgroup"
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
            ("--socket /run/x.sock create mine", None),
            ("create mine --socket=/run/x.sock", None),
            ("--socket /run/x.sock explain /", Some("/")),
        ] {
            assert_eq!(found(line).as_deref(), named, "{line}");
        }
    }
}
