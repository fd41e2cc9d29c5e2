// SPDX-License-Identifier: GPL-2.0-only
//! Changes that are tried, and that are taken back, by whoever the test likes to be.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use tix_fuzz::world::{ALICE, ALICES, BOB, Client, World, runtime, with};
use tix_ledger::{Caller, Kind, Op, Resource};
use tixd::server::PER_UID;

const GOLD: &str = "alice/gold";

fn fund(holder: &str, issuer: &str, amount: i64) -> Value {
    json!({"holder": holder, "issuer": issuer, "resource": "cpu", "amount": amount})
}

fn ticket(holder: &str, issuer: &str) -> Value {
    json!({"holder": holder, "issuer": issuer, "resource": "cpu"})
}

/// Tickets that the two have of it, and what is withdrawn of base and counts still.
async fn held(world: &World, holder: &str, issuer: &str) -> (u64, u64) {
    let (h, i) = (holder.to_owned(), issuer.to_owned());
    let look = world.look(move |core| {
        let ledger = &core.ledger;
        let (holder, issuer) = ledger.find(&h).zip(ledger.find(&i)).unwrap();
        let held = ledger.held(holder, issuer, Resource::Cpu, Kind::Soft);
        (
            held.map_or(0, |g| g.amount),
            ledger.lapsed(&h, Resource::Cpu),
        )
    });
    look.await
}

/// The number in the log of the newest operation of `uid`.
async fn newest(client: &mut Client, uid: u32) -> i64 {
    let log = client.done("Log", json!({"mine": true})).await;
    let all = log["records"].as_array().unwrap().iter();
    let own = all.rev().find(|r| r["uid"] == uid && r["kind"] != "undo");
    own.unwrap()["seq"].as_i64().unwrap()
}

/// Why it is refused, and what is to be done instead.
async fn refused(client: &mut Client, seq: Value) -> String {
    let (name, why) = client.refused("Undo", json!({ "seq": seq })).await;
    assert_eq!(name, "BadParameter", "{why}");
    why
}

#[test]
fn a_user_may_try_a_change_and_nobody_else_sees_it() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        alice.done("Create", json!({"name": "gold"})).await;
        let records = world.log().await.len();
        alice.done("Rehearse", json!({})).await;
        let reply = alice.done("Fund", fund("gold", ALICES, 300)).await;
        assert_eq!(reply["amount"], 300);
        let told = alice.done("Rehearsed", json!({})).await;
        assert_eq!(
            told["acts"],
            json!([format!("{GOLD} holds 300 cpu tickets of {ALICES}")])
        );
        let effects = told["effects"].as_array().unwrap();
        let gold = effects.iter().find(|e| e["currency"] == GOLD).unwrap();
        assert_eq!(gold["before"], 0.0);
        assert!(gold["after"].as_f64().unwrap() > 0.0, "{gold}");
        assert_eq!(held(world, GOLD, ALICES).await, (0, 0));
        assert_eq!(world.log().await.len(), records);
        // A change that would be refused is refused, for the same reason.
        let mut bob = world.connect(BOB);
        bob.done("Rehearse", json!({})).await;
        let (tried, _) = bob.refused("Fund", fund("alice/gold", ALICES, 1)).await;
        let (done, _) = bob.refused("Fund", fund("alice/gold", ALICES, 1)).await;
        assert_eq!(
            (tried.as_str(), done.as_str()),
            ("NotPermitted", "NotPermitted")
        );
        // Undo is a change as others are.
        alice.done("Fund", fund("gold", ALICES, 300)).await;
        alice.done("Rehearse", json!({})).await;
        alice.done("Undo", json!({})).await;
        assert_eq!(held(world, GOLD, ALICES).await, (300, 0));
        alice.done("Undo", json!({})).await;
        assert_eq!(held(world, GOLD, ALICES).await, (0, 0));
    });
}

