// SPDX-License-Identifier: GPL-2.0-only
//! The lifeline over random histories: after every step it has its share, and no user moves it.

use crate::isolation::in_hand_of;
use crate::model::MEMORY;
use crate::random::{ALICE, BOB, Do, PATHS, any_do, any_start, caller};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use std::collections::BTreeMap;
use tix_ledger::{
    Cgroup, Cid, DEFAULT_MODE, Key, Kind, Ledger, MAX_AMOUNT, Op, Refusal, Resource, Row,
};

/// Where it is bound: below the root and deeper. Root makes these cgroups.
const KEPT: [&str; 2] = ["/t", "/x/p"];

struct Machine {
    l: Ledger,
    lifeline: Cid,
    next_id: u64,
    owners: BTreeMap<String, u32>,
    earlier: BTreeMap<Key, Row>,
}

/// The owner of a directory; root for what the policy has no name for.
fn uid(who: usize) -> u32 {
    let who = caller(who);
    if who.is_root() { 0 } else { who.uid }
}

/// A step, and what else happens with it.
fn any_step() -> impl Strategy<Value = (Do, u8)> {
    (any_do(), any::<u8>())
}

impl Machine {
    fn new(start: &[Do]) -> Machine {
        let mut m = Machine {
            l: Ledger::new(1, MEMORY),
            lifeline: 1,
            next_id: 10,
            owners: BTreeMap::new(),
            earlier: BTreeMap::new(),
        };
        let create = Op::Create {
            cid: m.lifeline,
            name: "lifeline".to_owned(),
            owner: 0,
            group: 0,
            mode: DEFAULT_MODE,
        };
        m.l.apply(&create, &caller(0)).unwrap();
        m.l.keep_lifeline(m.lifeline, KEPT.map(str::to_owned));
        for d in start {
            let _ = m.step(d);
        }
        for path in KEPT {
            m.mkdir("/x", 100, 0, false);
            m.mkdir(path, 100, 0, false);
            let bind = Op::Bind {
                name: "lifeline".to_owned(),
                path: path.to_owned(),
            };
            m.l.apply(&bind, &caller(0)).unwrap();
        }
        m.earlier = m.l.rows().into_iter().collect();
        m
    }

    fn mkdir(&mut self, path: &str, weight: u64, owner: u32, inner_threads: bool) {
        let parent = path.rfind('/').map_or("", |i| &path[..i]);
        if self.l.find(path).is_some() || !parent.is_empty() && self.l.find(parent).is_none() {
            return;
        }
        self.next_id += 1;
        self.owners.insert(path.to_owned(), owner);
        self.l.cgroup_here(&Cgroup {
            path,
            id: self.next_id,
            weight,
            disk: 10_001 - weight.clamp(1, 10_000),
            owner,
            group: owner,
            inner_threads,
        });
    }

    /// `None`: it was refused.
    fn step(&mut self, d: &Do) -> Option<()> {
        match d {
            Do::Op(who, op) => {
                let mut op = op.clone();
                if let Op::Create { cid, .. } | Op::Run { cid, .. } | Op::Nice { cid, .. } = &mut op
                {
                    *cid = self.l.next_cid();
                }
                self.l.apply(&op, &caller(*who)).ok()?;
            }
            Do::Mkdir(p, weight, owner, inner) => {
                self.mkdir(PATHS[*p], *weight, uid(*owner), *inner);
            }
            Do::Rmdir(p) => {
                self.l.cgroup_removed(PATHS[*p]);
            }
            Do::Change(p, weight, owner) => {
                let path = PATHS[*p];
                let mirror = self.l.get(self.l.find(path)?)?.mirror.clone()?;
                let owner = uid(*owner);
                self.owners.insert(path.to_owned(), owner);
                self.l.cgroup_here(&Cgroup {
                    path,
                    id: mirror.id,
                    weight: *weight,
                    disk: 10_001 - *weight,
                    owner,
                    group: owner,
                    inner_threads: mirror.inner_threads,
                });
            }
            Do::Flip(p, r) => {
                let c = self.l.find(PATHS.get(*p)?)?;
                self.l.set_running(c, Resource::ALL[*r], true);
            }
        }
        Some(())
    }

    fn holds(&self) -> [u64; Resource::COUNT] {
        Resource::ALL.map(|r| {
            let held = self.l.held(self.lifeline, 0, r, Kind::Soft);
            held.map_or(0, |g| g.amount)
        })
    }

    /// No limit counts for what it backs. A step of the tree may bring one: it cannot be refused.
    fn is_free(&self) -> bool {
        let there = KEPT.iter().filter_map(|path| self.l.find(path));
        there.into_iter().all(|c| self.l.limits_over(c).is_empty())
    }

