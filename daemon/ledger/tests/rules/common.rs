// SPDX-License-Identifier: GPL-2.0-only
//! A ledger, and short words for what is done to it.

use std::collections::BTreeMap;
use tix_ledger::{BASE, Caller, Cgroup, Cid, Event, Hard, Ledger, Op, Part, Refusal, Resource};

pub const CPU: Resource = Resource::Cpu;
pub const MEM: Resource = Resource::Memory;
pub const GIB: u64 = 1 << 30;
pub const ALICE: u32 = 1000;
pub const BOB: u32 = 1001;

pub type Done = Result<Vec<Event>, Refusal>;

pub fn user(uid: u32) -> Caller {
    match uid {
        0 => Caller::ROOT,
        uid => Caller::user(uid),
    }
}

/// Every operation is by a uid, and the ledger must be in order after each.
pub struct It {
    pub l: Ledger,
    ids: u64,
    /// What users have made, by its name without their space.
    pub made: BTreeMap<String, String>,
}

impl It {
    pub fn new() -> It {
        It {
            l: Ledger::new(1, 16 * GIB),
            ids: 10,
            made: BTreeMap::new(),
        }
    }

    /// What alice and bob have made is called without their space here, unless there is a plain
    /// currency of that name.
    pub fn full(&self, name: &str) -> String {
        match self.l.find(name) {
            Some(_) => name.to_owned(),
            None => self.made.get(name).map_or(name, |full| full).to_owned(),
        }
    }

    pub fn cid(&self, name: &str) -> Option<Cid> {
        self.l.find(&self.full(name))
    }

    pub fn lapsed(&self, name: &str) -> u64 {
        self.l.lapsed(&self.full(name), CPU)
    }

    /// The currency that is meant by it, in full.
    fn spelled(&self, mut op: Op) -> Op {
        let full = |names: &mut [&mut String]| {
            for name in names {
                **name = self.full(name);
            }
        };
        match &mut op {
            Op::Create { .. } | Op::Amend { .. } | Op::Cancel { .. } | Op::Expire { .. } => {}
            Op::Destroy { name }
            | Op::Limit { name, .. }
            | Op::Unlimit { name, .. }
            | Op::Bind { name, .. }
            | Op::Unbind { name, .. }
            | Op::Chmod { name, .. }
            | Op::Chown { name, .. }
            | Op::Run { issuer: name, .. }
            | Op::Nice { giver: name, .. }
            | Op::Offer { party: name, .. }
            | Op::Accept { party: name, .. } => full(&mut [name]),
            Op::Fund { holder, issuer, .. }
            | Op::Unfund { holder, issuer, .. }
            | Op::Reserve { holder, issuer, .. }
            | Op::Unreserve { holder, issuer, .. } => full(&mut [holder, issuer]),
        }
        op
    }

    pub fn mk(&mut self, path: &str, owner: u32) {
        self.mk_as(path, owner, 100);
    }

    pub fn mk_as(&mut self, path: &str, owner: u32, weight: u64) -> Vec<Event> {
        self.ids += 1;
        let done = self.l.cgroup_here(&Cgroup {
            path,
            id: self.ids,
            weight,
            disk: 100,
            owner,
            group: owner,
            inner_threads: false,
        });
        self.sound();
        done
    }

    pub fn rm(&mut self, path: &str) -> Vec<Event> {
        let done = self.l.cgroup_removed(path);
        self.sound();
        done
    }

    /// It has no cpu controller any more.
    pub fn off(&mut self, path: &str) -> Vec<Event> {
        let done = self.l.cgroup_off(path);
        self.sound();
        done
    }

    pub fn sound(&self) {
        assert_eq!(self.l.verify(), Vec::<String>::new());
    }

    pub fn does(&mut self, uid: u32, op: Op) -> Done {
        let before = self.l.rows();
        let op = self.spelled(op);
        let done = self.l.apply(&op, &user(uid));
        for e in done.iter().flatten() {
            if let Event::Created { name, .. } = e
                && let Some((_, local)) = name.split_once('/')
            {
                self.made.insert(local.to_owned(), name.clone());
            }
        }
        self.sound();
        if done.is_err() {
            assert_eq!(self.l.rows(), before, "{op:?} was refused, and done");
        }
        done
    }

    pub fn create(&mut self, uid: u32, name: &str) -> Done {
        let (cid, name) = (self.l.next_cid(), name.to_owned());
        let mode = 0o700;
        let (owner, group) = (uid, uid);
        self.does(
            uid,
            Op::Create {
                cid,
                name,
                owner,
                group,
                mode,
            },
        )
    }

    pub fn destroy(&mut self, uid: u32, name: &str) -> Done {
        let name = name.to_owned();
        self.does(uid, Op::Destroy { name })
    }

    pub fn fund(&mut self, uid: u32, holder: &str, issuer: &str, amount: i64) -> Done {
        self.fund_of(uid, holder, issuer, CPU, amount)
    }

    pub fn fund_of(&mut self, uid: u32, h: &str, i: &str, resource: Resource, amount: i64) -> Done {
        let (holder, issuer) = (h.to_owned(), i.to_owned());
        self.does(
            uid,
            Op::Fund {
                holder,
                issuer,
                resource,
                amount,
            },
        )
    }

