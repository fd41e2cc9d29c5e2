// SPDX-License-Identifier: GPL-2.0-only
//! The durable part of the ledger replaced as a whole, by a document that somebody hands in: every
//! row is checked as an operation would be.

use super::{Change, Grant, Hard, Key, Kind, Ledger, MAX_AMOUNT, POLICY, Refusal, Resource, Row};
use std::collections::BTreeMap;

impl Ledger {
    /// What must change for the durable rows to be `wanted`, those of jobs that run now and of the
    /// lifeline excepted: goings first, and currencies before what hangs on them. No space goes: a
    /// label is its uid's for good.
    pub fn difference(&self, wanted: &BTreeMap<Key, Row>) -> Vec<Change> {
        let now: BTreeMap<Key, Row> = self.rows().into_iter().collect();
        let lasting = |k: &&Key| {
            !self.is_passing(k) && !self.is_of_lifeline(k, None) && !matches!(k, Key::Space(_))
        };
        let mut gone: Vec<Change> = (now.keys().filter(lasting))
            .filter(|k| !wanted.contains_key(k))
            .map(|k| (k.clone(), None))
            .collect();
        gone.reverse();
        let new = (wanted.iter())
            .filter(|(k, row)| now.get(k) != Some(row) && !self.is_of_lifeline(k, Some(row)));
        gone.extend(new.map(|(k, row)| (k.clone(), Some(row.clone()))));
        gone
    }

    /// It belongs to a job, and goes with it.
    pub fn is_passing(&self, key: &Key) -> bool {
        let transient = |c: super::Cid| self.get(c).is_some_and(|x| x.transient.is_some());
        match key {
            Key::Currency(c) => transient(*c),
            Key::Ticket { issuer, holder, .. } => [issuer, holder]
                .into_iter()
                .filter_map(|e| self.at_end(e))
                .any(transient),
            Key::Binding(path) => self.bindings.get(path).is_some_and(|b| transient(b.name)),
            Key::Exchange(_) | Key::Offer(_) | Key::Ended(_) => true,
            Key::Limit(end, _) => self.at_end(end).is_some_and(transient),
            Key::Space(_) | Key::Broker(_) | Key::Lapsed(..) => false,
        }
    }

    /// Makes these changes, all or none.
    pub fn restore(&mut self, changes: &[Change]) -> Result<Vec<super::Event>, Refusal> {
        let mark = self.mark();
        let before = self.before_import();
        let done = (changes.iter())
            .try_for_each(|(key, row)| self.restore_one(key, row))
            .and_then(|()| self.keep_up_lifeline(before, true));
        if done.is_err() {
            self.undo(mark);
        }
        let mut events = done?;
        events.extend(self.revoke_overdrawn());
        Ok(events)
    }

    fn restore_one(&mut self, key: &Key, row: &Option<Row>) -> Result<(), Refusal> {
        if let (Key::Currency(cid), None) = (key, row) {
            // With what hangs on it of jobs that run.
            self.destroy(*cid, false);
            return Ok(());
        }
        match (key, row) {
            (Key::Space(uid), Some(Row::Space { label })) => self.may_be_label(*uid, label)?,
            (
                Key::Currency(cid),
                Some(Row::Currency {
                    name,
                    owner,
                    mode,
                    by,
                    ..
                }),
            ) => {
                self.is_name_of(*by, name)?;
                if self.get(*cid).is_none() {
                    self.free_name(name, *owner)?;
                }
                if *mode > 0o777 {
                    return Err(Refusal::BadMode(format!("{mode:o}")));
                }
            }
            (
                Key::Ticket {
                    issuer,
                    holder,
                    resource,
                    kind,
                },
                Some(Row::Ticket { amount, bytes, by }),
            ) => {
                if *kind == Kind::Soft && !(1..=MAX_AMOUNT).contains(amount) {
                    return Err(Refusal::BadAmount(amount.to_string()));
                }
                if let (Some(i), Some(h)) = (self.at_end(issuer), self.at_end(holder)) {
                    self.check_edge(POLICY, i, h, *resource)?;
                    let g = Grant {
                        issuer: i,
                        kind: *kind,
                        bytes: *bytes,
                        amount: *amount,
                        by: *by,
                    };
                    if *kind == Kind::Hard {
                        let asked = match bytes {
                            true => Hard::Bytes(*amount),
                            false => Hard::Milli(*amount),
                        };
                        self.check_hard(i, h, *resource, asked)?;
                    }
                    self.set_grant(h, *resource, g);
                    return Ok(());
                }
            }
            (Key::Limit(end, r), Some(Row::Limit { milli, .. })) => {
                self.limitable(end, *r)?;
                Self::limit(*milli)?;
            }
            (Key::Binding(path), Some(Row::Binding { cid, .. })) => {
                if let Some(cgroup) = self.find(path) {
                    for r in Resource::ALL {
                        self.check_edge(POLICY, *cid, cgroup, r)?;
                    }
                }
            }
            _ => {}
        }
        self.note(key.clone());
        self.set_row(key.clone(), row.clone());
        Ok(())
    }
}
