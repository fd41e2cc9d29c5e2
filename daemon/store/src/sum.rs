// SPDX-License-Identifier: GPL-2.0-only
//! The sum that is kept beside a row. It is part of the schema: another one is another schema.

use super::codes::{number_of, number_of_withdrawn};
use tix_model::{End, Key, Row};

/// A sum over what a row says. Every word goes in by a step that can be undone, so one changed word
/// always changes the 64 bits, which are folded to 32 to keep rows short. It is against rot, not
/// against forgers.
struct Sum(u64);

impl Sum {
    fn word(self, word: u64) -> Sum {
        Sum((self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn optional(self, word: Option<u64>) -> Sum {
        match word {
            None => self.word(0),
            Some(w) => self.word(1).word(w),
        }
    }

    fn text(self, text: &str) -> Sum {
        text.as_bytes()
            .chunks(8)
            .fold(self.word(text.len() as u64), |sum, chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                sum.word(u64::from_le_bytes(word))
            })
    }

    fn end(self, end: &End) -> Sum {
        match end {
            End::Cid(c) => self.word(0).word(*c),
            End::Path(p) => self.word(1).text(p),
        }
    }

    fn folded(self) -> i64 {
        let high = u32::try_from(self.0 >> 32).unwrap_or(u32::MAX);
        let low = u32::try_from(self.0 & 0xffff_ffff).unwrap_or(u32::MAX);
        i64::from((high ^ low).cast_signed())
    }
}

/// The sum of a row; `None` if it is of another kind than its key.
pub(super) fn sum(key: &Key, row: &Row) -> Option<i64> {
    let sum = match (key, row) {
        (
            Key::Currency(cid),
            Row::Currency {
                name,
                owner,
                group,
                mode,
                transient,
                by,
            },
        ) => {
            let sum = Sum(1).word(*cid).text(name);
            let sum = sum.word((*owner).into()).word((*group).into());
            let sum = sum.word((*mode).into()).word((*by).into());
            match transient {
                None => sum.word(0),
                Some(path) => sum.word(1).text(path),
            }
        }
        (
            Key::Broker(path),
            Row::Broker {
                owner,
                group,
                mode,
                by,
            },
        ) => Sum(2)
            .text(path)
            .optional(owner.map(Into::into))
            .optional(group.map(Into::into))
            .optional(mode.map(Into::into))
            .word((*by).into()),
        (
            Key::Ticket {
                issuer,
                holder,
                resource,
                kind,
            },
            Row::Ticket { amount, bytes, by },
        ) => Sum(3)
            .end(issuer)
            .end(holder)
            .word(resource.index() as u64)
            .word(number_of(*kind).cast_unsigned())
            .word(*amount)
            .word(u64::from(*bytes))
            .word((*by).into()),
        (Key::Binding(path), Row::Binding { cid, by, withdrawn }) => Sum(4)
            .text(path)
            .word(*cid)
            .word((*by).into())
            .word(number_of_withdrawn(*withdrawn).cast_unsigned()),
        (Key::Exchange(id), Row::Exchange { legs, by }) => {
            let sum = Sum(5).word(*id).word((*by).into()).word(legs.len() as u64);
            legs.iter().fold(sum, |sum, leg| {
                sum.end(&leg.party)
                    .word(leg.resource.index() as u64)
                    .word(leg.amount.cast_unsigned())
            })
        }
        (Key::Lapsed(holder, resource), Row::Lapsed { amount }) => Sum(6)
            .text(holder)
            .word(resource.index() as u64)
            .word(*amount),
        (
            Key::Offer(id),
            Row::Offer {
                party,
                by,
                turn,
                gives,
                give,
                wants,
                want,
                left,
                least,
                expires,
            },
        ) => {
            let sum = Sum(7).word(*id).end(party).word((*by).into()).word(*turn);
            let sum = sum.word(gives.index() as u64).word(*give);
            let sum = sum.word(wants.index() as u64).word(*want);
            sum.word(*left).word(*least).optional(*expires)
        }
        (Key::Ended(id), Row::Ended { legs, why }) => {
            let sum = Sum(8).word(*id).text(why).word(legs.len() as u64);
            legs.iter().fold(sum, |sum, leg| {
                sum.text(&leg.name)
                    .word(leg.resource.index() as u64)
                    .word(leg.amount.cast_unsigned())
            })
        }
        (Key::Limit(end, resource), Row::Limit { milli, by }) => Sum(9)
            .end(end)
            .word(resource.index() as u64)
            .word(*milli)
            .word((*by).into()),
        (Key::Space(uid), Row::Space { label }) => Sum(10).word((*uid).into()).text(label),
        _ => return None,
    };
    Some(sum.folded())
}