    fn check(&self, after: &dyn Fn() -> String) -> Result<(), TestCaseError> {
        let wrong = self.l.verify();
        prop_assert!(wrong.is_empty(), "{wrong:?} after {}", after());
        prop_assert_eq!(self.l.lifeline(), Some(self.lifeline));
        for r in [Resource::Cpu, Resource::Disk] {
            let t = u128::from(self.l.total(r)) << 64;
            let has = self.l.entitlement(self.lifeline, r);
            let hard = self.l.get(0).unwrap().issued(r).0.milli;
            // A tenth of the machine, or half of what is not reserved.
            let part = u128::from(100.min((1000 - hard) / 2));
            let shared = r == Resource::Cpu || self.holds()[r.index()] > 0;
            prop_assert!(
                !shared || has + 4 >= t / 1000 * part,
                "{} of the lifeline is {has} of {t} after {}",
                r.name(),
                after()
            );
            prop_assert!(self.holds()[r.index()] <= MAX_AMOUNT);
        }
        for path in KEPT {
            let Some(cgroup) = self.l.find(path) else {
                continue;
            };
            let bound = self.l.get(cgroup).unwrap().bound_to;
            prop_assert_eq!(bound, Some(self.lifeline), "{} after {}", path, after());
        }
        Ok(())
    }
}

fn history(start: &[Do], steps: &[(Do, u8)]) -> Result<(), TestCaseError> {
    let mut m = Machine::new(start);
    m.check(&|| "the start".to_owned())?;
    for (d, dice) in steps {
        if *dice < 8 {
            // Another ledger is handed in: an earlier one, or none.
            let wanted = match dice {
                0 => BTreeMap::new(),
                _ => m.earlier.clone(),
            };
            let changes = m.l.difference(&wanted);
            let _ = m.l.restore(&changes);
            m.check(&|| format!("an import ({dice})"))?;
        }
        if (8..16).contains(dice) {
            m.earlier = m.l.rows().into_iter().collect();
        }
        let (rows, mark) = (m.l.rows(), m.l.mark());
        let users = matches!(d, Do::Op(who, _) if !caller(*who).is_root())
            || match d {
                Do::Mkdir(p, ..) | Do::Rmdir(p) | Do::Change(p, ..) => {
                    let by = |uid| in_hand_of(&m.owners, PATHS[*p], uid);
                    by(ALICE) || by(BOB)
                }
                _ => false,
            };
        let (before, free) = (m.holds(), m.is_free());
        let done = m.step(d);
        m.check(&|| format!("{d:?}"))?;
        let limited = free && matches!(d, Do::Op(..)) && !m.is_free();
        prop_assert!(!limited, "{d:?} limits it");
        if users {
            prop_assert_eq!(m.holds(), before, "{:?} moved it", d);
        }
        if let (Do::Op(..), Some(()), 16..64) = (d, done, dice) {
            m.l.undo(mark);
            prop_assert_eq!(m.l.rows(), rows, "{:?} was undone", d);
            m.check(&|| format!("{d:?}, undone"))?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn after_every_step_it_has_what_it_is_kept_at(
        start in any_start(),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        history(&start, &steps)?;
    }

    /// The lifeline refuses root the same, whatever a user has done before.
    #[test]
    fn no_user_has_root_refused(
        start in any_start(),
        users in prop::collection::vec(any_do(), 0..40),
        amount in 1i64..1 << 31,
    ) {
        let mut m = Machine::new(&start);
        let big = Op::Create {
            cid: 0,
            name: "big".to_owned(),
            owner: 0,
            group: 0,
            mode: DEFAULT_MODE,
        };
        let fund = Op::Fund {
            holder: "big".to_owned(),
            issuer: "base".to_owned(),
            resource: Resource::Cpu,
            amount,
        };
        let asked = |m: &mut Machine| {
            let mut create = big.clone();
            if let Op::Create { cid, .. } = &mut create {
                *cid = m.l.next_cid();
            }
            let mark = m.l.mark();
            m.l.apply(&create, &caller(0)).unwrap();
            let done = m.l.apply(&fund, &caller(0));
            m.l.undo(mark);
            matches!(done, Err(Refusal::LimitReached(_) | Refusal::Lifeline(_)))
        };
        let before = asked(&mut m);
        for d in &users {
            if let Do::Op(_, op) = d {
                let _ = m.step(&Do::Op(2, op.clone()));
            }
        }
        prop_assert_eq!(asked(&mut m), before);
    }
}
