// SPDX-License-Identifier: GPL-2.0-only
//! What the ledger did, in words: for those who watch, for the log, and for whom it concerns.

use super::event::{EventKind, WatchEvent};
use super::now_usec;
use std::collections::BTreeMap;
use tix_ledger::dealer::Offer;
use tix_ledger::{Cid, Event, Kind, Ledger, Op, Resource, TIXD};
use tix_model::{LIFELINE, units};
use tix_store::{LONGEST_OP, Record};

/// An event, and who else than the asker should know.
pub(super) struct Told {
    pub event: WatchEvent,
    /// Owners, each with the currency that makes it theirs.
    pub concerns: Vec<(u32, String)>,
    /// It is kept in the log though nobody asked for it.
    pub worth_keeping: bool,
}

/// Names in full of the currencies that went in the events that are told: the ledger has them no
/// more. Their owners are told of that once, and of none of the tickets that went with them.
pub(super) struct Gone<'a>(BTreeMap<Cid, &'a str>);

impl<'a> Gone<'a> {
    pub fn of(events: impl IntoIterator<Item = &'a Event>) -> Gone<'a> {
        let gone = events.into_iter().filter_map(|e| match e {
            Event::Destroyed { cid, name, .. } => Some((*cid, name.as_str())),
            Event::CgroupRemoved { cid, path } => Some((*cid, path.as_str())),
            _ => None,
        });
        Gone(gone.collect())
    }
}

/// What happened to `ledger`, in words.
pub fn acts(ledger: &Ledger, events: &[Event]) -> Vec<String> {
    let gone = Gone::of(events);
    let told = events.iter().map(|e| Teller(ledger).tell(e, None, &gone));
    told.map(|told| told.event.message).collect()
}

/// Says what was done, by the names that a ledger has.
pub(super) struct Teller<'a>(pub(super) &'a Ledger);

