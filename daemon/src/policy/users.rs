// SPDX-License-Identifier: GPL-2.0-only
//! Users and groups as the system's databases have them.
//!
//! Through the C library, because only it knows them all: sssd, LDAP and systemd-homed hook in
//! there (NSS), not into /etc/passwd. **NSS may block**, for as long as a directory server takes:
//! never call this on the writer's thread.

use super::subject::User;
use nix::unistd::{Gid, Group, Uid, getgrouplist};
use std::ffi::CString;
use std::io;
use tix_model::NOBODY;

/// Who looks up the owners that a policy file names.
pub trait Names {
    /// The user's number; `None`: there is no such user.
    fn uid(&self, name: &str) -> io::Result<Option<u32>>;
    /// The group's.
    fn gid(&self, name: &str) -> io::Result<Option<u32>>;
}

/// The system's databases. Blocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Names for System {
    fn uid(&self, name: &str) -> io::Result<Option<u32>> {
        // The C library would take what is before the NUL.
        if name.contains('\0') {
            return Ok(None);
        }
        Ok(nix::unistd::User::from_name(name)?.map(|u| u.uid.as_raw()))
    }

    fn gid(&self, name: &str) -> io::Result<Option<u32>> {
        if name.contains('\0') {
            return Ok(None);
        }
        Ok(Group::from_name(name)?.map(|g| g.gid.as_raw()))
    }
}

/// The name of the user with this number. Blocks.
pub fn name(uid: u32) -> io::Result<Option<String>> {
    Ok(nix::unistd::User::from_uid(Uid::from_raw(uid))?.map(|user| user.name))
}

/// The user with this number, and every group of theirs. One that no database knows has neither
/// name nor groups.
///
/// Blocks. An error is not "no such user": a directory server may be away, and who asks should ask
/// again rather than decide as if the user had no groups.
pub fn lookup(uid: u32) -> io::Result<User> {
    let Some(found) = nix::unistd::User::from_uid(Uid::from_raw(uid))? else {
        return Ok(User {
            uid,
            gid: NOBODY,
            name: None,
            groups: vec![],
        });
    };
    let mut gids = match CString::new(found.name.as_bytes()) {
        Ok(name) => getgrouplist(&name, found.gid)?,
        Err(_) => vec![found.gid],
    };
    gids.sort_unstable_by_key(|g| g.as_raw());
    gids.dedup();
    let groups = gids
        .into_iter()
        .map(|gid: Gid| Ok((gid.as_raw(), Group::from_gid(gid)?.map(|g| g.name))))
        .collect::<io::Result<_>>()?;
    Ok(User {
        uid,
        gid: found.gid.as_raw(),
        name: Some(found.name),
        groups,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_nobody_there() {
        let root = lookup(0).expect("the databases answer");
        assert_eq!((root.name.as_deref(), root.gid), (Some("root"), 0));
        assert_eq!(name(0).ok(), Some(Some("root".into())));
        assert_eq!(name(3_999_999_999).ok(), Some(None));
        assert!(root.groups.contains(&(0, Some("root".into()))));
        let unknown = lookup(3_999_999_999).expect("the databases answer");
        assert_eq!((unknown.name, unknown.gid), (None, NOBODY));
        assert_eq!(System.uid("root").ok(), Some(Some(0)));
        assert_eq!(System.gid("root").ok(), Some(Some(0)));
        assert_eq!(System.uid("no such user").ok(), Some(None));
        assert_eq!(System.uid("root\0x").ok(), Some(None));
    }
}
