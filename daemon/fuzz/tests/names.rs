// SPDX-License-Identifier: GPL-2.0-only
//! Names as a land grab: whoever takes first the names that root, a policy, tixd or another user
//! will rely on gets nothing by it.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex};
use tix_fuzz::world::{ALICE, ALICES, BOB, BOBS, Client, World, runtime, with, with_rows};
use tix_ledger::{End, Key, Kind, POLICY, Resource, Row, Withdrawn};
use tokio::task::yield_now;

async fn named(world: &World, name: &str) -> Option<(u32, u32)> {
    let name = name.to_owned();
    let found = world.look(move |core| {
        let c = core.ledger.get(core.ledger.find(&name)?)?;
        Some((c.owner, c.by))
    });
    found.await
}

/// Waits for a currency, which comes by itself.
async fn comes(world: &World, name: &str) -> (u32, u32) {
    loop {
        match named(world, name).await {
            Some(found) => return found,
            None => yield_now().await,
        }
    }
}

/// Tickets that the currency `name` has issued of the CPU.
async fn issued(world: &World, name: &str) -> u32 {
    let name = name.to_owned();
    let found = world.look(move |core| {
        let c = core.ledger.get(core.ledger.find(&name).unwrap()).unwrap();
        c.issued(Resource::Cpu).0.count
    });
    found.await
}

async fn make(client: &mut Client, name: &str) -> String {
    let made = client.done("Create", json!({"name": name})).await;
    made["name"].as_str().unwrap().to_owned()
}

fn fund(holder: &str, issuer: &str, amount: u64) -> Value {
    json!({"holder": holder, "issuer": issuer, "resource": "cpu", "amount": amount})
}

const GOLD: &str = r#"
[[currency]]
name = "gold"
owner = "root"
fund = [{ from = "base", cpu = 600 }]

[[currency]]
name = "users"
fund = [{ from = "base", cpu = 900 }]

[[rule]]
match = {}
currency = "user-{uid}"
fund = [{ from = "users", cpu = 100 }]
"#;

#[test]
fn a_policys_currency_is_not_that_of_who_came_first() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        for name in ["gold", "users", "user-1000", "user-1001", "lifeline"] {
            assert_eq!(make(&mut alice, name).await, format!("alice/{name}"));
            // Given away before it is anybody's.
            alice.done("Fund", fund(ALICES, name, 1000)).await;
        }
        let before = world.entitlement("alice/gold").await;
        world.policy(GOLD).await;
        for name in ["gold", "users", "user-1000", "user-1001"] {
            assert_eq!(comes(world, name).await.1, POLICY, "{name}");
        }
        assert_eq!(comes(world, "gold").await.0, 0);
        assert_eq!(issued(world, "gold").await, 0);
        assert_eq!(world.entitlement("alice/gold").await, before);
        while world.entitlement("gold").await == 0 || world.entitlement("users").await == 0 {
            yield_now().await;
        }
        // Bob has what is bob's, and both the same.
        let same = async || {
            let (hers, his) = (
                world.entitlement(ALICES).await,
                world.entitlement(BOBS).await,
            );
            his > 0 && his == hers
        };
        while !same().await {
            yield_now().await;
        }
        // What she says means hers still; what is plain she can issue no tickets of.
        let hers = alice.done("Explain", json!({"name": "gold"})).await;
        assert_eq!(hers["currency"]["name"], "alice/gold");
        alice.done("Destroy", json!({"name": "alice/gold"})).await;
        let theft = fund(ALICES, "gold", 1);
        assert_eq!(alice.refused("Fund", theft).await.0, "NotPermitted");
    });
}