    pub fn unfund(&mut self, uid: u32, holder: &str, issuer: &str, amount: Option<i64>) -> Done {
        let (holder, issuer) = (holder.to_owned(), issuer.to_owned());
        self.does(
            uid,
            Op::Unfund {
                holder,
                issuer,
                resource: CPU,
                amount,
            },
        )
    }

    pub fn reserve(&mut self, uid: u32, h: &str, i: &str, resource: Resource, a: Hard) -> Done {
        let (holder, issuer) = (h.to_owned(), i.to_owned());
        self.does(
            uid,
            Op::Reserve {
                holder,
                issuer,
                resource,
                amount: a,
            },
        )
    }

    pub fn unreserve(&mut self, uid: u32, h: &str, i: &str, resource: Resource) -> Done {
        let (holder, issuer) = (h.to_owned(), i.to_owned());
        self.does(
            uid,
            Op::Unreserve {
                holder,
                issuer,
                resource,
            },
        )
    }

    pub fn limit(&mut self, uid: u32, name: &str, milli: i64) -> Done {
        let name = name.to_owned();
        self.does(
            uid,
            Op::Limit {
                name,
                resource: CPU,
                milli,
            },
        )
    }

    pub fn unlimit(&mut self, uid: u32, name: &str) -> Done {
        let name = name.to_owned();
        self.does(
            uid,
            Op::Unlimit {
                name,
                resource: CPU,
            },
        )
    }

    pub fn bind(&mut self, uid: u32, name: &str, path: &str) -> Done {
        let (name, path) = (name.to_owned(), path.to_owned());
        self.does(uid, Op::Bind { name, path })
    }

    pub fn unbind(&mut self, uid: u32, name: &str) -> Done {
        let name = name.to_owned();
        self.does(uid, Op::Unbind { name, path: None })
    }

    pub fn chmod(&mut self, uid: u32, name: &str, mode: u16) -> Done {
        let name = name.to_owned();
        self.does(uid, Op::Chmod { name, mode })
    }

    pub fn chown(&mut self, uid: u32, name: &str, owner: Option<u32>) -> Done {
        let name = name.to_owned();
        self.does(
            uid,
            Op::Chown {
                name,
                owner,
                group: None,
            },
        )
    }

    pub fn run(&mut self, uid: u32, name: &str, issuer: &str, amount: i64, path: &str) -> Done {
        let cid = self.l.next_cid();
        self.does(
            uid,
            Op::Run {
                cid,
                name: name.to_owned(),
                issuer: issuer.to_owned(),
                amount,
                path: path.to_owned(),
            },
        )
    }

    pub fn nice(&mut self, uid: u32, name: &str, giver: &str, amount: Part, path: &str) -> Done {
        let cid = self.l.next_cid();
        self.does(
            uid,
            Op::Nice {
                cid,
                name: name.to_owned(),
                giver: giver.to_owned(),
                amount,
                path: path.to_owned(),
            },
        )
    }

    /// What it is guaranteed, in base tickets.
    pub fn entitled(&self, name: &str) -> f64 {
        let c = self.cid(name).unwrap();
        self.l.entitlement(c, CPU) as f64 / 2f64.powi(64)
    }

    pub fn value(&self, name: &str) -> f64 {
        let c = self.cid(name).unwrap();
        self.l.value(c, CPU) as f64 / 2f64.powi(64)
    }

    /// Bytes of memory that it is guaranteed.
    pub fn bytes(&self, name: &str) -> u64 {
        let c = self.cid(name).unwrap();
        u64::try_from(self.l.entitlement(c, MEM) >> 64).unwrap()
    }

    pub fn total(&self) -> u64 {
        self.l.total(CPU)
    }

    /// Exactly these cgroups have runnable threads.
    pub fn awake(&mut self, paths: &[&str]) {
        let all: Vec<_> = paths.iter().map(|p| self.l.find(p).unwrap()).collect();
        self.l.set_all_running(CPU, &|c| all.contains(&c));
        self.sound();
    }

    pub fn holds(&self, holder: &str, issuer: &str) -> u64 {
        let (h, i) = (self.cid(holder), self.cid(issuer));
        let kind = tix_ledger::Kind::Soft;
        h.zip(i)
            .and_then(|(h, i)| self.l.held(h, i, CPU, kind))
            .map_or(0, |g| g.amount)
    }
}

pub fn refused(d: Done) -> Refusal {
    d.expect_err("it was done")
}

pub fn forbidden(d: Done) -> bool {
    matches!(d, Err(Refusal::NotPermitted { .. }))
}

pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

/// /u of root's, below it a slice each for alice and bob, and jobs j and k in each.
pub fn alice_and_bob() -> It {
    let mut it = It::new();
    it.mk("/u", 0);
    for (path, owner) in [("/u/a", ALICE), ("/u/b", BOB)] {
        it.mk(path, owner);
        for job in ["j", "k"] {
            it.mk(&format!("{path}/{job}"), owner);
        }
    }
    it.create(ALICE, "hers").unwrap();
    it.create(BOB, "his").unwrap();
    assert_eq!(it.l.find("base"), Some(BASE));
    it
}
