// SPDX-License-Identifier: GPL-2.0-only
//! Threats of docs/threats.md that tixd itself meets, each tried on a tixd in this process by
//! whoever the test likes to be.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::time::Duration;
use tix_fuzz::world::{ALICE, ALICES, BOB, BOBS, Client, SERVICE, World, runtime, with};
use tixd::server::{PER_UID, TOTAL};
use tokio::runtime::{Builder, Runtime};

/// Nobody waits in it: when all do, it is later.
fn timeless() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

const STATUS: &[u8] = b"{\"method\":\"org.tix.Tix.Status\"}\0";

/// Is it let in?
async fn is_served(client: &mut Client) -> bool {
    client.send(STATUS).await && client.message().await.is_some()
}

/// Root makes so many currencies for `owner`; it does not wait for its turn.
async fn create(world: &World, n: usize, owner: u32, name: &str) {
    let mut root = world.connect(0);
    let create = |n| json!({"name": format!("{name}{n}"), "owner": owner, "group": owner});
    let calls = (0..n).map(|n| json!({"method": "org.tix.Tix.Create", "parameters": create(n)}));
    let calls: String = calls.map(|call| format!("{call}\0")).collect();
    assert!(root.send(calls.as_bytes()).await);
    for _ in 0..n {
        let answer = root.message().await.unwrap();
        assert!(answer["error"].is_null(), "{answer}");
    }
}

async fn fund(world: &World, name: &str, amount: u64) {
    let fund = json!({"holder": name, "issuer": "base", "resource": "cpu", "amount": amount});
    world.connect(0).done("Fund", fund).await;
}

#[test]
fn users_share_their_limits_with_their_subordinate_uids() {
    with(&runtime(), async |world| {
        world.subordinate("1000:100000:65536\n1001:165536:65536\n");
        let mut open = Vec::new();
        for n in 0..u32::try_from(PER_UID).unwrap() {
            let mut client = world.connect(if n == 0 { ALICE } else { 100_000 + n });
            assert!(is_served(&mut client).await, "{n}");
            open.push(client);
        }
        for (uid, served) in [
            (ALICE, false),
            (100_000, false),
            (165_535, false),
            (BOB, true),
            (165_536, true),
            (0, true),
        ] {
            assert_eq!(is_served(&mut world.connect(uid)).await, served, "{uid}");
        }
    });
}

#[test]
fn whoever_has_all_the_connections_does_not_keep_root_out() {
    with(&runtime(), async |world| {
        let mut open = Vec::new();
        for n in 0..TOTAL {
            let uid = 2000 + u32::try_from(n / PER_UID).unwrap();
            let mut client = world.connect(uid);
            assert!(is_served(&mut client).await, "{n}");
            open.push(client);
        }
        assert!(!is_served(&mut world.connect(ALICE)).await);
        assert!(is_served(&mut world.connect(0)).await);
        open.clear();
        let mut alice = world.connect(ALICE);
        while !is_served(&mut alice).await {
            alice = world.connect(ALICE);
        }
    });
}

#[test]
fn a_subordinate_uid_looks_and_changes_nothing() {
    with(&runtime(), async |world| {
        world.subordinate("1000:100000:65536\n");
        let mut client = world.connect(100_005);
        client.done("Tree", json!({})).await;
        let (error, why) = client.refused("Create", json!({"name": "x"})).await;
        assert!(
            error == "NotPermitted" && why.contains("uid 1000"),
            "{error}: {why}"
        );
        world
            .connect(ALICE)
            .done("Create", json!({"name": "x"}))
            .await;
    });
}

#[test]
fn what_a_user_may_create_has_an_end() {
    with(&runtime(), async |world| {
        let most = tix_ledger::MAX_OWNED;
        create(world, most, ALICE, "x").await;
        let mut alice = world.connect(ALICE);
        assert_eq!(
            alice.refused("Create", json!({"name": "x"})).await.0,
            "LimitReached"
        );
        world
            .connect(BOB)
            .done("Create", json!({"name": "x"}))
            .await;
    });
}