#[test]
fn a_name_with_anothers_user_in_front_is_refused_and_why() {
    with(&runtime(), async |world| {
        let (mut alice, mut bob) = (world.connect(ALICE), world.connect(BOB));
        make(&mut bob, "gold").await;
        for name in ["bob/gold", "bob/silver", "1001/silver", "carol/x", "root/x"] {
            let (error, why) = alice.refused("Create", json!({"name": name})).await;
            assert_eq!(error, "BadName", "{name}");
            assert!(why.contains("alice/NAME"), "{why}");
        }
        let cgroup = format!("{ALICES}/job");
        assert!(world.appears(&cgroup, ALICE));
        world.look(|_| ()).await;
        let run = json!({"name": "bob/job", "cgroup": cgroup, "issuer": ALICES});
        assert_eq!(alice.refused("RunBegin", run).await.0, "BadName");
        let mut root = world.connect(0);
        let (error, why) = root.refused("Create", json!({"name": "alice/x"})).await;
        assert!(error == "BadName" && why.contains("plain"), "{error} {why}");
        // Bob's is his to say shortly, and everybody's to say in full.
        assert_eq!(
            alice.refused("Explain", json!({"name": "gold"})).await.0,
            "NoSuchCurrency"
        );
        for (client, name) in [(&mut alice, "bob/gold"), (&mut bob, "gold")] {
            for name in [name, "1001/gold"] {
                let found = client.done("Explain", json!({"name": name})).await;
                assert_eq!(found["currency"]["name"], "bob/gold");
            }
        }
    });
}

#[test]
fn nobodys_run_is_in_the_way_of_anothers_nor_of_ones_own() {
    with(&runtime(), async |world| {
        let mut clients = Vec::new();
        for (uid, slice) in [(ALICE, ALICES), (BOB, BOBS)] {
            for n in 0..3 {
                assert!(world.appears(&format!("{slice}/{n}"), uid));
            }
            clients.push(world.connect(uid));
        }
        let mut root = world.connect(0);
        for slice in [ALICES, BOBS] {
            root.done("Fund", fund(slice, "base", 100)).await;
        }
        let next = world.look(|core| core.ledger.next_cid()).await;
        // Ahead of the numbers, of her own and of bob's.
        for n in next..next + 200 {
            for kind in ["run", "nice"] {
                make(&mut clients[0], &format!("{kind}-{n}")).await;
            }
        }
        for (client, (label, slice)) in clients.iter_mut().zip([("alice", ALICES), ("bob", BOBS)]) {
            let mut names = Vec::new();
            for n in 0..2 {
                let run = json!({"issuer": slice, "cgroup": format!("{slice}/{n}")});
                let made = client.done("RunBegin", run).await;
                names.push(made["name"].as_str().unwrap().to_owned());
            }
            let nice = json!({"giver": slice, "cgroup": format!("{slice}/2"), "tickets": 1});
            let made = client.done("NiceBegin", nice).await;
            names.push(made["name"].as_str().unwrap().to_owned());
            for (name, kind) in names.iter().zip(["run", "run", "nice"]) {
                assert!(name.starts_with(&format!("{label}/{kind}-")), "{name}");
            }
            assert_ne!(names[0], names[1]);
        }
    });
}

