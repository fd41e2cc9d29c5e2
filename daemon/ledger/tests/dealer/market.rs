// SPDX-License-Identifier: GPL-2.0-only
//! Trades in a ledger: random offers among random parties, some funded by others, while root funds
//! and withdraws.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::BTreeSet;
use tix_ledger::{BASE, Caller, Cid, Event, Key, Ledger, Op, Resource, Row, Terms};

/// Parties; those in the second half are funded by those in the first, and root's `bank` by nobody
/// but base.
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "bank"];
const OF: [Resource; 3] = [Resource::Cpu, Resource::Disk, Resource::Net];

#[derive(Debug, Clone)]
enum Step {
    Offer(usize, (usize, u64), (usize, u64), u64),
    Accept(prop::sample::Index, usize),
    Amend(prop::sample::Index, u64, u64),
    Cancel(prop::sample::Index),
    Fund(usize, usize, i64),
    Unfund(usize, usize, i64),
    Destroy(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let any = any::<prop::sample::Index>;
    let party = || 0..NAMES.len() - 1;
    let much = || prop_oneof![4 => 1..40_u64, 1 => Just(90)];
    let least = prop_oneof![3 => Just(1_u64), 1 => Just(5_000), 1 => Just(u64::MAX)];
    prop_oneof![
        14 => (party(), (0..3_usize, much()), (0..3_usize, much()), least)
            .prop_map(|(p, g, w, least)| Step::Offer(p, g, w, least)),
        2 => (any(), party()).prop_map(|(i, p)| Step::Accept(i, p)),
        2 => (any(), much(), much()).prop_map(|(i, g, w)| Step::Amend(i, g, w)),
        3 => any().prop_map(Step::Cancel),
        2 => (party(), 0..3_usize, 1..50_i64).prop_map(|(p, r, n)| Step::Fund(p, r, n)),
        3 => (party(), 0..3_usize, 1..90_i64).prop_map(|(p, r, n)| Step::Unfund(p, r, n)),
        1 => party().prop_map(Step::Destroy),
    ]
}

fn issuer(party: usize) -> &'static str {
    if party < 4 { "base" } else { NAMES[party - 4] }
}

fn root(l: &mut Ledger, op: Op) -> bool {
    l.apply(&op, &Caller::ROOT).is_ok()
}

fn start() -> Ledger {
    let mut l = Ledger::new(1, 1 << 30);
    for (i, name) in NAMES.iter().enumerate() {
        let op = Op::Create {
            cid: l.next_cid(),
            name: (*name).to_owned(),
            owner: 0,
            group: 0,
            mode: 0o700,
        };
        assert!(root(&mut l, op));
        for resource in OF {
            let op = Op::Fund {
                holder: (*name).to_owned(),
                issuer: if i == 7 { "base" } else { issuer(i) }.to_owned(),
                resource,
                amount: 100,
            };
            assert!(root(&mut l, op));
        }
    }
    l
}

type All = Vec<(Cid, [u128; Resource::COUNT])>;

fn entitlements(l: &Ledger) -> All {
    let all = l.cids().into_iter();
    all.map(|c| (c, Resource::ALL.map(|r| l.entitlement(c, r))))
        .collect()
}

/// `parties` and whoever they fund.
fn reached(l: &Ledger, parties: &[Cid]) -> BTreeSet<Cid> {
    let all = Resource::ALL.into_iter();
    all.flat_map(|r| parties.iter().flat_map(move |p| l.below(*p, r)))
        .collect()
}

/// Without what is told of exchanges that are over.
fn in_force(l: &Ledger) -> Vec<(Key, Row)> {
    let rows = l.rows().into_iter();
    rows.filter(|(k, _)| !matches!(k, Key::Ended(_))).collect()
}

