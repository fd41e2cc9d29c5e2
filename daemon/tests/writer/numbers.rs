// SPDX-License-Identifier: GPL-2.0-only
//! Numbers that tixd writes to cgroups' files are nobody's funding, wherever tixd is killed and
//! whatever the disk does: each is recorded before it is written, or not written.

use crate::machine::{BEFORE, Machine, does, funded, funding, logged, until};
use crate::vfs::{Disk, Fault, Step};
use tix_ledger::{Hard, Op, Resource};
use tix_model::File;
use tix_systemd::PropertySync;
use tixd::writer::Handle;

const CPU: &str = "cpu.weight";

/// Half of 300 tickets for each of two cgroups.
fn two() -> Machine {
    let machine = Machine::new();
    for path in ["/a", "/b", "/c"] {
        machine.cgroup(path, 100);
    }
    machine.tixd(async |tixd: Handle| {
        does(&tixd, |cid| funded("n", cid, 300, &["/a", "/b"])).await;
        until("halves", async || {
            machine.number("/a", CPU) == 150 && machine.number("/b", CPU) == 150
        })
        .await;
    });
    machine
}

/// Once one of both is gone the other is worth all of it, and that is written, but no funding of
/// it.
async fn all_for_one(machine: &Machine, tixd: &Handle) {
    let what = "all of it";
    until(what, async || machine.number("/a", CPU) == 300).await;
    assert_eq!(funding(tixd, "/a").await, Some(100));
}

#[test]
fn a_number_that_could_not_be_recorded_is_not_written() {
    for fault in [Fault::Full, Fault::All] {
        let (mut n, mut refused) = (0, 0);
        loop {
            let machine = two();
            let disk = Disk::at(&machine.state());
            disk.state().forget = true;
            let written = machine.tixd(async |tixd: Handle| {
                {
                    let mut state = disk.state();
                    state.failing = Some((state.count + n..u64::MAX, fault));
                }
                machine.remove("/b");
                let mut waits = None;
                until("it is written, or said why not", async || {
                    let why = |core: &mut tixd::writer::Core| {
                        core.marks.not_written().next().map(str::to_owned)
                    };
                    waits = tixd.call(why).await.unwrap();
                    waits.is_some() || machine.number("/a", CPU) == 300
                })
                .await;
                if let Some(why) = waits {
                    assert_eq!(machine.number("/a", CPU), 150, "{why}");
                    assert!(why.contains("recorded first"), "{why}");
                    refused += 1;
                    return false;
                }
                true
            });
            Disk::forget(&machine.state());
            // Killed, and started again on a disk that works.
            machine.tixd(async |tixd: Handle| all_for_one(&machine, &tixd).await);
            if written {
                break;
            }
            n += 1;
        }
        assert!(refused > 2, "{fault:?}: {refused}");
    }
}

#[test]
fn what_could_not_be_recorded_is_written_when_it_can_be() {
    let machine = two();
    let disk = Disk::at(&machine.state());
    machine.tixd(async |tixd: Handle| {
        disk.state().failing = Some((0..u64::MAX, Fault::Full));
        machine.remove("/b");
        let said = async || {
            let number = tixd.call(|core| core.marks.not_written().count());
            number.await.unwrap()
        };
        until("it is said", async || said().await > 0).await;
        assert_eq!(machine.number("/a", CPU), 150);
        disk.state().failing = None;
        all_for_one(&machine, &tixd).await;
        until("nothing is said", async || said().await == 0).await;
    });
    Disk::forget(&machine.state());
}

#[test]
fn what_was_recorded_and_not_written_yet_is_no_funding_either() {
    for (stands, funds) in [(150, 100), (300, 100), (777, 777)] {
        let machine = two();
        machine.tixd(async |tixd: Handle| {
            machine.remove("/b");
            all_for_one(&machine, &tixd).await;
        });
        machine.write("/a", CPU, &format!("{stands}\n"));
        machine.tixd(async |tixd: Handle| {
            let number = 300;
            let what = "the number of tixd's";
            until(what, async || machine.number("/a", CPU) == number).await;
            assert_eq!(funding(&tixd, "/a").await, Some(funds), "{stands}");
        });
    }
}

#[test]
fn what_stood_there_before_is_somebodys_once_the_number_stands() {
    let machine = two();
    machine.tixd(async |tixd: Handle| {
        machine.remove("/b");
        all_for_one(&machine, &tixd).await;
        machine.write("/a", CPU, "150\n");
        let what = "it is funding";
        until(what, async || funding(&tixd, "/a").await == Some(150)).await;
    });
}

#[test]
fn a_thousand_numbers_are_one_commit() {
    const MANY: usize = 1_000;
    let machine = Machine::new();
    machine.cgroup("/a", 25);
    for n in 0..MANY {
        machine.cgroup(&format!("/c{n}"), 100);
    }
    let disk = Disk::at(&machine.state());
    machine.tixd(async |tixd: Handle| {
        disk.state().steps.clear();
        tixd.call(|core| core.turns.take_most_files())
            .await
            .unwrap();
        // So few that all others' weights grow.
        does(&tixd, |cid| funded("n", cid, 10, &["/a"])).await;
        until("all have grown", async || {
            (0..MANY).all(|n| machine.number(&format!("/c{n}"), CPU) == 250)
        })
        .await;
        let is_sync = |s: &&Step| matches!(s, Step::Sync { .. });
        let syncs = disk.state().steps.iter().filter(is_sync).count();
        assert!((2..10).contains(&syncs), "{syncs}");
        // And written in bites, between which others have their turn.
        let most = tixd
            .call(|core| core.turns.take_most_files())
            .await
            .unwrap();
        println!("{most} files in a turn of {MANY}");
        assert!((64..=128).contains(&most), "{most}");
    });
    Disk::forget(&machine.state());
}

const SLICE: &str = "/system.slice";
const WEB: &str = "/system.slice/web.service";
const MIN: &str = "memory.min";
const BYTES: u64 = 64 << 20;

/// Each time systemd sets what it knows, of the slice as well, before it is told what covers the
/// unit's guarantee.
#[test]
fn what_systemd_sets_as_units_restart_is_no_news() {
    let mut machine = Machine::new();
    machine.systemd = Some(PropertySync::default());
    machine.cgroup(SLICE, 100);
    machine.cgroup(WEB, 100);
    machine.tixd(async |tixd: Handle| {
        does(&tixd, |cid| {
            let mut ops = funded("web", cid, 100, &[WEB]);
            ops.push(Op::Reserve {
                holder: "web".to_owned(),
                issuer: "base".to_owned(),
                resource: Resource::Memory,
                amount: Hard::Bytes(BYTES),
            });
            ops
        })
        .await;
        let held = async || machine.number(SLICE, MIN) == BYTES;
        until("it is held", held).await;
        let covered = async || {
            let cover = tixd.call(|core| core.marks.set_by_tix(File::MemoryMin, SLICE));
            cover.await.unwrap().is_some()
        };
        for _ in 0..100 {
            machine.remove(WEB);
            until("nothing to cover", async || !covered().await).await;
            machine.cgroup(WEB, 100);
            until("covered", async || covered().await && held().await).await;
            machine.write(SLICE, MIN, &format!("{BEFORE}\n"));
            until("it is held again", held).await;
        }
        assert_eq!(logged(&tixd, "held").await, []);
        // An administrator's is, but once.
        for n in 1..=3 {
            machine.write(SLICE, MIN, &format!("{}\n", BEFORE + n * 4096));
            until("it is held all the same", held).await;
        }
        let told = logged(&tixd, "held").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].text.contains("was set to 10004096"), "{told:?}");
    });
}