/// What the last version of tixd kept of users' currencies with plain names.
fn before() -> Vec<(Key, Row)> {
    let currency = |cid, name: &str, owner, by| {
        let row = Row::Currency {
            name: name.to_owned(),
            owner,
            group: owner,
            mode: 0o700,
            transient: None,
            by,
        };
        (Key::Currency(cid), row)
    };
    let ticket = |issuer, holder, amount, by| {
        let key = Key::Ticket {
            issuer,
            holder,
            resource: Resource::Cpu,
            kind: Kind::Soft,
        };
        let row = Row::Ticket {
            amount,
            bytes: false,
            by,
        };
        (key, row)
    };
    let path = |p: &str| End::Path(p.to_owned());
    let offer = Row::Offer {
        party: End::Cid(103),
        by: BOB,
        turn: 7,
        gives: Resource::Cpu,
        give: 1000,
        wants: Resource::Disk,
        want: 1000,
        left: 1000,
        least: 1,
        expires: None,
    };
    vec![
        currency(101, "gold", ALICE, ALICE),
        currency(102, "user-1001", ALICE, ALICE),
        currency(103, "his", BOB, BOB),
        currency(104, "users", 0, POLICY),
        currency(105, "carols", 1002, 1002),
        currency(106, "roots", ALICE, 0),
        ticket(End::Cid(101), path(ALICES), 1000, ALICE),
        // What a policy took for its own.
        ticket(End::Cid(0), End::Cid(101), 600, POLICY),
        ticket(End::Cid(104), End::Cid(102), 100, POLICY),
        (
            Key::Binding(BOBS.to_owned()),
            Row::Binding {
                cid: 102,
                by: POLICY,
                withdrawn: Withdrawn::Cpu,
            },
        ),
        ticket(End::Cid(0), End::Cid(103), 100, 0),
        // More than the policy says now, and some that a holder of that name gave up.
        ticket(End::Cid(0), End::Cid(104), 1000, POLICY),
        (
            Key::Lapsed("users".to_owned(), Resource::Cpu),
            Row::Lapsed { amount: 50 },
        ),
        (Key::Offer(7), offer),
        (
            Key::Lapsed("gold".to_owned(), Resource::Cpu),
            Row::Lapsed { amount: 40 },
        ),
    ]
}

#[test]
fn what_was_taken_before_there_were_spaces_is_moved_and_told() {
    let users = |uid| match uid {
        ALICE => Some("alice".to_owned()),
        BOB => Some("bob".to_owned()),
        _ => None,
    };
    with_rows(&runtime(), &before(), users, async |world| {
        for (name, who) in [
            ("alice/gold", Some((ALICE, ALICE))),
            ("alice/user-1001", Some((ALICE, ALICE))),
            ("bob/his", Some((BOB, BOB))),
            ("1002/carols", Some((1002, 1002))),
            ("users", Some((0, POLICY))),
            ("roots", Some((ALICE, 0))),
            ("gold", None),
            ("user-1001", None),
        ] {
            assert_eq!(named(world, name).await, who, "{name}");
        }
        let renames = (world.log().await.into_iter()).filter(|r| r.kind == "rename");
        let told: Vec<_> = renames.map(|r| (r.subject, r.owner, r.text)).collect();
        let subjects: Vec<&str> = told.iter().map(|(s, _, _)| s.as_str()).collect();
        assert_eq!(
            subjects,
            ["1002/carols", "alice/gold", "bob/his", "alice/user-1001"]
        );
        let (_, _, gold) = &told[1];
        assert!(gold.starts_with("gold, made by uid 1000"), "{told:?}");
        assert!(gold.contains("no longer holds"), "{told:?}");
        assert_eq!(world.entitlement("alice/gold").await, 0);
        // Their owners are told, and say the names as before.
        let mut alice = world.connect(ALICE);
        let log = alice.done("Log", json!({"subject": "gold"})).await;
        assert_eq!(log["records"][0]["kind"], "rename", "{log}");
        let mut bob = world.connect(BOB);
        let offers = bob.done("Offers", json!({"principal": "his"})).await;
        assert_eq!(offers["offers"][0]["principal"], "bob/his", "{offers}");
        world.policy(GOLD).await;
        assert_eq!(comes(world, "gold").await, (0, POLICY));
        assert_eq!(comes(world, "user-1001").await.1, POLICY);
        let payer = async || {
            let payer = world.look(|core| {
                let slice = core.ledger.get(core.ledger.find(BOBS).unwrap()).unwrap();
                slice.bound_to.map(|c| core.ledger.name(c))
            });
            payer.await
        };
        while payer().await.as_deref() != Some("user-1001") {
            yield_now().await;
        }
        assert_eq!(issued(world, "gold").await, 0);
        let exact = async || {
            let users = world.look(|core| {
                let c = core.ledger.get(core.ledger.find("users").unwrap()).unwrap();
                let has = c
                    .grants(Resource::Cpu)
                    .iter()
                    .map(|g| g.amount)
                    .sum::<u64>();
                (has, core.ledger.lapsed("users", Resource::Cpu))
            });
            users.await == (900, 0)
        };
        while !exact().await {
            yield_now().await;
        }
        let lapsed = world.look(|core| {
            let of = |name: &str| core.ledger.lapsed(name, Resource::Cpu);
            (of("gold"), of("alice/gold"))
        });
        assert_eq!(lapsed.await, (0, 40));
        // And what root takes of what has lapsed is that.
        let lapsed = json!({"holder": "alice/gold", "issuer": "base", "resource": "cpu"});
        alice.done("Destroy", json!({"name": "alice/gold"})).await;
        world.connect(0).done("Unfund", lapsed).await;
    });
}

