// SPDX-License-Identifier: GPL-2.0-only
//! Users and groups: names on the screen and on the command line, numbers on the wire. The host's
//! name service says which is which.

use crate::failure::Failure;
use nix::unistd::{Gid, Group, Uid, User};
use std::collections::HashMap;

/// The number of a user that is named by name or number.
pub fn uid(user: &str) -> Result<u32, Failure> {
    match User::from_name(user) {
        Ok(Some(found)) => Ok(found.uid.as_raw()),
        found => number(user).ok_or_else(|| unknown("user", "passwd", user, found.err())),
    }
}

/// The number of a group that is named by name or number.
pub fn gid(group: &str) -> Result<u32, Failure> {
    match Group::from_name(group) {
        Ok(Some(found)) => Ok(found.gid.as_raw()),
        found => number(group).ok_or_else(|| unknown("group", "group", group, found.err())),
    }
}

/// The largest number means nobody.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != u32::MAX)
}

fn unknown(what: &str, database: &str, name: &str, err: Option<nix::Error>) -> Failure {
    let why = err.map(|err| format!(": {err}")).unwrap_or_default();
    Failure::refused(
        format!("there is no {what} called {name:?}{why}"),
        format!("`getent {database}` lists them; a number is taken, too"),
    )
}

/// Names of numbers, each asked for once. One without a name is shown as a number.
#[derive(Debug, Default)]
pub struct Names {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Names {
    pub fn user(&mut self, uid: u32) -> &str {
        self.users
            .entry(uid)
            .or_insert_with(|| match User::from_uid(Uid::from_raw(uid)) {
                Ok(Some(user)) => user.name,
                _ => uid.to_string(),
            })
    }

    pub fn group(&mut self, gid: u32) -> &str {
        self.groups
            .entry(gid)
            .or_insert_with(|| match Group::from_gid(Gid::from_raw(gid)) {
                Ok(Some(group)) => group.name,
                _ => gid.to_string(),
            })
    }

    /// Names as made up for a test, whatever this host has.
    #[cfg(test)]
    pub fn of(users: &[(u32, &str)], groups: &[(u32, &str)]) -> Names {
        let map = |list: &[(u32, &str)]| {
            list.iter()
                .map(|(number, name)| (*number, (*name).to_owned()))
                .collect()
        };
        Names {
            users: map(users),
            groups: map(groups),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(uid("root"), Ok(0));
        assert_eq!(gid("root"), Ok(0));
        assert_eq!(uid("4000000000"), Ok(4_000_000_000));
        for wrong in ["", "no-such-user-here", "-1", "4294967295", "1.5", "a:b"] {
            assert!(uid(wrong).is_err() && gid(wrong).is_err(), "{wrong:?}");
        }
        let mut names = Names::default();
        assert_eq!(names.user(0), "root");
        assert_eq!(names.user(3_999_999_999), "3999999999");
        assert_eq!(names.group(3_999_999_999), "3999999999");
    }
}