impl Teller<'_> {
    fn owner(&self, cid: Cid) -> Option<u32> {
        self.0.get(cid).map(|c| c.owner)
    }

    fn owner_and_name(&self, cid: Cid) -> Option<(u32, String)> {
        Some((self.owner(cid)?, self.0.name(cid)))
    }

    /// `e` in words; `gone`: what went in it, or in others that are told together.
    fn tell(&self, e: &Event, uid: Option<u32>, gone: &Gone<'_>) -> Told {
        use EventKind as K;
        let mut out = WatchEvent::new(K::Created, String::new());
        out.uid = uid;
        let (mut concerns, mut worth_keeping) = (Vec::new(), false);
        let name = |c: Cid| match gone.0.get(&c) {
            Some(name) => (*name).to_owned(),
            None => self.0.name(c),
        };
        match e {
            Event::Created { name, .. } => {
                (out.currency, out.message) = (Some(name.clone()), format!("{name} created"));
            }
            Event::Destroyed { name, owner, .. } => {
                (out.kind, out.currency) = (K::Destroyed, Some(name.clone()));
                out.message = format!("{name} destroyed");
                (concerns, worth_keeping) = (vec![(*owner, name.clone())], true);
            }
            Event::Funded {
                holder,
                issuer,
                resource,
                kind,
                bytes,
                was,
                amount,
            } => {
                let (h, i) = (name(*holder), name(*issuer));
                let size = amount_text(*resource, *kind, *bytes, *amount);
                out.message = match amount {
                    0 => format!("{h} no longer holds {} of {i}", kind_text(*resource, *kind)),
                    _ => format!("{h} holds {size} of {i}"),
                };
                out.kind = match (amount < was, kind) {
                    (true, _) => K::Withdrawn,
                    (false, Kind::Soft) => K::Funded,
                    (false, Kind::Hard) => K::Reserved,
                };
                if amount < was {
                    concerns.extend(self.owner_and_name(*holder));
                    worth_keeping = true;
                }
                (out.currency, out.issuer, out.amount) = (Some(h), Some(i), Some(*amount));
                out.resource = Some(*resource);
                out.kind_of_ticket = Some(*kind);
            }
            Event::Bound { name: n, path, .. } | Event::Unbound { name: n, path, .. } => {
                let bound = matches!(e, Event::Bound { .. });
                out.kind = if bound { K::Bound } else { K::Unbound };
                let n = name(*n);
                let verb = if bound {
                    "bound to"
                } else {
                    "no longer bound to"
                };
                out.message = format!("{n} {verb} {path}");
                (out.currency, out.cgroup) = (Some(n), Some(path.clone()));
                let cgroup = self.0.find(path);
                concerns.extend(cgroup.and_then(|c| self.owner_and_name(c)));
            }
            Event::Brokered {
                cid,
                owner,
                group,
                mode,
            } => {
                let n = name(*cid);
                out.kind = K::Brokered;
                out.message = format!(
                    "{n} is {} of uid {owner}, group {group}",
                    units::mode::show(*mode)
                );
                concerns.push((*owner, n.clone()));
                out.currency = Some(n);
            }
            Event::Limited { cid, milli } => {
                let n = name(*cid);
                (out.kind, out.message) = match milli {
                    Some(m) => (K::Limited, format!("{n} {}", limit_text(*m))),
                    None => (K::Unlimited, format!("{n} is not limited any more")),
                };
                concerns.extend(self.owner_and_name(*cid));
                worth_keeping = true;
                (out.currency, out.amount) = (Some(n), *milli);
                out.resource = Some(Resource::Cpu);
            }
            Event::Exchanged {
                id,
                parties,
                revoked,
            } => {
                let names: Vec<String> = parties.iter().map(|p| name(*p)).collect();
                out.currency = names.first().cloned();
                (out.kind, out.message) = match revoked {
                    None => (K::Exchanged, self.exchange_text(*id, &names)),
                    Some(why) => (K::Revoked, format!("exchange {id} revoked: {why}")),
                };
                concerns.extend(parties.iter().filter_map(|p| self.owner_and_name(*p)));
                worth_keeping = true;
            }
            Event::Offered { id, party } => {
                let n = name(*party);
                let terms = self.0.book().get(*id).map(offer_text);
                out.kind = K::Offered;
                out.message = format!("{n} offers {} (offer {id})", terms.unwrap_or_default());
                out.currency = Some(n);
                concerns.extend(self.owner_and_name(*party));
            }
            Event::Unoffered {
                id,
                name,
                owner,
                why,
            } => {
                (out.kind, out.currency) = (K::Unoffered, Some(name.clone()));
                out.message = format!("offer {id} of {name} is off the book: {why}");
                (concerns, worth_keeping) = (vec![(*owner, name.clone())], true);
            }
            Event::CgroupCreated { path, .. }
            | Event::CgroupRemoved { path, .. }
            | Event::CgroupChanged { path, .. } => {
                (out.kind, out.message) = match e {
                    Event::CgroupCreated { .. } => {
                        (K::CgroupCreated, format!("cgroup {path} appeared"))
                    }
                    Event::CgroupRemoved { .. } => {
                        (K::CgroupRemoved, format!("cgroup {path} went"))
                    }
                    _ => (K::CgroupChanged, format!("cgroup {path} changed")),
                };
                (out.currency, out.cgroup) = (Some(path.clone()), Some(path.clone()));
            }
            Event::Dropped { what, owner } => {
                (out.kind, out.message) = (K::Withdrawn, format!("not in force any more: {what}"));
                (concerns, worth_keeping) = (vec![(*owner, String::new())], true);
            }
        }
        out.concerns = concerns.iter().map(|(owner, _)| *owner).collect();
        out.concerns.sort_unstable();
        out.concerns.dedup();
        Told {
            event: out,
            concerns,
            worth_keeping,
        }
    }

    /// Who gives whom what.
    fn exchange_text(&self, id: u64, names: &[String]) -> String {
        let between = format!("exchange {id} between {}", names.join(" and "));
        let x = self.0.exchange_of(id).filter(|x| x.is_a_trade());
        let Some(x) = x else { return between };
        let given = (x.legs.iter()).filter(|(_, _, n)| *n < 0).map(|(p, r, n)| {
            let amount = units::rights::show(*r, n.unsigned_abs());
            format!("{} gives {amount}", self.0.name(*p))
        });
        let given: Vec<String> = given.collect();
        format!("{between}: {}", given.join(", "))
    }

    /// As [`Teller::tell`]; what is not in force any more is told to the journal, too.
    pub(super) fn report(&self, e: &Event, uid: Option<u32>, gone: &Gone<'_>) -> Told {
        if let Event::Dropped { what, .. } = e {
            tracing::warn!("not in force any more: {what}");
        }
        self.tell(e, uid, gone)
    }

    /// The log's records of an operation and of what came of it: one for whoever asked, and one for
    /// each other whom it concerns.
    pub(super) fn records(&self, op: &Op, events: &[Event], uid: u32, undo: &Undo) -> Vec<Record> {
        let gone = Gone::of(events);
        let told: Vec<Told> = (events.iter())
            .map(|e| self.report(e, Some(uid), &gone))
            .collect();
        let words: Vec<&str> = told.iter().map(|t| t.event.message.as_str()).collect();
        // Some operations name what they are done to by a number alone.
        let named = told.iter().find_map(|t| t.event.currency.clone());
        let made = events.iter().find_map(|e| match e {
            Event::Created { name, .. } => Some(name.clone()),
            _ => None,
        });
        let subject = match (made, op.subject()) {
            // In full, as the ledger has it.
            (Some(name), _) => name,
            (None, "") => named.unwrap_or_default(),
            (None, subject) => subject.to_owned(),
        };
        let owner = self.0.find(&subject).and_then(|c| self.owner(c));
        // That tixd keeps the lifeline is nothing that was done to root.
        let keeps = uid == TIXD && subject == LIFELINE;
        let mut out = vec![Record {
            time_usec: now_usec(),
            uid,
            kind: undo.undoes.map_or(op.kind(), |_| "undo").to_owned(),
            subject: subject.clone(),
            text: words.join("; "),
            op: kept(op, &subject, undo),
            owner: owner.filter(|_| !keeps),
        }];
        for t in told.iter().filter(|t| t.worth_keeping) {
            // A trade is in the log of each of its parties, also where both are the asker's.
            let others = (t.concerns.iter()).filter(|(u, name)| match t.is_trade() {
                true => *name != subject,
                false => *u != uid && Some(*u) != owner,
            });
            out.extend(others.map(|other| record(t, uid, other)));
        }
        out.iter_mut().for_each(Record::bound);
        out
    }

    /// The log's records of what nobody asked for.
    pub(super) fn told(&self, events: &[Event]) -> Vec<Record> {
        // The lifeline follows the tree: nothing that was done to root.
        let follows = |e: &&Event| {
            let lifeline = self.0.lifeline();
            matches!(e, Event::Funded { holder, .. } if Some(*holder) == lifeline)
        };
        let gone = Gone::of(events);
        let told = (events.iter().filter(|e| !follows(e))).map(|e| self.report(e, None, &gone));
        told.filter(|t| t.worth_keeping)
            .flat_map(|t| {
                let each = t.concerns.iter().map(|other| record(&t, TIXD, other));
                each.collect::<Vec<_>>()
            })
            .collect()
    }
}

