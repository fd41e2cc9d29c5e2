// SPDX-License-Identifier: GPL-2.0-only
//! Trades (Sullivan §3.2): what the dealer matches is an exchange of four tickets, and nobody but
//! the parties pays for it.

use crate::common::*;
use tix_ledger::{Event, Key, Ledger, MAX_OFFERS, Op, Refusal, Resource, Row, Terms};

const DISK: Resource = Resource::Disk;

fn terms(gives: (Resource, u64), wants: (Resource, u64)) -> Terms {
    Terms {
        gives: gives.0,
        give: gives.1 * 1000,
        wants: wants.0,
        want: wants.1 * 1000,
        least: 1,
        expires: None,
    }
}

impl It {
    fn offer(
        &mut self,
        uid: u32,
        party: &str,
        gives: (Resource, u64),
        wants: (Resource, u64),
    ) -> Done {
        let op = Op::Offer {
            id: self.l.next_number(),
            party: party.to_owned(),
            terms: terms(gives, wants),
            now: 0,
        };
        self.does(uid, op)
    }

    fn cancel(&mut self, uid: u32, id: u64) -> Done {
        self.does(uid, Op::Cancel { id })
    }

    fn disk(&self, name: &str) -> f64 {
        let c = self.cid(name).unwrap();
        self.l.entitlement(c, DISK) as f64 / 2f64.powi(64)
    }

    fn exchange_ids(&self) -> Vec<u64> {
        self.l.exchanges().map(|(id, _)| id).collect()
    }
}

/// The exchanges that were made and revoked, and the offers that went.
fn told(events: &[Event]) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let mut all = (vec![], vec![], vec![]);
    for e in events {
        match e {
            Event::Exchanged { id, revoked, .. } if revoked.is_none() => all.0.push(*id),
            Event::Exchanged { id, .. } => all.1.push(*id),
            Event::Unoffered { id, .. } => all.2.push(*id),
            _ => {}
        }
    }
    all
}

/// Alice and Bob have 100 of the CPU and of the disk each, in currencies of their own; and so has
/// root.
fn three() -> It {
    let mut it = alice_and_bob();
    it.create(0, "its").unwrap();
    for name in ["hers", "his", "its"] {
        for r in [CPU, DISK] {
            it.fund_of(0, name, "base", r, 100).unwrap();
        }
    }
    it
}

#[test]
fn a_trade_moves_rights_of_its_parties_and_nobody_elses_and_cancelling_moves_them_back() {
    let mut it = three();
    let before: Vec<_> =
        it.l.cids()
            .into_iter()
            .map(|c| Resource::ALL.map(|r| it.l.entitlement(c, r)))
            .collect();
    it.offer(ALICE, "hers", (CPU, 30), (DISK, 20)).unwrap();
    let done = it.offer(BOB, "his", (DISK, 20), (CPU, 30)).unwrap();
    let (made, _, _) = told(&done);
    assert_eq!(made, it.exchange_ids());
    assert_eq!((it.entitled("hers"), it.disk("hers")), (70.0, 120.0));
    assert_eq!((it.entitled("his"), it.disk("his")), (130.0, 80.0));
    assert_eq!((it.entitled("its"), it.disk("its")), (100.0, 100.0));
    assert!(it.l.book().is_empty());
    let x = it.l.exchange_of(made[0]).unwrap();
    assert_eq!((x.legs.len(), x.is_a_trade()), (4, true));
    // Either may, and nobody else.
    assert!(forbidden(it.cancel(1002, made[0])));
    assert_eq!(told(&it.cancel(ALICE, made[0]).unwrap()).1, made);
    let after: Vec<_> =
        it.l.cids()
            .into_iter()
            .map(|c| Resource::ALL.map(|r| it.l.entitlement(c, r)))
            .collect();
    assert_eq!(before, after);
    let (id, ended) = it.l.ended().next().unwrap();
    assert_eq!(
        (id, ended.why.as_str()),
        (made[0], "cancelled for 1000/hers")
    );
    assert!(matches!(
        it.cancel(ALICE, made[0]),
        Err(Refusal::NoSuchOffer(_))
    ));
}

