// SPDX-License-Identifier: GPL-2.0-only
//! One input of the policies' fuzzer: the text of a file, or of several with NULs between them.

use tixd::policy::{Names, Policy, Subject, User, report};

/// The users and groups that there are.
struct Few;

impl Names for Few {
    fn uid(&self, name: &str) -> std::io::Result<Option<u32>> {
        Ok(match name {
            "root" => Some(0),
            "alice" => Some(1000),
            "bob" => Some(1001),
            _ => None,
        })
    }

    fn gid(&self, name: &str) -> std::io::Result<Option<u32>> {
        Ok(match name {
            "staff" => Some(50),
            _ => self.uid(name)?,
        })
    }
}

/// Reads it and, if it is a policy, has it decide. Returns whether it is one.
pub fn run(input: &[u8]) -> bool {
    let files: Vec<(String, String)> = input
        .split(|b| *b == 0)
        .enumerate()
        .map(|(n, text)| {
            (
                format!("{n}.toml"),
                String::from_utf8_lossy(text).into_owned(),
            )
        })
        .collect();
    let policy = match Policy::parse(&files, &Few) {
        Ok(policy) => policy,
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for p in problems {
                assert!(!p.to_string().contains('\n'), "{p}");
            }
            return false;
        }
    };
    assert_eq!(policy.check(), []);
    let alice = User {
        uid: 1000,
        gid: 1000,
        name: Some("alice".into()),
        groups: vec![(1000, Some("alice".into())), (50, Some("staff".into()))],
    };
    let subjects = [
        ("/user.slice/user-1000.slice", Some(alice)),
        ("/user.slice/user-1001.slice", None),
        ("/system.slice/nginx.service", None),
        ("/system.slice/a.service/nginx.service", None),
        ("/machine.slice/box.scope", None),
    ];
    let subjects = subjects.map(|(path, user)| Subject {
        path,
        owner: 0,
        group: 0,
        user,
    });
    for subject in &subjects {
        if let Some(decision) = policy.decide(subject) {
            assert!(policy.may_concern(subject.path), "{}", subject.path);
            assert!(decision.currency != "base" && !decision.currency.is_empty());
        }
    }
    report(&policy, &subjects);
    true
}