/// Whatever it is refused for, what comes next is done.
#[test]
fn a_change_that_is_refused_was_tried_and_the_next_one_is_done() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        alice.done("Create", json!({"name": "gold"})).await;
        let refused = [
            ("Reserve", ticket("gold", ALICES)),
            ("Bind", json!({"name": "nothing", "target": ALICES})),
            ("Undo", json!({"seq": 4711})),
            ("NiceBegin", json!({"cgroup": ALICES})),
            ("ImportBegin", json!({})),
            // Refused before any method is called.
            ("Fund", json!({"holder": "gold"})),
            ("Fond", json!({})),
        ];
        for (n, (method, parameters)) in (1..).zip(refused) {
            alice.done("Rehearse", json!({})).await;
            alice.refused(method, parameters).await;
            alice.done("Fund", fund("gold", ALICES, 1)).await;
            assert_eq!(held(world, GOLD, ALICES).await, (n, 0), "{method}");
        }
        // A call that only looks changes nothing of that.
        let had = held(world, GOLD, ALICES).await;
        alice.done("Rehearse", json!({})).await;
        alice.done("Status", json!({})).await;
        alice.refused("Explain", json!({"name": "nothing"})).await;
        alice.done("Fund", fund("gold", ALICES, 1)).await;
        assert_eq!(held(world, GOLD, ALICES).await, had);
        alice.done("Rehearsed", json!({})).await;
    });
}

/// All the connections that alice may have, each of which has a change tried at once.
#[test]
fn changes_that_are_tried_hold_up_nobody() {
    with(&runtime(), async |world| {
        let mut all = Vec::new();
        for _ in 0..PER_UID {
            let mut alice = world.connect(ALICE);
            alice.done("Rehearse", json!({})).await;
            all.push(alice);
        }
        let call = json!({"method": "org.tix.Tix.Create", "parameters": {"name": "gold"}});
        for alice in &mut all {
            assert!(alice.send(format!("{call}\0").as_bytes()).await);
        }
        world
            .connect(BOB)
            .done("Create", json!({"name": "b"}))
            .await;
        world.connect(0).done("Create", json!({"name": "r"})).await;
        let mut tried = 0;
        for alice in &mut all {
            let answer = alice.message().await.unwrap();
            match answer["error"].as_str() {
                None => tried += 1,
                // Others had the turn for too long.
                Some(error) => assert_eq!(error, "org.tix.Tix.LimitReached", "{answer}"),
            }
        }
        assert!(tried > 0, "no change was tried");
        let made = world.look(|core| core.ledger.find(GOLD)).await;
        assert_eq!(made, None);
    });
}

#[test]
fn of_several_that_take_the_same_back_one_does() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        alice.done("Create", json!({"name": "gold"})).await;
        for _ in 0..2 {
            alice.done("Fund", fund("gold", ALICES, 100)).await;
        }
        let seq = newest(&mut alice, ALICE).await;
        let mut all = vec![alice];
        for _ in 1..PER_UID {
            let mut more = world.connect(ALICE);
            more.done("Status", json!({})).await;
            all.push(more);
        }
        let call = json!({"method": "org.tix.Tix.Undo", "parameters": {"seq": seq}});
        for alice in &mut all {
            assert!(alice.send(format!("{call}\0").as_bytes()).await);
        }
        let mut refused = 0;
        for alice in &mut all {
            let answer = alice.message().await.unwrap();
            if answer["error"].is_null() {
                continue;
            }
            let why = answer["parameters"]["message"].to_string();
            let by = why.contains(&format!("{seq} was taken back by"));
            let now = why.contains(&format!("{seq} is being taken back"));
            assert!(by || now, "{why}");
            refused += 1;
        }
        assert_eq!(refused, PER_UID - 1);
        assert_eq!(held(world, GOLD, ALICES).await, (100, 0));
    });
}

/// Whichever comes first: the later limit is not set back.
#[test]
fn what_is_done_meanwhile_is_not_taken_back_with_it() {
    with(&runtime(), async |world| {
        let (mut alice, mut other) = (world.connect(ALICE), world.connect(ALICE));
        alice.done("Create", json!({"name": "gold"})).await;
        let limit = |milli: u64| json!({"name": GOLD, "resource": "cpu", "milli": milli});
        for turns in 0..40 {
            for milli in [100, 500] {
                alice.done("Limit", limit(milli)).await;
            }
            let seq = newest(&mut alice, ALICE).await;
            let undo = json!({"method": "org.tix.Tix.Undo", "parameters": {"seq": seq}});
            assert!(alice.send(format!("{undo}\0").as_bytes()).await);
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            other.done("Limit", limit(300)).await;
            let answer = alice.message().await.unwrap();
            let milli = world.look(|core| {
                let gold = core.ledger.find(GOLD).unwrap();
                core.ledger.limit_of(gold).map(|l| l.milli)
            });
            assert_eq!(milli.await, Some(300), "{turns}: {answer}");
        }
    });
}