#[test]
fn who_may_trade_for_a_party() {
    let mut it = three();
    assert!(forbidden(it.offer(BOB, "hers", (CPU, 1), (DISK, 1))));
    // Without f, or without c, not (model.md §1).
    for mode in [0o710, 0o720, 0o740, 0o730, 0o750] {
        it.chmod(ALICE, "hers", mode | mode >> 3).unwrap();
        assert!(
            forbidden(it.offer(BOB, "hers", (CPU, 1), (DISK, 1))),
            "{mode:o}"
        );
    }
    it.chmod(ALICE, "hers", 0o706).unwrap();
    it.offer(BOB, "hers", (CPU, 1), (DISK, 1)).unwrap();
    let id = it.l.book().iter_from(0).next().unwrap().id;
    it.chmod(ALICE, "hers", 0o700).unwrap();
    assert!(forbidden(it.cancel(BOB, id)));
    assert!(forbidden(it.does(
        BOB,
        Op::Amend {
            offer: id,
            terms: terms((CPU, 2), (DISK, 1)),
            now: 0
        }
    )));
    assert!(forbidden(it.does(
        BOB,
        Op::Accept {
            offer: id,
            party: "hers".into(),
            now: 0
        }
    )));
    it.does(
        BOB,
        Op::Accept {
            offer: id,
            party: "his".into(),
            now: 0,
        },
    )
    .unwrap();
    assert_eq!(it.entitled("his"), 101.0);
    let e = refused(it.offer(0, "base", (CPU, 1), (DISK, 1)));
    assert!(matches!(e, Refusal::NotNamed(..)), "{e}");
}

#[test]
fn what_one_has_not_got_is_not_offered_nor_what_came_by_a_trade() {
    let mut it = three();
    let e = refused(it.offer(ALICE, "hers", (CPU, 101), (DISK, 1)));
    assert!(
        matches!(
            e,
            Refusal::TooLittle {
                has: 100,
                asked: 101,
                ..
            }
        ),
        "{e}"
    );
    it.offer(ALICE, "hers", (CPU, 50), (DISK, 50)).unwrap();
    it.offer(BOB, "his", (DISK, 50), (CPU, 50)).unwrap();
    assert_eq!(it.entitled("his"), 150.0);
    let e = refused(it.offer(BOB, "his", (CPU, 101), (DISK, 1)));
    assert!(matches!(e, Refusal::TooLittle { has: 100, .. }), "{e}");
    for bad in [
        Terms {
            least: 0,
            ..terms((CPU, 1), (DISK, 1))
        },
        Terms {
            least: 1001,
            ..terms((CPU, 1), (DISK, 1))
        },
        Terms {
            expires: Some(0),
            ..terms((CPU, 1), (DISK, 1))
        },
        terms((CPU, 1), (CPU, 1)),
        terms((CPU, 0), (DISK, 1)),
        terms((CPU, 1), (DISK, 1 << 50)),
    ] {
        let op = Op::Offer {
            id: it.l.next_number(),
            party: "hers".into(),
            terms: bad,
            now: 0,
        };
        assert!(
            matches!(it.does(ALICE, op), Err(Refusal::BadOffer(_))),
            "{bad:?}"
        );
    }
}

/// Offering promises nothing: what was offered twice is delivered once.
#[test]
fn an_offer_whose_party_can_no_longer_deliver_goes_and_the_next_is_matched() {
    let mut it = three();
    it.offer(ALICE, "hers", (CPU, 80), (DISK, 10)).unwrap();
    it.offer(ALICE, "hers", (CPU, 80), (Resource::Net, 10))
        .unwrap();
    it.offer(0, "its", (CPU, 80), (DISK, 40)).unwrap();
    it.fund_of(0, "his", "base", Resource::Net, 10).unwrap();
    let done = it
        .offer(BOB, "his", (Resource::Net, 10), (CPU, 80))
        .unwrap();
    assert_eq!(told(&done).0.len(), 1);
    let first = it.l.book().iter_from(0).next().unwrap().id;
    let done = it.offer(BOB, "his", (DISK, 40), (CPU, 80)).unwrap();
    assert_eq!((told(&done).0.len(), told(&done).2), (1, vec![first]));
    assert_eq!(it.entitled("its"), 20.0);
}

