// SPDX-License-Identifier: GPL-2.0-only
//! What tixd tells of what was done, and of what was refused: names in full, and what would permit
//! the very thing that was asked.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tix_fuzz::world::{ALICE, ALICES, BOB, Client, SERVICE, runtime, with};

fn fund(holder: &str, issuer: &str) -> Value {
    json!({"holder": holder, "issuer": issuer, "resource": "cpu", "amount": 7})
}

#[test]
fn what_is_destroyed_is_named_in_the_log_and_to_whoever_watches() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        let mut watcher = world.connect(0);
        let watch = json!({"method": "org.tix.Tix.Watch", "more": true, "parameters": {}});
        assert!(watcher.send(format!("{watch}\0").as_bytes()).await);
        watcher.message().await.unwrap();
        for name in ["gold", "silver"] {
            alice.done("Create", json!({"name": name})).await;
        }
        alice.done("Fund", fund("gold", ALICES)).await;
        alice.done("Fund", fund("silver", "gold")).await;
        let bind = json!({"name": "silver", "target": ALICES});
        assert_eq!(alice.refused("Bind", bind).await.0, "WouldCycle");
        let gone = alice.done("Destroy", json!({"name": "gold"})).await;
        assert_eq!(
            gone,
            json!({"name": "alice/gold", "tickets": 2, "cgroups": []})
        );
        let log = world.log().await;
        let last = log.iter().rfind(|r| r.kind == "destroy").unwrap();
        assert_eq!(last.subject, "alice/gold");
        let words: Vec<&str> = last.text.split("; ").collect();
        let all = [
            "alice/silver no longer holds cpu tickets of alice/gold",
            &format!("alice/gold no longer holds cpu tickets of {ALICES}"),
            "alice/gold destroyed",
        ];
        assert!(
            all.iter().all(|w| words.contains(w)) && words.len() == 3,
            "{words:?}"
        );
        let mut told: Vec<Value> = Vec::new();
        while told.last().is_none_or(|e| e["kind"] != "destroyed") {
            let event = watcher.message().await.unwrap()["parameters"]["event"].clone();
            told.extend(event.is_object().then_some(event));
        }
        let heard: Vec<&str> = told.iter().filter_map(|e| e["message"].as_str()).collect();
        assert!(heard.ends_with(&words), "{heard:?}");
    });
}

#[test]
fn a_name_of_two_meanings_destroys_nothing() {
    with(&runtime(), async |world| {
        let (mut root, mut alice) = (world.connect(0), world.connect(ALICE));
        // Alice may destroy it, too.
        let roots = json!({"name": "gold", "owner": ALICE});
        root.done("Create", roots).await;
        // It is nobody's to destroy who may not: that is what is said.
        let mut bob = world.connect(BOB);
        let (error, _) = bob.refused("Destroy", json!({"name": "gold"})).await;
        assert_eq!(error, "NotPermitted");
        let fallen = alice.refused("Destroy", json!({"name": "gold"})).await;
        alice.done("Create", json!({"name": "gold"})).await;
        let both = alice.refused("Destroy", json!({"name": "gold"})).await;
        for ((error, why), typed) in [
            (&fallen, vec!["`tixctl destroy root/gold`"]),
            (
                &both,
                vec!["`tixctl destroy alice/gold`", "`tixctl destroy root/gold`"],
            ),
        ] {
            assert_eq!(error, "Ambiguous");
            assert_eq!(why.matches("`tixctl destroy").count(), typed.len(), "{why}");
            assert!(typed.iter().all(|t| why.contains(t)), "{why}");
        }
        // What only reads means her own.
        let hers = alice.done("Explain", json!({"name": "gold"})).await;
        assert_eq!(hers["currency"]["name"], "alice/gold");
        let gone = alice.done("Destroy", json!({"name": "alice/gold"})).await;
        assert_eq!(gone["name"], "alice/gold");
        let gone = alice.done("Destroy", json!({"name": "root/gold"})).await;
        assert_eq!(gone["name"], "gold");
        let (error, _) = alice.refused("Destroy", json!({"name": "gold"})).await;
        assert_eq!(error, "NoSuchCurrency");
        // One meaning, and hers; and root's names are plain.
        alice.done("Create", json!({"name": "gold"})).await;
        root.done("Create", json!({"name": "silver"})).await;
        let gone = alice.done("Destroy", json!({"name": "gold"})).await;
        assert_eq!(gone["name"], "alice/gold");
        let gone = root.done("Destroy", json!({"name": "silver"})).await;
        assert_eq!(gone["name"], "silver");
    });
}

/// The hint of a refusal for want of a right.
async fn hint(client: &mut Client, method: &str, parameters: Value) -> String {
    let (error, said) = client.refused(method, parameters).await;
    assert_eq!(error, "NotPermitted", "{said}");
    let said: Value = serde_json::from_str(&said).unwrap();
    format!(
        "{method}: {}\n  {}\n",
        said["message"].as_str().unwrap(),
        said["hint"].as_str().unwrap()
    )
}