#[test]
fn who_never_reads_is_hung_up_on_and_the_place_is_free_again() {
    with(&runtime(), async |world| {
        create(world, 100, 0, &"x".repeat(50)).await;
        // More answers than fit between the two.
        let calls = b"{\"method\":\"org.tix.Tix.ListCurrencies\"}\0".repeat(50);
        let mut deaf: Vec<Client> = (0..PER_UID).map(|_| world.connect(ALICE)).collect();
        for client in &mut deaf {
            assert!(client.send(&calls).await);
        }
        assert!(!is_served(&mut world.connect(ALICE)).await);
        assert!(is_served(&mut world.connect(BOB)).await);
        let give_up = tokio::time::Instant::now() + Duration::from_secs(60);
        while !is_served(&mut world.connect(ALICE)).await {
            assert!(
                tokio::time::Instant::now() < give_up,
                "16 who never read keep their places"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
}

#[test]
fn whoever_watches_waits_for_their_turn() {
    with(&timeless(), async |world| {
        let mut alice = world.connect(ALICE);
        // More than is free at once: from now on alice owes tixd time.
        for _ in 0..2500 {
            assert!(is_served(&mut alice).await);
        }
        let watch = json!({"method": "org.tix.Tix.Watch", "more": true, "parameters": {"interval_ms": 200}});
        assert!(alice.send(format!("{watch}\0").as_bytes()).await);
        let sample = async |client: &mut Client| {
            while client.message().await.unwrap()["parameters"]["sample"].is_null() {}
            tokio::time::Instant::now()
        };
        let first = sample(&mut alice).await;
        let second = sample(&mut alice).await;
        assert!(
            second - first > Duration::from_millis(400),
            "{:?}",
            second - first
        );
    });
}

#[test]
fn messages_without_an_end_and_in_pieces() {
    with(&runtime(), async |world| {
        let mut alice = world.connect(ALICE);
        for piece in STATUS.chunks(3) {
            assert!(alice.send(piece).await);
        }
        assert!(alice.message().await.is_some());
        // As long as may be, and one more byte.
        let call = |n: usize| {
            let call = json!({"method": "org.tix.Tix.ImportChunk", "parameters": {"id": 1, "chunk": "x".repeat(n)}});
            format!("{call}\0")
        };
        assert!(alice.send(call(60_000).as_bytes()).await);
        assert_eq!(
            alice.message().await.unwrap()["error"],
            "org.tix.Tix.BadParameter"
        );
        let endless = vec![b'x'; 200_000];
        let _cut_off: bool = alice.send(&endless).await;
        assert_eq!(alice.message().await, None);
        assert!(is_served(&mut world.connect(ALICE)).await);
    });
}

#[test]
fn a_unit_that_alice_names_is_not_what_root_means() {
    with(&runtime(), async |world| {
        let manager = format!("{ALICES}/user@1000.service");
        let own = format!("{manager}/nginx.service");
        let boxed = format!("{SERVICE}/nginx.service");
        for (path, uid) in [(&manager, ALICE), (&own, ALICE), (&boxed, 0)] {
            assert!(world.appears(path, uid));
        }
        world.look(|_| ()).await;
        let fund = |issuer: &str| json!({"holder": "nginx.service", "issuer": issuer, "resource": "cpu", "amount": 10});
        let mut root = world.connect(0);
        assert_eq!(root.refused("Fund", fund("base")).await.0, "NoSuchCgroup");
        assert_eq!(
            world
                .connect(BOB)
                .refused("Explain", json!({"name": "nginx.service"}))
                .await
                .0,
            "NoSuchCgroup"
        );
        let alices = world
            .connect(ALICE)
            .done("Explain", json!({"name": "nginx.service"}))
            .await;
        assert_eq!(alices["currency"]["name"], own);
        // As soon as the system has one, everybody means that.
        let real = "/system.slice/nginx.service";
        assert!(world.appears(real, 0));
        world.look(|_| ()).await;
        root.done("Fund", fund("base")).await;
        for uid in [0, ALICE, BOB] {
            let found = world
                .connect(uid)
                .done("Explain", json!({"name": "nginx.service"}))
                .await;
            assert_eq!(found["currency"]["name"], real, "{uid}");
        }
    });
}

#[test]
fn no_path_leads_elsewhere() {
    with(&runtime(), async |world| {
        fund(world, ALICES, 100).await;
        let mut alice = world.connect(ALICE);
        alice.done("Create", json!({"name": "x"})).await;
        let fund = json!({"holder": "x", "issuer": ALICES, "resource": "cpu", "amount": 50});
        alice.done("Fund", fund).await;
        for path in [
            "/../etc",
            "/user.slice/../../etc",
            "/user.slice/user-1000.slice/../user-1001.slice",
            "/sys/fs/cgroup/../../etc",
            "/./",
            "/proc/self/root",
            "/user.slice\u{0}/x",
            "user.slice/x",
            "",
            "//",
            "/x (deleted)",
            "\u{7f}/x",
        ] {
            for (method, parameters) in [
                ("Bind", json!({"name": "x", "target": path})),
                ("RunBegin", json!({"issuer": "x", "cgroup": path})),
                ("NiceBegin", json!({"giver": "x", "cgroup": path})),
            ] {
                let (error, why) = alice.refused(method, parameters).await;
                assert!(
                    ["NoSuchCgroup", "NotPermitted", "NotNamed"].contains(&error.as_str()),
                    "{path:?}: {error} {why}"
                );
            }
        }
    });
}

/// What each may do through tixd with what is the other's: nothing.
#[test]
fn run_and_nice_lend_nobody_their_arm() {
    with(&runtime(), async |world| {
        let (hers, his) = (format!("{ALICES}/job"), format!("{BOBS}/job"));
        assert!(world.appears(&hers, ALICE) && world.appears(&his, BOB));
        world.look(|_| ()).await;
        fund(world, BOBS, 100).await;
        fund(world, ALICES, 100).await;
        let before = (world.entitlement(BOBS).await, world.entitlement(&his).await);
        let mut alice = world.connect(ALICE);
        let run = |issuer: &str, cgroup: &str| json!({"issuer": issuer, "cgroup": cgroup});
        let nice = |giver: &str, cgroup: &str| json!({"giver": giver, "cgroup": cgroup});
        for (method, parameters) in [
            // bob's tickets, root's, and the machine's.
            ("RunBegin", run(BOBS, &hers)),
            ("RunBegin", run(SERVICE, &hers)),
            ("RunBegin", run("base", &hers)),
            ("NiceBegin", nice(BOBS, &hers)),
            ("NiceBegin", nice("base", &hers)),
            // bob's cgroup, and root's.
            ("RunBegin", run(ALICES, &his)),
            ("RunBegin", run(ALICES, SERVICE)),
            ("NiceBegin", nice(ALICES, &his)),
        ] {
            let (error, why) = alice.refused(method, parameters.clone()).await;
            assert_eq!(error, "NotPermitted", "{method} {parameters}: {why}");
        }
        // What root has bound stays bound.
        let mut root = world.connect(0);
        root.done("Create", json!({"name": "kept"})).await;
        root.done("Bind", json!({"name": "kept", "target": hers}))
            .await;
        assert_eq!(
            alice.refused("RunBegin", run(ALICES, &hers)).await.0,
            "AlreadyBound"
        );
        assert_eq!(
            (world.entitlement(BOBS).await, world.entitlement(&his).await),
            before
        );
        // Nothing is left of what was refused.
        let tree = alice.done("ListCurrencies", json!({})).await;
        let names: Vec<&Value> = tree["currencies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| &c["name"])
            .collect();
        assert!(
            names.iter().all(|n| n
                .as_str()
                .is_some_and(|n| n.starts_with('/') || ["base", "kept"].contains(&n))),
            "{names:?}"
        );
    });
}

#[test]
fn a_cgroup_that_was_made_again_is_another() {
    with(&runtime(), async |world| {
        let place = format!("{ALICES}/place");
        assert!(world.appears(&place, ALICE));
        world.look(|_| ()).await;
        let mut alice = world.connect(ALICE);
        alice.done("Create", json!({"name": "x"})).await;
        alice
            .done(
                "Fund",
                json!({"holder": "x", "issuer": ALICES, "resource": "cpu", "amount": 50}),
            )
            .await;
        alice
            .done("Bind", json!({"name": "x", "target": place}))
            .await;
        alice
            .done("Chmod", json!({"name": place, "mode": "777"}))
            .await;
        world.goes(&place);
        assert!(world.appears(&place, BOB));
        let now = world.look(move |core| {
            let c = core.ledger.get(core.ledger.find(&place).unwrap()).unwrap();
            (c.owner, c.mode, c.bound_to)
        });
        assert_eq!(now.await, (BOB, 0o700, None));
    });
}