/// The gate that what is asked from outside passes; the ledger itself keeps what was traded before.
#[test]
fn what_nothing_enforces_is_traded_no_more_and_taken_off_the_book() {
    let mut it = three();
    let net = Resource::Net;
    it.offer(ALICE, "hers", (CPU, 80), (net, 10)).unwrap();
    let offer = it.l.book().iter_from(0).next().unwrap().id;
    let party = || "his".to_owned();
    let offers = [(net, CPU), (CPU, net)].map(|(gives, wants)| Op::Offer {
        id: it.l.next_number(),
        party: party(),
        terms: terms((gives, 1), (wants, 1)),
        now: 0,
    });
    let amend = Op::Amend {
        offer,
        terms: terms((CPU, 80), (net, 5)),
        now: 0,
    };
    let accept = Op::Accept {
        offer,
        party: party(),
        now: 0,
    };
    for op in offers.into_iter().chain([amend, accept]) {
        let checked = op.check_enforced(&it.l);
        assert_eq!(checked, Err(Refusal::NotEnforced(net)), "{op:?}");
    }
    let holders = it.l.holders_of_unenforced();
    assert_eq!(holders.into_iter().collect::<Vec<_>>(), ["1000/hers"]);
    let cancel = Op::Cancel { id: offer };
    assert_eq!(cancel.check_enforced(&it.l), Ok(()));
    it.does(ALICE, cancel).unwrap();
    assert!(it.l.holders_of_unenforced().is_empty());
}

/// §3.2: "a process could fork off children that use exchanges to give the parent process all of
/// their tickets. With currencies, however, this tactic would only affect the resource rights of
/// tasks funded by the same currency as the malicious process."
#[test]
fn children_that_give_all_they_have_cost_only_their_own_currency() {
    let mut it = three();
    it.bind(0, "hers", "/u/a").unwrap();
    it.bind(0, "his", "/u/b").unwrap();
    it.chown(0, "/u/a/j", Some(ALICE)).unwrap();
    let before = (
        it.entitled("/u/b/j"),
        it.entitled("/u/b/k"),
        it.entitled("its"),
    );
    let sum = |it: &It| it.entitled("/u/a/j") + it.entitled("/u/a/k");
    let all = sum(&it);
    for n in 0..20 {
        let child = format!("/u/a/c{n}");
        it.mk(&child, ALICE);
        let cid = it.l.find(&child).unwrap();
        let has = u64::try_from(it.l.entitlement(cid, CPU) >> 64).unwrap();
        if has == 0 {
            continue;
        }
        // A thousandth of the disk for all of the CPU.
        it.offer(ALICE, &child, (CPU, has), (DISK, 1)).unwrap();
        it.offer(ALICE, "/u/a/j", (DISK, 1), (CPU, has)).unwrap();
    }
    assert_eq!(
        (
            it.entitled("/u/b/j"),
            it.entitled("/u/b/k"),
            it.entitled("its")
        ),
        before
    );
    let children: f64 = (0..20).map(|n| it.entitled(&format!("/u/a/c{n}"))).sum();
    assert!(
        close(sum(&it) + children, all),
        "{} {children} {all}",
        sum(&it)
    );
}