impl Told {
    fn is_trade(&self) -> bool {
        matches!(self.event.kind, EventKind::Exchanged | EventKind::Revoked)
    }
}

/// What the log keeps of an operation so that it can be taken back.
pub(super) struct Undo {
    /// It takes back what has this number.
    pub undoes: Option<i64>,
    /// What would take it back, or why nothing does.
    pub back: Result<Vec<Op>, String>,
}

/// The operation as JSON, without the name that the record has as its subject; and what would take
/// it back or why nothing does, or what it takes back.
fn kept(op: &Op, subject: &str, undo: &Undo) -> String {
    const TOO_LONG: &str = "the names are too long for the log to keep what would take it back";
    let plain = without(op, subject);
    let with = |key: &str, value: serde_json::Value| {
        let mut kept = plain.clone();
        if let Some(kept) = kept.as_object_mut() {
            kept.insert(key.to_owned(), value);
        }
        kept.to_string()
    };
    let kept = match (undo.undoes, &undo.back) {
        (Some(seq), _) => with("undoes", seq.into()),
        (None, Ok(back)) if back.is_empty() => plain.to_string(),
        (None, Ok(back)) => with("undo", back.iter().map(|op| without(op, subject)).collect()),
        (None, Err(why)) => with("for_good", why.as_str().into()),
    };
    // Rather the operation without what takes it back than none.
    let all = [kept, with("for_good", TOO_LONG.into())].into_iter();
    all.chain([plain.to_string()])
        .find(|kept| kept.len() <= LONGEST_OP)
        .unwrap_or_else(|| plain.to_string())
}

