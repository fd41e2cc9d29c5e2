// SPDX-License-Identifier: GPL-2.0-only
//! What tixd says, as one principal sees it.

use crate::index;
use tix_api::units::rights;
use tix_api::{Exchange, ExchangeState, ExplainReply, Offer, Resource, Rights};

/// So much of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    pub resource: Resource,
    /// Thousandths of base tickets; a base ticket of memory is a byte.
    pub milli: u64,
}

impl Amount {
    /// As tixd reads it: `disk:12.500`.
    pub fn text(self) -> String {
        let (whole, part) = (self.milli / 1000, self.milli % 1000);
        format!("{}:{whole}.{part:03}", self.resource.name())
    }
}

impl From<&Rights> for Amount {
    fn from(r: &Rights) -> Amount {
        Amount {
            resource: r.resource,
            milli: rights::milli(r.amount),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&rights::show(self.resource, self.milli))
    }
}

/// What is the principal's own of one resource, whatever has been exchanged. Thousandths of base tickets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holding {
    /// What it is guaranteed.
    pub own: u64,
    /// All that the machine has.
    pub all: u64,
}

impl Holding {
    /// From what tixd explains of it.
    pub fn of(reply: &ExplainReply) -> Holding {
        let all = (reply.base_tickets as f64 * 1000.0) as u64;
        let entitled = reply.currency.share(reply.resource).entitlement * all as f64;
        let its = reply.currency.exchanges.iter();
        let of_it = its.filter(|t| t.resource == reply.resource);
        let got: f64 = of_it.map(|t| t.amount_milli as f64).sum();
        Holding {
            own: (entitled - got).round().max(0.0) as u64,
            all,
        }
    }
}

/// An offer on the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    pub id: u64,
    /// It is the principal's, whoever made it.
    pub mine: bool,
    /// At most so much is given …
    pub gives: Amount,
    /// … for so much at least.
    pub wants: Amount,
    /// The least that one exchange must bring of what is wanted, in its unit.
    pub least: u64,
}

impl Offered {
    pub fn of(offer: &Offer, principal: &str) -> Offered {
        let wants = Amount::from(&offer.wants);
        let least = match (offer.all_or_none, offer.minimum) {
            (true, _) => wants.milli,
            (false, least) => least.map_or(1, rights::milli),
        };
        Offered {
            id: offer.id,
            mine: offer.principal == principal,
            gives: Amount::from(&offer.gives),
            wants,
            least,
        }
    }
}

/// The principal's side of an exchange that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deal {
    pub id: u64,
    pub gives: Vec<Amount>,
    pub gets: Vec<Amount>,
}

impl Deal {
    /// `None` if it is no longer in force.
    pub fn of(exchange: &Exchange, principal: &str) -> Option<Deal> {
        let its = || exchange.parties.iter().filter(|p| p.principal == principal);
        (exchange.state == ExchangeState::Active).then(|| Deal {
            id: exchange.id,
            gives: its()
                .filter_map(|p| p.gives.as_ref())
                .map(Amount::from)
                .collect(),
            gets: its()
                .filter_map(|p| p.gets.as_ref())
                .map(Amount::from)
                .collect(),
        })
    }

    /// In words.
    pub fn told(&self) -> String {
        let all = |side: &[Amount]| {
            let each: Vec<String> = side.iter().map(Amount::to_string).collect();
            each.join(" and ")
        };
        format!("{} for {}", all(&self.gives), all(&self.gets))
    }

    /// What it gives and what it gets, as numbers of [`crate::TRADED`]; `None` unless it is one resource for another, both of those.
    pub fn pair(&self) -> Option<(usize, usize)> {
        match (&self.gives[..], &self.gets[..]) {
            ([give], [get]) => Some((index(give.resource)?, index(get.resource)?)),
            _ => None,
        }
    }
}

/// Everything at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Market {
    pub holds: crate::Each<Holding>,
    /// The book. It must be of a moment before `deals`: what has been matched in between is then in both.
    pub offers: Vec<Offered>,
    /// What the principal has exchanged.
    pub deals: Vec<Deal>,
}

impl Market {
    /// What was got of a resource in exchanges, less what was given of it. Thousandths of base tickets.
    pub fn got(&self, resource: usize) -> i128 {
        let sum = |all: &[Amount]| -> i128 {
            let of_it = all.iter().filter(|a| index(a.resource) == Some(resource));
            of_it.map(|a| i128::from(a.milli)).sum()
        };
        self.deals
            .iter()
            .map(|d| sum(&d.gets) - sum(&d.gives))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::Party;

    fn of(resource: Resource, amount: f64) -> Rights {
        Rights { resource, amount }
    }

    #[test]
    fn exchanges_have_two_sides() {
        let (disk, memory) = (of(Resource::Disk, 100.5), of(Resource::Memory, 4096.0));
        let party = |name: &str, gives, gets| Party {
            principal: name.into(),
            gives: Some(gives),
            gets: Some(gets),
        };
        let active = Exchange {
            id: 7,
            parties: vec![party("a", disk, memory), party("b", memory, disk)],
            state: ExchangeState::Active,
            why: None,
        };
        let deal = Deal::of(&active, "a").unwrap();
        assert_eq!(deal.pair(), Some((1, 2)));
        assert_eq!(deal.gives[0].text(), "disk:100.500");
        let market = Market {
            deals: vec![deal],
            ..Default::default()
        };
        assert_eq!([0, 1, 2].map(|r| market.got(r)), [0, -100_500, 4_096_000]);
        let over = Exchange {
            state: ExchangeState::Revoked,
            ..active
        };
        assert_eq!(Deal::of(&over, "a"), None);
    }

    #[test]
    fn tixd_reads_what_is_written() {
        for (resource, milli) in [(Resource::Disk, 12_005), (Resource::Memory, 2_490_880_000)] {
            let text = Amount { resource, milli }.text();
            let read = rights::resource_and_amount(&text);
            assert_eq!(read, Ok((resource, rights::Amount::Milli(milli))), "{text}");
        }
    }

    #[test]
    fn amounts_from_elsewhere_saturate() {
        for (amount, milli) in [(f64::NAN, 0), (-1.0, 0), (f64::INFINITY, u64::MAX)] {
            assert_eq!(Amount::from(&of(Resource::Cpu, amount)).milli, milli);
        }
    }
}