#[test]
fn users_databases_that_hang_keep_nobody_waiting() {
    let hang = Arc::new((Mutex::new(true), Condvar::new()));
    let gate = Arc::clone(&hang);
    let users = move |uid: u32| {
        let mut shut = gate.0.lock().unwrap();
        while *shut && uid == ALICE {
            shut = gate.1.wait(shut).unwrap();
        }
        Some(format!("u{uid}"))
    };
    with_rows(&runtime(), &[], users, async |world| {
        let (mut alice, mut second) = (world.connect(ALICE), world.connect(ALICE));
        let mut others = [world.connect(BOB), world.connect(0)];
        let waiting = async { tokio::join!(make(&mut alice, "a"), make(&mut second, "b")) };
        let served = async {
            let [bob, root] = &mut others;
            assert_eq!(make(bob, "gold").await, "u1001/gold");
            assert_eq!(make(root, "gold").await, "gold");
            true
        };
        let (hers, served) = tokio::join!(waiting, served);
        assert!(served);
        assert_eq!(hers, ("1000/a".to_owned(), "1000/b".to_owned()));
        *hang.0.lock().unwrap() = false;
        hang.1.notify_all();
        // Kept: nobody's names change.
        assert_eq!(make(&mut world.connect(ALICE), "c").await, "1000/c");
        let meant = alice.done("Explain", json!({"name": "a"})).await;
        assert_eq!(meant["currency"]["name"], "1000/a");
    });
}

async fn import(world: &World, text: &str) -> Vec<String> {
    let mut root = world.connect(0);
    root.done("ImportBegin", json!({})).await;
    root.done("ImportChunk", json!({"id": 1, "chunk": text}))
        .await;
    let end = json!({"id": 1, "dry_run": false});
    let changes = root.done("ImportEnd", end).await["changes"].clone();
    serde_json::from_value(changes).unwrap()
}

async fn export(world: &World) -> String {
    let text = world.connect(0).done("Export", json!({})).await;
    text["chunk"].as_str().unwrap().to_owned()
}