#[test]
fn a_hint_says_what_would_permit_this_very_operation() {
    with(&runtime(), async |world| {
        let (mut root, mut bob) = (world.connect(0), world.connect(BOB));
        let mut alice = world.connect(ALICE);
        bob.done("Create", json!({"name": "pool", "mode": 0o700}))
            .await;
        alice.done("Create", json!({"name": "own"})).await;
        alice
            .done("Create", json!({"name": "shut", "mode": 0o300}))
            .await;
        root.done("Create", json!({"name": "held", "owner": ALICE}))
            .await;
        let limit = json!({"name": "held", "resource": "cpu", "milli": 500});
        root.done("Limit", limit).await;
        let asked = [
            ("Fund", fund("own", "base")),
            ("Fund", fund("own", "bob/pool")),
            ("Fund", fund("bob/pool", "own")),
            ("Fund", fund("shut", "own")),
            ("Destroy", json!({"name": "bob/pool"})),
            (
                "Unfund",
                json!({"holder": SERVICE, "issuer": "base", "resource": "cpu"}),
            ),
            (
                "Unfund",
                json!({"holder": "bob/pool", "issuer": "base", "resource": "cpu"}),
            ),
            ("Chmod", json!({"name": "bob/pool", "mode": "o+f"})),
            ("Chown", json!({"name": "bob/pool", "owner": ALICE})),
            ("Chown", json!({"name": "own", "owner": BOB})),
            ("Chown", json!({"name": "own", "group": 0})),
            ("Create", json!({"name": "new", "owner": BOB})),
            ("Create", json!({"name": "new", "group": 0})),
            ("Unlimit", json!({"name": "held", "resource": "cpu"})),
            ("Bind", json!({"name": "own", "target": SERVICE})),
            ("DiskEnable", json!({"device": "vda"})),
            ("DiskDisable", json!({"device": "vda"})),
            ("ImportBegin", json!({})),
        ];
        let mut all = String::new();
        for (method, parameters) in asked {
            all += &hint(&mut alice, method, parameters).await;
        }
        // Someone who shares the group of a currency needs one right less.
        root.done("Create", json!({"name": "team", "group": ALICE}))
            .await;
        all += &hint(&mut alice, "Fund", fund("team", "own")).await;
        insta::assert_snapshot!(all);
    });
}

/// Every file below `dir`, with what is in it.
fn files(dir: &Path, all: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files(&path, all),
            false => drop(all.insert(path.clone(), std::fs::read_to_string(path).unwrap())),
        }
    }
}

#[test]
fn whoever_observes_writes_nothing_to_the_kernel() {
    with(&runtime(), async |world| {
        // A cgroup that no controller is enabled for, of which the ledger is not told.
        let bare = world.tree().join("bare/below");
        std::fs::create_dir_all(&bare).unwrap();
        for dir in [&bare, bare.parent().unwrap()] {
            for file in ["cgroup.subtree_control", "cgroup.procs"] {
                std::fs::write(dir.join(file), "").unwrap();
            }
        }
        let all = |tree: &Path| {
            let mut all = BTreeMap::new();
            files(tree, &mut all);
            all
        };
        let before = all(&world.tree());
        let mut root = world.connect(0);
        root.done("Create", json!({"name": "gold"})).await;
        root.done("Fund", fund("gold", "base")).await;
        for resource in ["cpu", "disk", "memory"] {
            let part = match resource {
                "memory" => json!({"bytes": 4096}),
                _ => json!({"milli": 100}),
            };
            let mut asked = json!({"holder": "gold", "issuer": "base", "resource": resource});
            let asked_more = part.as_object().unwrap().clone();
            asked.as_object_mut().unwrap().extend(asked_more);
            root.done("Reserve", asked).await;
        }
        let limit = json!({"name": "gold", "resource": "cpu", "milli": 500});
        root.done("Limit", limit).await;
        root.done("Bind", json!({"name": "gold", "target": SERVICE}))
            .await;
        let run = json!({"cgroup": "/bare/below", "issuer": "base"});
        for (method, asked, what) in [
            (
                "Bind",
                json!({"name": "gold", "target": "/bare/below"}),
                "enable the cpu controller",
            ),
            ("RunBegin", run, "enable the cpu controller"),
            (
                "DiskEnable",
                json!({"device": "vda"}),
                "change how a disk is shared",
            ),
            (
                "DiskEnable",
                json!({"device": "vda", "bfq": true}),
                "change how a disk is shared",
            ),
            (
                "DiskDisable",
                json!({"device": "vda"}),
                "change how a disk is shared",
            ),
        ] {
            let (_, why) = root.refused(method, asked).await;
            let says = [
                "tixd does not",
                what,
                "runs with --observe",
                "without --observe",
            ];
            assert!(says.iter().all(|w| why.contains(w)), "{method}: {why}");
        }
        root.done("Destroy", json!({"name": "gold"})).await;
        assert_eq!(all(&world.tree()), before);
    });
}
