// SPDX-License-Identifier: GPL-2.0-only
//! model.md §2, §3 and §5 read literally, in unbounded rationals: nothing is kept but who is
//! funded by whom, who holds which exchange tickets and who has runnable threads.

use num_bigint::BigInt;
use num_rational::BigRational;
use tix_core_host::{Edge, SELF};

pub fn rational(n: impl Into<BigInt>, d: impl Into<BigInt>) -> BigRational {
    BigRational::new(n.into(), d.into())
}

/// Issuers have lower indexes than holders.
#[derive(Clone)]
pub struct Oracle {
    pub edges: Vec<Vec<Edge>>,
    /// Thousandths of a base ticket.
    pub delta: Vec<i64>,
    pub running: Vec<bool>,
    /// Soft tickets of base, active or not; 0: as many as are active.
    pub total: u64,
}

/// What an issuer's tickets divide, and into what.
pub struct Issued {
    /// Active soft tickets, `.self` included.
    pub soft: u64,
    /// Thousandths of its active hard tickets.
    pub hard: u64,
    /// Thousandths that its soft tickets share.
    pool: u64,
}

impl Issued {
    fn part(&self, thousandths: u64) -> BigRational {
        let pool = if self.soft > 0 { self.pool } else { 0 };
        rational(thousandths, self.hard + pool)
    }

    /// The part of the issuer that its soft tickets share.
    fn of_pool(&self) -> BigRational {
        match self.soft {
            0 => rational(0, 1),
            _ => self.part(self.pool),
        }
    }
}

/// What every active node is worth, as parts of T.
pub struct Values {
    /// What its tickets divide: P(n).
    pub whole: Vec<Option<BigRational>>,
    /// Of that what its soft tickets and its threads divide, with what rests there.
    pub pool: Vec<BigRational>,
    /// A bound was met that the funding graph has and the model has not.
    pub bounded: bool,
}

impl Values {
    /// Nobody is worth more than the machine. That comes about where more is exchanged away than there is, which the ledger does not
    /// admit, and the funding graph's numbers have no room for several machines.
    pub fn there_is(&self) -> bool {
        let one = rational(1, 1);
        !self.bounded || self.whole.iter().flatten().all(|value| *value <= one)
    }
}

impl Oracle {
    pub fn new(nodes: usize) -> Oracle {
        Oracle {
            edges: vec![Vec::new(); nodes],
            delta: vec![0; nodes],
            running: vec![false; nodes],
            total: 0,
        }
    }

    /// The tickets `issuer` has issued, with their holders.
    pub fn issued_by(&self, issuer: usize) -> impl Iterator<Item = (usize, Edge)> {
        let tickets = self.edges.iter().enumerate();
        tickets.flat_map(move |(holder, edges)| {
            edges
                .iter()
                .filter(move |e| e.issuer as usize == issuer)
                .map(move |e| (holder, *e))
        })
    }

    /// Thousandths that `issuer` has issued to others than `but`.
    pub fn hard_of(&self, issuer: usize, but: usize) -> u32 {
        self.issued_by(issuer)
            .filter(|(holder, e)| e.hard && *holder != but)
            .map(|(_, e)| e.amount)
            .sum()
    }

    /// All soft tickets of base.
    pub fn all_of_base(&self) -> u64 {
        let soft = self.issued_by(0).filter(|(_, e)| !e.hard);
        soft.map(|(_, e)| u64::from(e.amount)).sum::<u64>() + u64::from(SELF)
    }

    /// A node is active while its own threads run or a ticket it issued is active.
    pub fn active(&self) -> Vec<bool> {
        let mut active = self.running.clone();
        for n in (0..active.len()).rev() {
            active[n] = active[n] || self.issued_by(n).any(|(holder, _)| active[holder]);
        }
        active
    }