fn without(op: &Op, subject: &str) -> serde_json::Value {
    let mut op = serde_json::to_value(op).unwrap_or_default();
    let kinds = op.as_object_mut().into_iter().flat_map(|o| o.values_mut());
    for members in kinds.filter_map(|m| m.as_object_mut()) {
        members.retain(|_, value| value.as_str() != Some(subject));
    }
    op
}

fn record(t: &Told, uid: u32, (owner, name): &(u32, String)) -> Record {
    Record {
        time_usec: t.event.time_usec,
        uid,
        kind: format!("{:?}", t.event.kind).to_lowercase(),
        subject: name.clone(),
        text: t.event.message.clone(),
        op: String::new(),
        owner: Some(*owner),
    }
}

fn kind_text(r: Resource, kind: Kind) -> String {
    match kind {
        Kind::Soft => format!("{} tickets", r.name()),
        Kind::Hard => format!("a hard share of the {}", r.name()),
    }
}

/// A limit of so many thousandths of one CPU.
fn limit_text(milli: u64) -> String {
    format!(
        "with all that it funds is limited to {} of one CPU",
        units::display_thousandths(milli)
    )
}

/// What an offer asks, with units.
fn offer_text(o: &Offer) -> String {
    let show = |r, milli| units::rights::show(r, milli);
    format!(
        "{} for {}",
        show(o.pair.gives, o.gives()),
        show(o.pair.wants, o.left)
    )
}

/// A ticket's amount with its unit.
fn amount_text(r: Resource, kind: Kind, bytes: bool, amount: u64) -> String {
    match (kind, bytes) {
        (Kind::Soft, _) => format!("{amount} {} tickets", r.name()),
        (Kind::Hard, true) => format!(
            "{} of {}, guaranteed,",
            units::display_bytes(amount),
            r.name()
        ),
        (Kind::Hard, false) => format!(
            "{} of the {}, guaranteed,",
            units::display_thousandths(amount),
            r.name()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What is kept of binding `a` to a path of so many quotes, each of which is two bytes of JSON.
    fn bound(quotes: usize, undo: &Undo) -> Value {
        let op = Op::Bind {
            name: "a".to_owned(),
            path: format!("/{}", "\"".repeat(quotes)),
        };
        let kept = kept(&op, "a", undo);
        let kept: Value = serde_json::from_str(&kept).unwrap();
        let path = format!("/{}", "\"".repeat(quotes));
        assert_eq!(kept["bind"]["path"].as_str(), Some(path.as_str()));
        kept
    }

    fn back(quotes: usize) -> Undo {
        Undo {
            undoes: None,
            back: Ok(vec![Op::Unbind {
                name: "a".to_owned(),
                path: Some(format!("/{}", "\"".repeat(quotes))),
            }]),
        }
    }

    #[test]
    fn an_operation_is_kept_with_what_takes_it_back_if_both_are_short_enough() {
        let few = 1_900;
        let kept = bound(few, &back(few));
        assert_eq!(kept["undo"][0]["unbind"].as_object().unwrap().len(), 1);
        assert!(kept.to_string().len() <= LONGEST_OP);
        // As long as a path may be: the operation alone, and why.
        let most = 3_499;
        let kept = bound(most, &back(most));
        assert_eq!(kept["undo"], Value::Null);
        let why = kept["for_good"].as_str().unwrap();
        assert!(why.starts_with("the names are too long"), "{why}");
        assert!(kept.to_string().len() <= LONGEST_OP);
        // Where there is no room for that, either.
        let over = bound(4_080, &back(4_080));
        assert_eq!(over.as_object().unwrap().len(), 1);
        assert!(over.to_string().len() <= LONGEST_OP);
        // What it takes back has few digits.
        let undoes = Undo {
            undoes: Some(7),
            back: Ok(vec![]),
        };
        assert_eq!(bound(most, &undoes)["undoes"], 7);
        let for_good = Undo {
            undoes: None,
            back: Err("why".to_owned()),
        };
        assert_eq!(bound(1, &for_good)["for_good"], "why");
    }
}