#[test]
fn a_document_of_before_and_one_of_elsewhere_is_in_the_spaces_of_here() {
    let head = r#"{"format":"tix ledger","version":1}"#;
    let currency = |name: &str, by: u32| {
        format!(
            r#"{{"currency":{{"name":"{name}","owner":1000,"group":1000,"mode":"fci------","by":{by}}}}}"#
        )
    };
    let ticket = |from: &str, to: &str| {
        format!(
            r#"{{"ticket":{{"from":"{from}","to":"{to}","resource":"cpu","kind":"soft","amount":5,"bytes":false,"by":0}}}}"#
        )
    };
    let lapsed =
        |name: &str| format!(r#"{{"lapsed":{{"name":"{name}","resource":"cpu","amount":3}}}}"#);
    let space = |uid: u32, label: &str| format!(r#"{{"space":{{"uid":{uid},"label":"{label}"}}}}"#);
    let document = |lines: &[String]| format!("{head}\n{}\n", lines.join("\n"));
    with(&runtime(), async |world| {
        let old = document(&[
            currency("gold", ALICE),
            currency("mine", 0),
            ticket("base", "gold"),
            ticket("mine", "gold"),
            lapsed("gold"),
            // Of the policy's doing, which meant another gold.
            ticket("/user.slice", "gold").replace("\"by\":0", &format!("\"by\":{POLICY}")),
        ]);
        let changes = import(world, &old).await;
        let said = changes.iter().find(|c| c.contains("gold in the file"));
        let said = said.unwrap_or_else(|| panic!("{changes:?}"));
        assert!(
            said.contains("alice/gold") && said.contains("uid 1000"),
            "{said}"
        );
        assert_eq!(named(world, "alice/gold").await, Some((ALICE, ALICE)));
        assert_eq!(named(world, "gold").await, None);
        assert_eq!(named(world, "mine").await, Some((ALICE, 0)));
        let kept = world.look(|core| core.ledger.lapsed("alice/gold", Resource::Cpu));
        assert_eq!(kept.await, 3);
        let left_out = changes.iter().filter(|c| c.starts_with("left out"));
        assert_eq!(left_out.count(), 1, "{changes:?}");
        let again = import(world, &old).await;
        assert_eq!(again, changes[changes.len() - 1..], "all is as it says");
        let now = export(world).await;
        assert!(now.contains(&space(ALICE, "alice")), "{now}");
        assert_eq!(import(world, &now).await, [""; 0]);
        // Where uid 1000 is called anne and bob is another.
        let elsewhere = document(&[
            space(ALICE, "anne"),
            space(1005, "bob"),
            currency("anne/gold", ALICE),
            currency("bob/gold", 1005),
            ticket("base", "anne/gold"),
            ticket("base", "bob/gold"),
            lapsed("anne/gone"),
        ]);
        import(world, &elsewhere).await;
        assert_eq!(named(world, "alice/gold").await, Some((ALICE, ALICE)));
        assert_eq!(named(world, "bob/gold").await, Some((ALICE, 1005)));
        let kept = world.look(|core| core.ledger.lapsed("alice/gone", Resource::Cpu));
        assert_eq!(kept.await, 3);
        let mut bob = world.connect(BOB);
        assert_eq!(make(&mut bob, "gold").await, "1001/gold");
        // Nobody's is made another's.
        for bad in [
            document(&[currency("bob/x", ALICE)]),
            document(&[currency("alice/x", 0)]),
            document(&[space(ALICE, "anne"), currency("anne/x", BOB)]),
            document(&[currency("gold", ALICE), currency("alice/gold", ALICE)]),
        ] {
            let mut root = world.connect(0);
            root.done("ImportBegin", json!({})).await;
            root.done("ImportChunk", json!({"id": 1, "chunk": bad}))
                .await;
            root.refused("ImportEnd", json!({"id": 1, "dry_run": false}))
                .await;
        }
    });
}

#[test]
fn the_log_and_trades_know_what_one_calls_ones_own_also_when_it_is_gone() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        make(&mut alice, "gold").await;
        let mut root = world.connect(0);
        make(&mut root, "gold").await;
        alice
            .done("Chmod", json!({"name": "gold", "mode": "740"}))
            .await;
        alice.done("Destroy", json!({"name": "alice/gold"})).await;
        root.done("Destroy", json!({"name": "gold"})).await;
        let log = alice.done("Log", json!({"subject": "gold"})).await;
        let kinds: Vec<&str> = log["records"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| {
                assert_eq!(r["subject"], "alice/gold");
                r["kind"].as_str().unwrap()
            })
            .collect();
        assert_eq!(kinds, ["create", "chmod", "destroy"]);
        let log = root.done("Log", json!({"subject": "gold"})).await;
        assert_eq!(log["records"].as_array().unwrap().len(), 2, "{log}");
        let none = alice.done("Exchanges", json!({"principal": "gold"})).await;
        assert_eq!(none["exchanges"], json!([]));
    });
}
