// SPDX-License-Identifier: GPL-2.0-only
//! A disk that takes as long as it likes, and cgroups that go faster than it writes.

#![allow(clippy::unwrap_used)]

#[path = "../../store/tests/store/vfs.rs"]
#[allow(dead_code)]
mod vfs;

use serde_json::json;
use tix_fuzz::world::{ALICE, ALICES, BOB, Client, World, runtime, with_in};
use tix_ledger::{Caller, Key, Op};
use tokio::task::yield_now;
use vfs::{Disk, Fault, Step};

/// Runs `f` with a new world, and the disk that its ledger is on.
fn on_disk(f: impl AsyncFnOnce(&mut World, Disk)) {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    let state = dir.path().join("state");
    let disk = Disk::at(&state);
    with_in(&runtime(), dir, async |world| f(world, disk).await);
    Disk::forget(&state);
}

async fn has_no_answer(client: &mut Client) {
    for _ in 0..100 {
        tokio::select! {
            biased;
            answer = client.message() => panic!("{answer:?} before it is kept"),
            () = yield_now() => {}
        }
    }
}

fn syncs(disk: &Disk) -> usize {
    let steps = &disk.state().steps;
    let syncs = steps.iter().filter(|s| matches!(s, Step::Sync { .. }));
    syncs.count()
}

#[test]
fn who_looks_does_not_wait_for_a_disk_that_does_not_answer() {
    on_disk(async |world, disk| {
        let (mut alice, mut bob) = (world.connect(ALICE), world.connect(BOB));
        let mut root = world.connect(0);
        alice.done("Create", json!({"name": "before"})).await;
        disk.state().stalled = true;
        let create = |name| {
            let call =
                json!({"method": "org.tix.Tix.Create", "parameters": {"name": name}}).to_string();
            format!("{call}\0")
        };
        assert!(alice.send(create("one").as_bytes()).await);
        has_no_answer(&mut alice).await;
        // What comes after it waits as well, whoever asks.
        assert!(bob.send(create("two").as_bytes()).await);
        let cgroup = format!("{ALICES}/late");
        assert!(world.appears(&cgroup, ALICE));
        // The watchdog asks as this does; and root, and everybody who looks.
        world.longest_turn().await;
        for client in [&mut root, &mut world.connect(BOB)] {
            for (method, parameters) in [
                ("Status", json!({})),
                ("Tree", json!({})),
                ("ListCurrencies", json!({})),
                ("Explain", json!({"name": "alice/before"})),
                ("Offers", json!({})),
                ("Exchanges", json!({})),
                ("Watch", json!({})),
            ] {
                client.done(method, parameters).await;
            }
        }
        has_no_answer(&mut alice).await;
        has_no_answer(&mut bob).await;
        disk.state().stalled = false;
        for client in [&mut alice, &mut bob] {
            let answer = client.message().await.unwrap();
            assert!(answer["error"].is_null(), "{answer}");
        }
        world.look(|_| ()).await;
        root.done("Explain", json!({"name": cgroup})).await;
    });
}

#[test]
fn cgroups_that_go_together_are_kept_together() {
    const MANY: usize = 1000;
    on_disk(async |world, disk| {
        let top = format!("{ALICES}/top");
        assert!(world.appears(&top, ALICE));
        for n in 0..MANY {
            assert!(world.appears(&format!("{top}/{n}"), ALICE));
        }
        world.look(|_| ()).await;
        // Something of each that is kept, and goes with it.
        let chmod = top.clone();
        world
            .act(move |core| {
                for n in 0..MANY {
                    let op = Op::Chmod {
                        name: format!("{chmod}/{n}"),
                        mode: 0o755,
                    };
                    core.submit(&[op], &Caller::user(ALICE)).unwrap();
                }
            })
            .await;
        let before = syncs(&disk);
        world.goes(&top);
        world.look(|_| ()).await;
        world.act(|_| ()).await;
        let took = syncs(&disk) - before;
        println!("{took} syncs for {MANY} cgroups that went");
        assert!((1..=MANY / 50).contains(&took), "{took}");
    });
}

#[test]
fn what_cannot_be_kept_is_taken_back_and_what_the_tree_did_is_kept_later() {
    on_disk(async |world, disk| {
        let (mut alice, mut root) = (world.connect(ALICE), world.connect(0));
        let cgroup = format!("{ALICES}/c");
        assert!(world.appears(&cgroup, ALICE));
        world.look(|_| ()).await;
        let chmod = json!({"name": cgroup, "mode": "755"});
        alice.done("Chmod", chmod).await;
        let from = disk.state().count;
        disk.state().failing = Some((from..u64::MAX, Fault::Full));
        let create = json!({"name": "one"});
        let refused = alice.refused("Create", create.clone()).await;
        assert_eq!(refused.0, "NotDurable");
        world.goes(&cgroup);
        world.look(|_| ()).await;
        let status = root.done("Status", json!({})).await;
        assert_eq!(status["store"]["writable"], false);
        assert_eq!(
            alice.refused("Destroy", create.clone()).await.0,
            "NoSuchCurrency"
        );
        disk.state().failing = None;
        // It is tried again each second.
        while root.done("Status", json!({})).await["store"]["writable"] == false {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        alice.done("Create", create.clone()).await;
        alice.done("Destroy", create).await;
        let rows = world.act(|core| core.ledger.rows()).await;
        let left: Vec<&Key> = rows.iter().map(|(key, _)| key).collect();
        assert_eq!(
            left,
            [&Key::Space(ALICE)],
            "what went with the cgroup has gone"
        );
    });
}

/// Cgroups of root's come and go while nothing can be kept.
#[test]
fn what_cannot_be_kept_is_bounded_and_told_and_kept_when_there_is_room() {
    on_disk(async |world, disk| {
        let mut root = world.connect(0);
        let cgroup = format!("{ALICES}/c");
        assert!(world.appears(&cgroup, ALICE));
        world.look(|_| ()).await;
        let fund = json!({"holder": cgroup, "issuer": "base", "resource": "cpu", "amount": 7});
        root.done("Fund", fund).await;
        let chmod = json!({"name": cgroup, "mode": "755"});
        world.connect(ALICE).done("Chmod", chmod).await;
        let from = disk.state().count;
        disk.state().failing = Some((from..u64::MAX, Fault::Full));
        let mut most = 0;
        for _ in 0..100 {
            world.goes(&cgroup);
            world.look(|_| ()).await;
            assert!(world.appears(&cgroup, ALICE));
            root.refused("Create", json!({"name": "one"})).await;
            most = most.max(world.look(|core| core.ledger.mark()).await);
        }
        println!("{most} changes are remembered of 100 that came and went");
        assert!((1..20).contains(&most), "{most}");
        let status = root.done("Status", json!({})).await;
        let reason = status["store"]["reason"].as_str().unwrap();
        assert!(reason.contains("not stored yet"), "{reason}");
        assert!(reason.contains("1 rows of the ledger"), "{reason}");
        disk.state().failing = None;
        while root.done("Status", json!({})).await["store"]["writable"] == false {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(world.look(|core| core.ledger.mark()).await, 0);
    });
}
