// SPDX-License-Identifier: GPL-2.0-only
//! Rules for who runs next among clients that always want to, a quantum at a time: tix's own, and those it is compared with.

mod eevdf;
pub mod grouped;
mod lottery;
mod tix;
mod vtrr;
mod wf2q;
mod wfq;
mod wrr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Clients of given shares, whose number stays.
pub trait Rule {
    /// Who has the next quantum.
    fn next(&mut self) -> usize;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// core/queue.h as the kernel runs it: grouped virtual time.
    Tix,
    /// Virtual-time round-robin as published (Nieh 2001 §3).
    Vtrr,
    /// Weighted round-robin: each client its share of quanta in a row.
    Wrr,
    /// Weighted fair queueing: the earliest virtual finishing time (stride scheduling).
    Wfq,
    /// The same among those whose quantum would have begun (Bennett and Zhang 1996).
    Wf2q,
    /// The kernel's own rule since 6.6: the earliest deadline among those who are owed service.
    Eevdf,
    /// A ticket drawn at random (Waldspurger and Weihl 1994).
    Lottery,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::Tix,
        Kind::Vtrr,
        Kind::Wrr,
        Kind::Wfq,
        Kind::Wf2q,
        Kind::Eevdf,
        Kind::Lottery,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Tix => "tix",
            Kind::Vtrr => "VTRR",
            Kind::Wrr => "WRR",
            Kind::Wfq => "WFQ",
            Kind::Wf2q => "WF2Q+",
            Kind::Eevdf => "EEVDF",
            Kind::Lottery => "lottery",
        }
    }

    /// `seed` is for those who draw.
    pub fn start(self, shares: &[u64], seed: u64) -> Box<dyn Rule> {
        match self {
            Kind::Tix => Box::new(tix::Tix::new(shares)),
            Kind::Vtrr => Box::new(vtrr::Vtrr::new(shares)),
            Kind::Wrr => Box::new(wrr::Wrr::new(shares)),
            Kind::Wfq => Box::new(wfq::Wfq::new(shares)),
            Kind::Wf2q => Box::new(wf2q::Wf2q::new(shares, 1)),
            Kind::Eevdf => Box::new(eevdf::Eevdf::new(shares)),
            Kind::Lottery => Box::new(lottery::Lottery::new(shares, seed)),
        }
    }
}

/// `n / share` so that two of them compare as the fractions do, for n and shares below 2^32.
fn virtual_time(n: u64, share: u64) -> u128 {
    (u128::from(n) << 64) / u128::from(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(kind: Kind, shares: &[u64], quanta: usize) -> Vec<usize> {
        let mut rule = kind.start(shares, 1);
        (0..quanta).map(|_| rule.next()).collect()
    }

    #[test]
    fn vtrr_gives_the_papers_order() {
        assert_eq!(first(Kind::Vtrr, &[3, 2, 1], 6), [0, 1, 2, 0, 1, 0]);
    }

    #[test]
    fn each_gets_its_share_in_the_end() {
        for shares in [&[3, 2, 1][..], &[10, 10, 10], &[1, 1, 98], &[7, 5, 5, 2, 1]] {
            let total: u64 = shares.iter().sum();
            for kind in Kind::ALL {
                let quanta = usize::try_from(total * 1000).expect("few");
                let ran = first(kind, shares, quanta);
                for (i, share) in shares.iter().enumerate() {
                    let runs = ran.iter().filter(|r| **r == i).count() as f64;
                    let due = (share * 1000) as f64;
                    let near = if kind == Kind::Lottery {
                        due / 5.0
                    } else {
                        4.0
                    };
                    assert!(
                        (runs - due).abs() < near,
                        "{kind:?} {shares:?}: {i} ran {runs}"
                    );
                }
            }
        }
    }
}
