// SPDX-License-Identifier: GPL-2.0-only
//! What is decided upon: a cgroup, and the user whose slice it is.

use tix_model::NOBODY;

/// A user as the system's databases have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    /// The primary group; [`NOBODY`] of a user that no database knows.
    pub gid: u32,
    pub name: Option<String>,
    /// Every group, the primary one too, with its name if it has one.
    pub groups: Vec<(u32, Option<String>)>,
}

/// A cgroup that appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject<'a> {
    /// From the root of the cgroup tree, which is `/`.
    pub path: &'a str,
    /// The uid and the gid of its directory.
    pub owner: u32,
    pub group: u32,
    /// For `/user.slice/user-UID.slice` the user (`users::lookup`); `None` for other cgroups.
    pub user: Option<User>,
}

impl Subject<'_> {
    /// The user whose slice it is, else the owner of the directory.
    pub(super) fn uid(&self) -> u32 {
        user_of_slice(self.path).unwrap_or(self.owner)
    }

    /// The user's primary group if one is known, else the directory's.
    pub(super) fn gid(&self) -> u32 {
        match &self.user {
            Some(u) if u.gid != NOBODY => u.gid,
            _ => self.group,
        }
    }
}

/// The user whose slice `/user.slice/user-UID.slice` is. The number as systemd writes it: no sign,
/// no zeros in front.
pub fn user_of_slice(path: &str) -> Option<u32> {
    split_user_slice(path)
        .filter(|(_, rest)| rest.is_empty())
        .map(|(uid, _)| uid)
}

/// It is in a user's slice: theirs to divide, and named by them.
pub(super) fn inside_a_session(path: &str) -> bool {
    split_user_slice(path).is_some_and(|(_, rest)| !rest.is_empty())
}

fn split_user_slice(path: &str) -> Option<(u32, &str)> {
    let name = path.strip_prefix("/user.slice/user-")?;
    let (name, rest) = match name.find('/') {
        Some(i) => name.split_at(i),
        None => (name, ""),
    };
    let digits = name.strip_suffix(".slice")?;
    let canonical = digits == "0" || !digits.starts_with(['0', '+']);
    let uid = digits
        .parse()
        .ok()
        .filter(|uid| canonical && *uid != NOBODY)?;
    Some((uid, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_users() {
        for (path, uid) in [
            ("/user.slice/user-0.slice", Some(0)),
            ("/user.slice/user-1000.slice", Some(1000)),
            ("/user.slice/user-+1000.slice", None),
            ("/user.slice/user-01000.slice", None),
            ("/user.slice/user-4294967295.slice", None),
            ("/user.slice/user-.slice", None),
            ("/user.slice", None),
            ("/x/user.slice/user-1000.slice", None),
            ("/user.slice/user-1000.slice/user@1000.service", None),
        ] {
            assert_eq!(user_of_slice(path), uid, "{path}");
        }
        assert!(inside_a_session(
            "/user.slice/user-1000.slice/session-1.scope"
        ));
        assert!(!inside_a_session("/user.slice/user-1000.slice"));
        assert!(!inside_a_session("/user.slice/user-x.slice/a"));
    }
}