fn made(events: &[Event]) -> Vec<(u64, Vec<Cid>)> {
    let of = |e: &Event| match e {
        Event::Exchanged {
            id,
            parties,
            revoked: None,
        } => Some((*id, parties.clone())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn revoked(events: &[Event]) -> usize {
    let of = |e: &&Event| {
        matches!(
            e,
            Event::Exchanged {
                revoked: Some(_),
                ..
            }
        )
    };
    events.iter().filter(of).count()
}

fn op(l: &Ledger, step: &Step) -> Option<Op> {
    let terms = |gives: usize, give: u64, wants: usize, want: u64, least: u64| Terms {
        gives: OF[gives],
        give: give * 1000,
        wants: OF[wants],
        want: want * 1000,
        least: least.min(want * 1000),
        expires: None,
    };
    let offer = |i: &prop::sample::Index| {
        let ids: Vec<u64> = l.book().iter_from(0).map(|o| o.id).collect();
        (!ids.is_empty()).then(|| ids[i.index(ids.len())])
    };
    Some(match step {
        Step::Offer(p, g, w, least) => Op::Offer {
            id: l.next_number(),
            party: NAMES[*p].to_owned(),
            terms: terms(g.0, g.1, w.0, w.1, *least),
            now: 0,
        },
        Step::Accept(i, p) => Op::Accept {
            offer: offer(i)?,
            party: NAMES[*p].to_owned(),
            now: 0,
        },
        Step::Amend(i, g, w) => {
            let id = offer(i)?;
            let o = l.book().get(id)?;
            let at = |r| OF.iter().position(|x| *x == r).unwrap();
            Op::Amend {
                offer: id,
                terms: terms(at(o.pair.gives), *g, at(o.pair.wants), *w, 1),
                now: 0,
            }
        }
        Step::Cancel(i) => {
            let mut ids: Vec<u64> = l.exchanges().map(|(id, _)| id).collect();
            ids.extend(l.book().iter_from(0).map(|o| o.id));
            if ids.is_empty() {
                return None;
            }
            Op::Cancel {
                id: ids[i.index(ids.len())],
            }
        }
        Step::Fund(p, r, amount) => Op::Fund {
            holder: NAMES[*p].to_owned(),
            issuer: issuer(*p).to_owned(),
            resource: OF[*r],
            amount: *amount,
        },
        Step::Unfund(p, r, amount) => Op::Unfund {
            holder: NAMES[*p].to_owned(),
            issuer: issuer(*p).to_owned(),
            resource: OF[*r],
            amount: Some(*amount),
        },
        Step::Destroy(p) => Op::Destroy {
            name: NAMES[*p].to_owned(),
        },
    })
}

fn check(l: &mut Ledger, step: &Step) -> Result<(), TestCaseError> {
    let Some(op) = op(l, step) else { return Ok(()) };
    let (before, rows) = (l.clone(), l.rows());
    let was = entitlements(l);
    let mark = l.mark();
    let Ok(events) = l.apply(&op, &Caller::ROOT) else {
        prop_assert_eq!(l.rows(), rows, "{:?} was refused, and done", op);
        return Ok(());
    };
    prop_assert_eq!(l.verify(), Vec::<String>::new(), "{:?}", op);
    // Undone, as when it cannot be kept.
    let mut undone = l.clone();
    undone.undo(mark);
    prop_assert_eq!(undone.rows(), rows, "{:?}", op);
    prop_assert_eq!(entitlements(&undone), was.clone());
    // And read again.
    let mut again = Ledger::new(1, 1 << 30);
    again.load(l.rows());
    prop_assert_eq!(again.rows(), l.rows());
    prop_assert_eq!(again.sweep(), vec![]);
    match &op {
        Op::Offer { .. } | Op::Amend { .. } | Op::Accept { .. } => {
            prop_assert_eq!(revoked(&events), 0, "{:?}", op);
            let parties: Vec<Cid> = made(&events).into_iter().flat_map(|(_, p)| p).collect();
            same_but_for(l, &was, &reached(l, &parties), &op)?;
            // Taken back, the newest first, everything is as it was, bit for bit.
            let mut back = l.clone();
            for (id, _) in made(&events).into_iter().rev() {
                let events = back.apply(&Op::Cancel { id }, &Caller::ROOT).unwrap();
                prop_assert_eq!(revoked(&events), 1, "cancelling forces no other");
                prop_assert_eq!(back.verify(), Vec::<String>::new());
            }
            prop_assert_eq!(entitlements(&back), was);
        }
        Op::Cancel { id } => {
            let parties = before
                .exchange_of(*id)
                .map(|x| x.parties())
                .unwrap_or_default();
            prop_assert_eq!(revoked(&events), usize::from(!parties.is_empty()));
            same_but_for(l, &was, &reached(l, &parties), &op)?;
            let gone = in_force(&before).len() - in_force(l).len();
            prop_assert_eq!(gone, 1);
        }
        _ => {}
    }
    Ok(())
}

fn same_but_for(l: &Ledger, was: &All, but: &BTreeSet<Cid>, op: &Op) -> Result<(), TestCaseError> {
    for ((c, is), (_, was)) in entitlements(l).iter().zip(was) {
        prop_assert!(
            is == was || but.contains(c),
            "{op:?} moved what {} has",
            l.name(*c)
        );
    }
    prop_assert!(!but.contains(&BASE));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_pays_but_who_trades(steps in prop::collection::vec(step(), 1..40)) {
        let mut l = start();
        l.settle();
        for step in &steps {
            check(&mut l, step)?;
        }
    }
}