/// What root takes from alice would be root's if root gave it back, and outlive her cgroup.
#[test]
fn what_is_another_users_comes_back_as_that_users_or_not_at_all() {
    with(&runtime(), async |world| {
        let cgroup = format!("{ALICES}/c");
        assert!(world.appears(&cgroup, ALICE));
        world.look(|_| ()).await;
        let (mut alice, mut root) = (world.connect(ALICE), world.connect(0));
        alice.done("Create", json!({"name": "gold"})).await;
        alice.done("Fund", fund("gold", ALICES, 100)).await;
        let bind = json!({"name": "gold", "target": cgroup});
        alice.done("Bind", bind.clone()).await;
        root.done("Unbind", json!({"name": GOLD})).await;
        let why = refused(&mut root, Value::Null).await;
        assert!(why.contains("would come back as root's"), "{why}");
        root.done("Unfund", ticket(GOLD, ALICES)).await;
        let why = refused(&mut root, Value::Null).await;
        assert!(why.contains("tickets that uid 1000 gave"), "{why}");
        // What was hers before she took it herself is hers again.
        alice.done("Fund", fund("gold", ALICES, 100)).await;
        alice.done("Bind", bind).await;
        alice.done("Unbind", json!({"name": "gold"})).await;
        alice.done("Undo", json!({})).await;
        alice.done("Unfund", ticket("gold", ALICES)).await;
        alice.done("Undo", json!({})).await;
        let by = world.look(move |core| {
            let ledger = &core.ledger;
            let (gold, its) = ledger.find(GOLD).zip(ledger.find(ALICES)).unwrap();
            let ticket = ledger.held(gold, its, Resource::Cpu, Kind::Soft);
            (ticket.unwrap().by, ledger.binding(&cgroup).unwrap().by)
        });
        assert_eq!(by.await, (ALICE, ALICE));
    });
}

#[test]
fn what_was_given_up_is_set_and_taken_back_with_care() {
    with(&runtime(), async |world| {
        let (mut alice, mut root) = (world.connect(ALICE), world.connect(0));
        alice.done("Create", json!({"name": "gold"})).await;
        root.done("Fund", fund(GOLD, "base", 300)).await;
        let take = json!({"holder": "gold", "issuer": "base", "resource": "cpu", "amount": 100});
        alice.done("Unfund", take).await;
        assert_eq!(held(world, GOLD, "base").await, (200, 100));
        // Of as many as were given what she gave up would go, and she would keep it all.
        let why = refused(&mut root, Value::Null).await;
        assert!(why.contains("has given up tickets of base"), "{why}");
        assert!(
            why.contains("`tixctl unfund alice/gold --from base cpu`"),
            "{why}"
        );
        // More leaves what was given up as it is, fewer withdraw it.
        for (amount, lapsed) in [(250, 100), (250, 100), (150, 0)] {
            let reply = root.done("SetFunding", fund(GOLD, "base", amount)).await;
            assert_eq!(reply["amount"], amount);
            let amount = amount.cast_unsigned();
            assert_eq!(held(world, GOLD, "base").await, (amount, lapsed));
        }
        let why = refused(&mut root, Value::Null).await;
        assert!(why.contains("had given up tickets of base"), "{why}");
        root.done("SetFunding", fund(GOLD, "base", 50)).await;
        root.done("Undo", json!({})).await;
        assert_eq!(held(world, GOLD, "base").await, (150, 0));
    });
}

