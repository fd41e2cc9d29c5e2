// SPDX-License-Identifier: GPL-2.0-only
//! What holds of any policy and any cgroup.

use super::Few;
use proptest::prelude::*;
use tixd::policy::{Policy, Subject, User, report};

/// Text that is nearly a policy.
fn nearly() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "[[currency]]",
        "[[rule]]",
        "\n",
        "\n",
        "\n",
        "name",
        "match",
        "currency",
        "fund",
        "reserve",
        "mode",
        "owner",
        "skip",
        "uid",
        "unit",
        "cgroup",
        "from",
        "cpu",
        "memory",
        "=",
        "=",
        "=",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "\"a\"",
        "\"base\"",
        "\"user-{uid}\"",
        "\"/a/**\"",
        "\"*.service\"",
        "\"25%\"",
        "\"2G\"",
        "true",
        "-1",
        "0x7fffffffffffffff",
        "1.5",
        "é",
        "#",
        "1979-05-27",
        "a.b",
    ]);
    prop::collection::vec(word, 0..40).prop_map(|words| words.join(" "))
}

fn cgroup() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        3 => prop::sample::select(vec![
            "user.slice", "user-1000.slice", "user-1001.slice", "system.slice", "a.service", "b@x.service", "c.scope", "d",
        ]).prop_map(str::to_owned),
        1 => "\\PC{1,8}",
    ];
    prop::collection::vec(component, 0..5).prop_map(|c| format!("/{}", c.join("/")))
}

fn matching() -> impl Strategy<Value = String> {
    prop::collection::btree_map(
        prop::sample::select(vec!["uid", "gid", "user", "group", "unit", "cgroup"]),
        0usize..3,
        0..3,
    )
    .prop_map(|keys| {
        let values = |key: &str| match key {
            "uid" | "gid" => ["1000", "\"0-1000\"", "[1, 1001]"],
            "user" => ["\"alice\"", "\"bob\"", "[\"alice\", \"bob\"]"],
            "group" => ["\"staff\"", "\"alice\"", "[\"x\"]"],
            "unit" => ["\"*\"", "\"user-*.slice\"", "[\"a.service\", \"*.slice\"]"],
            _ => ["\"/**\"", "\"/user.slice/*\"", "\"/system.slice/**/d\""],
        };
        let all: Vec<String> = keys
            .iter()
            .map(|(k, v)| format!("{k} = {}", values(k)[*v]))
            .collect();
        format!("{{ {} }}", all.join(", "))
    })
}

fn rules(matches: &[String]) -> Policy {
    let text: String = matches
        .iter()
        .enumerate()
        .map(|(i, m)| format!("[[rule]]\nmatch = {m}\ncurrency = \"rule-{i}\"\n"))
        .collect();
    Policy::parse(&[("a".into(), text)], &Few).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_text_is_too_wrong_to_be_refused(text in prop_oneof![nearly(), "\\PC{0,200}"], path in cgroup()) {
        let subject = Subject { path: &path, owner: 1, group: 1, user: None };
        match Policy::parse(&[("a".into(), text)], &Few) {
            Ok(policy) => {
                prop_assert_eq!(policy.check(), []);
                report(&policy, &[subject]);
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                for p in problems {
                    prop_assert!(!p.to_string().contains('\n'), "{}", p);
                }
            }
        }
    }

    #[test]
    fn any_bytes_in_a_file(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let _ = Policy::parse(&[("a".into(), text)], &Few);
    }

    /// A rule's decision does not depend on the rules behind it, and what is before it goes first.
    #[test]
    fn the_first_that_matches_decides(
        matches in prop::collection::vec(matching(), 1..6),
        path in cgroup(),
        owner in 999u32..1002,
        known: bool,
    ) {
        let user = known.then(|| User {
            uid: 1000,
            gid: 1000,
            name: Some("alice".into()),
            groups: vec![(1000, Some("alice".into())), (50, Some("staff".into()))],
        });
        let subject = Subject { path: &path, owner, group: owner, user };
        let all = rules(&matches);
        let decided = all.decide(&subject).map(|d| d.currency);
        prop_assert!(decided.is_none() || all.may_concern(&path));
        // Which one a rule about everything stands for depends on the others; each of the rest can
        // be asked alone.
        let about_all = |m: &String| m.replace(' ', "") == "{}";
        if !all.is_empty() && !matches.iter().any(about_all) {
            let first = matches
                .iter()
                .position(|m| rules(std::slice::from_ref(m)).decide(&subject).is_some());
            prop_assert_eq!(decided, first.map(|i| format!("rule-{i}")));
        }
    }
}