#[test]
fn losing_what_was_given_away_revokes_the_newest_as_one_and_tells_why() {
    let mut it = three();
    for _ in 0..2 {
        it.offer(ALICE, "hers", (CPU, 40), (DISK, 10)).unwrap();
        it.offer(BOB, "his", (DISK, 10), (CPU, 40)).unwrap();
    }
    let ids = it.exchange_ids();
    assert_eq!(
        told(&it.unfund(0, "hers", "base", Some(20)).unwrap()).1,
        [0_u64; 0]
    );
    let done = it.unfund(0, "hers", "base", Some(20)).unwrap();
    assert_eq!(told(&done).1, [ids[1]]);
    assert_eq!((it.entitled("hers"), it.disk("hers")), (20.0, 110.0));
    assert_eq!((it.entitled("his"), it.disk("his")), (140.0, 90.0));
    let (_, ended) = it.l.ended().next().unwrap();
    assert!(
        ended.why.contains("hers no longer has the cpu rights"),
        "{}",
        ended.why
    );
}

#[test]
fn who_goes_takes_its_trades_and_its_offers_with_it() {
    let mut it = three();
    it.offer(ALICE, "hers", (CPU, 40), (DISK, 10)).unwrap();
    it.offer(BOB, "his", (DISK, 10), (CPU, 40)).unwrap();
    it.offer(ALICE, "hers", (CPU, 10), (DISK, 90)).unwrap();
    let (exchange, offer) = (
        it.exchange_ids(),
        it.l.book().iter_from(0).next().unwrap().id,
    );
    let done = it.destroy(ALICE, "hers").unwrap();
    assert_eq!((told(&done).1, told(&done).2), (exchange, vec![offer]));
    assert_eq!((it.entitled("his"), it.disk("his")), (100.0, 100.0));
    // A cgroup, too, in the middle of a trade.
    it.mk("/u/a/gone", ALICE);
    it.offer(ALICE, "/u/a/gone", (CPU, 1), (DISK, 1)).unwrap();
    let done = it.rm("/u/a/gone");
    assert_eq!(told(&done).2.len(), 1);
    assert!(it.l.book().is_empty());
}

#[test]
fn three_trade_in_a_ring_and_end_as_one() {
    let mut it = three();
    let mem = GIB;
    it.reserve(0, "its", "base", MEM, tix_ledger::Hard::Bytes(mem))
        .unwrap();
    it.offer(ALICE, "hers", (CPU, 10), (DISK, 10)).unwrap();
    it.offer(BOB, "his", (DISK, 10), (MEM, mem / 2)).unwrap();
    let done = it.offer(0, "its", (MEM, mem / 2), (CPU, 10)).unwrap();
    let made = told(&done).0;
    assert_eq!(it.l.exchange_of(made[0]).unwrap().legs.len(), 6);
    assert_eq!(
        (it.entitled("its"), it.bytes("its"), it.bytes("his")),
        (110.0, mem / 2, mem / 2)
    );
    it.unfund(0, "hers", "base", Some(95)).unwrap();
    assert_eq!(it.exchange_ids(), [0_u64; 0]);
    assert_eq!((it.bytes("its"), it.bytes("his")), (mem, 0));
}

#[test]
fn quotas() {
    let mut it = three();
    for _ in 0..MAX_OFFERS {
        let op = Op::Offer {
            id: it.l.next_number(),
            party: it.full("hers"),
            terms: terms((CPU, 1), (DISK, 90)),
            now: 0,
        };
        it.l.apply(&op, &user(ALICE)).unwrap();
    }
    let e = refused(it.offer(ALICE, "hers", (CPU, 1), (DISK, 90)));
    assert!(matches!(e, Refusal::LimitReached(_)), "{e}");
    it.offer(BOB, "his", (CPU, 1), (DISK, 90)).unwrap();
    let first = it.l.book().iter_from(0).next().unwrap().id;
    it.cancel(ALICE, first).unwrap();
    it.offer(ALICE, "hers", (CPU, 1), (DISK, 90)).unwrap();
}