#[test]
fn nobody_keeps_others_from_taking_back_by_doing_much() {
    with(&runtime(), async |world| {
        let (mut alice, mut bob) = (world.connect(ALICE), world.connect(BOB));
        for client in [&mut alice, &mut bob] {
            client.done("Create", json!({"name": "gold"})).await;
        }
        let many = async |n: usize, name: &str| {
            let name = name.to_owned();
            world
                .act(move |core| {
                    for mode in (0..n).map(|n| 0o700 + u16::try_from(n % 8).unwrap()) {
                        let name = name.clone();
                        let op = Op::Chmod { name, mode };
                        core.submit(&[op], &Caller::ROOT).unwrap();
                    }
                })
                .await;
        };
        // More than a slice of the log, of somebody else and then of what is hers.
        alice.done("Fund", fund("gold", ALICES, 1)).await;
        let seq = newest(&mut alice, ALICE).await;
        many(1_100, "bob/gold").await;
        alice.done("Rehearse", json!({})).await;
        let undone = alice.done("Undo", json!({})).await;
        assert_eq!(undone["seq"], seq);
        many(1_100, GOLD).await;
        let undone = alice.done("Undo", json!({ "seq": seq })).await;
        assert!(!undone["message"].as_str().unwrap().is_empty(), "{undone}");
        assert_eq!(held(world, GOLD, ALICES).await, (0, 0));
        let why = refused(&mut alice, json!(seq)).await;
        assert!(why.contains("was taken back by"), "{why}");
        // What stands in the way does so however far behind it is.
        let mode = json!({"name": "gold", "mode": "750"});
        alice.done("Chmod", mode).await;
        let seq = newest(&mut alice, ALICE).await;
        many(1_100, "bob/gold").await;
        many(1, GOLD).await;
        let why = refused(&mut alice, json!(seq)).await;
        assert!(why.contains("somebody else did that"), "{why}");
        many(501, GOLD).await;
        let why = refused(&mut alice, json!(seq)).await;
        assert!(why.contains("too much came after it"), "{why}");
    });
}

/// What is not taken back says why, and what to type instead.
#[test]
fn what_nothing_takes_back_says_what_to_do() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        alice.done("Create", json!({"name": "gold"})).await;
        let market = json!({"principal": ALICES, "give": "cpu:1", "want": "disk:1"});
        let offer = alice.done("Offer", market).await["id"].clone();
        alice
            .done("Amend", json!({"id": offer, "give": "cpu:2"}))
            .await;
        let amended = newest(&mut alice, ALICE).await;
        let why = refused(&mut alice, json!(amended)).await;
        assert!(
            why.contains(&format!("`tixctl offer amend {offer}`")),
            "{why}"
        );
        alice.done("Cancel", json!({"id": offer})).await;
        let why = refused(&mut alice, Value::Null).await;
        assert!(why.contains("`tixctl offer make`"), "{why}");
        alice.done("Destroy", json!({"name": "gold"})).await;
        let why = refused(&mut alice, Value::Null).await;
        assert!(why.contains("its tickets went with it"), "{why}");
        // A change of more than the ledger is not tried.
        for (method, parameters) in [
            ("RunBegin", json!({"cgroup": ALICES})),
            ("NiceBegin", json!({"cgroup": ALICES})),
        ] {
            alice.done("Rehearse", json!({})).await;
            let (name, why) = alice.refused(method, parameters).await;
            assert_eq!(name, "BadParameter", "{why}");
            assert!(why.contains("type it without --dry-run"), "{why}");
        }
    });
}

/// A ledger that was imported is no operation, and nothing from before it is taken back by chance.
#[test]
fn what_was_done_before_an_import_is_taken_back_by_its_number() {
    with(&runtime(), async |world| {
        let mut root = world.connect(0);
        root.done("Create", json!({"name": "pool"})).await;
        let seq = newest(&mut root, 0).await;
        let document = root.done("Export", json!({})).await["chunk"].clone();
        let id = root.done("ImportBegin", json!({})).await["id"].clone();
        let chunk = json!({"id": id, "chunk": document});
        root.done("ImportChunk", chunk).await;
        let end = json!({"id": id, "dry_run": false});
        root.done("ImportEnd", end).await;
        let why = refused(&mut root, Value::Null).await;
        assert!(why.contains("(import) came after"), "{why}");
        assert!(why.contains(&format!("`tixctl undo {seq}`")), "{why}");
        root.done("Undo", json!({ "seq": seq })).await;
        let pool = world.look(|core| core.ledger.find("pool")).await;
        assert_eq!(pool, None);
    });
}