    pub fn issued(&self, active: &[bool]) -> Vec<Issued> {
        let issued = |n| {
            let own = if self.running[n] { SELF.into() } else { 0 };
            let sum = |hard| {
                self.issued_by(n)
                    .filter(|(holder, e)| active[*holder] && e.hard == hard)
                    .map(|(_, e)| u64::from(e.amount))
                    .sum::<u64>()
            };
            Issued {
                soft: own + sum(false),
                hard: sum(true),
                pool: 1000 - u64::from(self.hard_of(n, usize::MAX)),
            }
        };
        (0..active.len()).map(issued).collect()
    }

    /// What rests with each node, and with its soft tickets, in thousandths of a base ticket.
    fn rests(&self, active: &[bool], issued: &[Issued]) -> (Vec<BigRational>, Vec<BigRational>) {
        let mut rests = vec![rational(0, 1); active.len()];
        let mut soft = rests.clone();
        for n in (1..active.len()).rev().filter(|n| !active[*n]) {
            let gives = &rests[n] + &soft[n] + rational(self.delta[n], 1);
            rests[n] = rational(0, 1);
            soft[n] = rational(0, 1);
            let parts: u32 = self.edges[n].iter().map(|e| u32::from(e.part)).sum();
            if parts == 0 {
                rests[0] += &gives;
                continue;
            }
            for e in &self.edges[n] {
                let of = if e.hard { &mut rests } else { &mut soft };
                of[e.issuer as usize] += &gives * rational(e.part, parts);
            }
        }
        if issued[0].soft == 0 {
            let passed = std::mem::replace(&mut soft[0], rational(0, 1));
            rests[0] += passed;
        }
        (rests, soft)
    }

    pub fn values(&self, active: &[bool], issued: &[Issued]) -> Values {
        let (zero, one) = (rational(0, 1), rational(1, 1));
        let (rests, soft) = self.rests(active, issued);
        let t = match self.total {
            0 => issued[0].soft.max(1),
            total => total,
        };
        let mut bounded = false;
        let mut bound = |x: BigRational, low: &BigRational, high: &BigRational| {
            bounded |= x < *low || x > *high;
            x.clamp(low.clone(), high.clone())
        };
        let minus = -&one;
        let mut of_t = |thousandths: BigRational| {
            bound(
                thousandths / rational(t, 1) / rational(1000, 1),
                &minus,
                &one,
            )
        };
        let deltas: Vec<_> = (self.delta.iter()).map(|d| of_t(rational(*d, 1))).collect();
        let rests: Vec<_> = rests.into_iter().map(&mut of_t).collect();
        let soft: Vec<_> = soft.into_iter().map(&mut of_t).collect();
        let high = rational(100, 1);
        let mut whole: Vec<Option<BigRational>> = vec![None; active.len()];
        let mut pool = vec![zero.clone(); active.len()];
        for n in (0..active.len()).filter(|n| active[*n]) {
            let value = if n == 0 {
                bound(&one + &rests[0], &rational(1, 128), &high)
            } else {
                let tickets = self.edges[n].iter().map(|e| {
                    let i = e.issuer as usize;
                    let (of, part) = if e.hard {
                        (
                            whole[i].as_ref().expect("issuer of an active ticket"),
                            issued[i].part(e.amount.into()),
                        )
                    } else {
                        (&pool[i], rational(e.amount, issued[i].soft))
                    };
                    of * part
                });
                let value = tickets.fold(zero.clone(), |a, b| a + b);
                let value = bound(value + &deltas[n], &zero, &high);
                let value = bound(value + &rests[n], &zero, &high);
                match issued[n].soft {
                    0 => bound(value + &soft[n], &zero, &high),
                    _ => value,
                }
            };
            if issued[n].soft > 0 {
                let own = &value * issued[n].of_pool();
                let low = match n {
                    0 => &own / rational(128, 1),
                    _ => zero.clone(),
                };
                pool[n] = bound(own + &soft[n], &low, &high);
            }
            whole[n] = Some(value);
        }
        Values {
            whole,
            pool,
            bounded,
        }
    }
}