#[test]
fn amending_keeps_the_number_and_loses_the_turn() {
    let mut it = three();
    it.offer(ALICE, "hers", (CPU, 10), (DISK, 20)).unwrap();
    let id = it.l.book().iter_from(0).next().unwrap().id;
    it.offer(0, "its", (CPU, 10), (DISK, 10)).unwrap();
    let amended = Op::Amend {
        offer: id,
        terms: terms((CPU, 10), (DISK, 10)),
        now: 0,
    };
    it.does(ALICE, amended).unwrap();
    it.offer(BOB, "his", (DISK, 10), (CPU, 10)).unwrap();
    assert_eq!((it.entitled("its"), it.entitled("hers")), (90.0, 100.0));
    assert_eq!(
        it.l.book().iter_from(0).map(|o| o.id).collect::<Vec<_>>(),
        [id]
    );
    // Terms that are refused leave it as it was.
    let amended = Op::Amend {
        offer: id,
        terms: terms((CPU, 1000), (DISK, 10)),
        now: 0,
    };
    assert!(matches!(
        it.does(ALICE, amended),
        Err(Refusal::TooLittle { .. })
    ));
    let own = Op::Accept {
        offer: id,
        party: "hers".into(),
        now: 0,
    };
    assert!(matches!(
        it.does(ALICE, own),
        Err(Refusal::SelfTrade { .. })
    ));
}

#[test]
fn expiry_is_told() {
    let mut it = three();
    let op = Op::Offer {
        id: it.l.next_number(),
        party: "hers".into(),
        terms: Terms {
            expires: Some(50),
            ..terms((CPU, 1), (DISK, 1))
        },
        now: 0,
    };
    it.does(ALICE, op).unwrap();
    assert_eq!(
        told(&it.does(0, Op::Expire { now: 49 }).unwrap()).2,
        [0_u64; 0]
    );
    assert_eq!(
        told(&it.does(0, Op::Expire { now: 50 }).unwrap()).2.len(),
        1
    );
}

/// After a restart all is as before; and of a party that vanished meanwhile, all that it was in is
/// revoked, as one, and told.
#[test]
fn a_restart() {
    let mut it = three();
    it.offer(ALICE, "/u/a/j", (CPU, 10), (DISK, 10)).unwrap();
    it.offer(BOB, "his", (DISK, 10), (CPU, 10)).unwrap();
    it.offer(ALICE, "/u/a/j", (CPU, 10), (DISK, 90)).unwrap();
    it.offer(BOB, "his", (DISK, 10), (Resource::Net, 10))
        .unwrap();
    let id = it.exchange_ids()[0];
    let restarted = |it: &It, paths: &[&str]| {
        let mut again = It::new();
        again.made.clone_from(&it.made);
        for path in paths {
            again.mk(path, if path.starts_with("/u/a") { ALICE } else { BOB });
        }
        again.l = {
            let mut l: Ledger = again.l.clone();
            l.load(it.l.rows());
            l
        };
        again
    };
    let all = ["/u", "/u/a", "/u/b", "/u/a/j", "/u/a/k", "/u/b/j", "/u/b/k"];
    let mut same = restarted(&it, &all);
    assert_eq!(same.l.sweep(), vec![]);
    assert_eq!(same.l.rows(), it.l.rows());
    assert_eq!(
        (same.entitled("his"), same.l.next_number()),
        (it.entitled("his"), it.l.next_number())
    );
    assert!(same.l.changes().is_empty());
    let mut other = restarted(&it, &["/u", "/u/b", "/u/b/j", "/u/b/k"]);
    let events = other.l.sweep();
    other.sound();
    assert_eq!((told(&events).1, told(&events).2.len()), (vec![id], 1));
    assert_eq!((other.entitled("his"), other.disk("his")), (100.0, 100.0));
    assert_eq!((other.l.exchanges().count(), other.l.book().len()), (0, 1));
    // And so it is kept.
    let kept = other.l.changes();
    assert!(kept.contains(&(Key::Exchange(id), None)));
    assert!(
        kept.iter()
            .any(|(k, row)| *k == Key::Ended(id) && matches!(row, Some(Row::Ended { .. })))
    );
}
