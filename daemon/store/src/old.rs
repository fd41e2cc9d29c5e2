// SPDX-License-Identifier: GPL-2.0-only
//! What schemas 1 and 2 kept, a journal of operations as JSON, reduced to rows.
//!
//! It works on the JSON of those days, not on the operations of today. Every operation in the
//! journal was allowed when it was acknowledged. So where one does not fit what those before it
//! come to, it is they that were over: their cgroup had gone while no tixd ran. The later one
//! holds.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tix_model::{BASE, Cid, End, Key, Kind, MAX_AMOUNT, Resource, Row, Withdrawn};

const ROOT: u32 = 0;
/// A named currency was its owner's alone.
const OWNERS: u16 = 0o700;

/// What one operation was, for the log.
pub(super) struct Told {
    pub kind: String,
    pub subject: String,
    pub text: String,
    pub owner: Option<u32>,
}

#[derive(Default)]
pub(super) struct Reduction {
    rows: BTreeMap<Key, Row>,
    names: HashMap<String, Cid>,
    /// Tickets and bindings by what they hang on.
    at: HashMap<End, BTreeSet<Key>>,
    last_cid: Cid,
}

/// The members of an operation.
struct Members<'a>(&'a Value);

impl<'a> Members<'a> {
    fn text(&self, name: &str) -> Result<&'a str, String> {
        self.0[name]
            .as_str()
            .ok_or_else(|| format!("{name} is missing"))
    }

    fn number<T: TryFrom<u64>>(&self, name: &str) -> Result<T, String> {
        self.0[name]
            .as_u64()
            .and_then(|n| n.try_into().ok())
            .ok_or_else(|| format!("{name} is missing, or not such a number"))
    }

    fn resource(&self) -> Result<Resource, String> {
        serde_json::from_value(self.0["resource"].clone()).map_err(|e| e.to_string())
    }
}

impl Reduction {
    pub(super) fn rows(&self) -> impl Iterator<Item = (&Key, &Row)> {
        self.rows.iter()
    }

    /// The least number that no named currency had.
    pub(super) fn next_cid(&self) -> Cid {
        self.last_cid.saturating_add(1)
    }

    /// Does `op` as `uid`. An error: it is none of the operations there were.
    pub(super) fn apply(&mut self, op: &Value, uid: u32) -> Result<Told, String> {
        let (kind, members) = op
            .as_object()
            .filter(|o| o.len() == 1)
            .and_then(|o| o.iter().next())
            .ok_or("it is no operation")?;
        let m = Members(members);
        let told = |s: &Self, subject: &str, owner: Option<u32>, text: String| Told {
            kind: kind.clone(),
            subject: subject.to_owned(),
            text,
            owner: owner.or_else(|| s.owner(subject)),
        };
        match kind.as_str() {
            "create" => {
                let (name, owner) = (m.text("name")?, m.number("owner")?);
                self.create(m.number("cid")?, name, owner, None, uid);
                let text = format!("created {name} for user {owner}");
                Ok(told(self, name, Some(owner), text))
            }
            "destroy" => {
                let name = m.text("name")?;
                let told = told(self, name, None, format!("destroyed {name}"));
                self.destroy(name);
                Ok(told)
            }
            "fund" => {
                let (holder, issuer) = (m.text("holder")?, m.text("issuer")?);
                let (resource, amount) = (m.resource()?, m.number("amount")?);
                self.fund(issuer, holder, resource, amount, uid);
                let text = format!(
                    "funded {holder} with {amount} {} tickets of {issuer}",
                    resource.name()
                );
                Ok(told(self, holder, None, text))
            }
            "unfund" => {
                let (holder, issuer) = (m.text("holder")?, m.text("issuer")?);
                let resource = m.resource()?;
                let amount = match &members["amount"] {
                    Value::Null => None,
                    _ => Some(m.number("amount")?),
                };
                self.unfund(issuer, holder, resource, amount);
                let many = amount.map_or("all".to_owned(), |a: u64| a.to_string());
                let text = format!(
                    "withdrew {many} {} tickets of {issuer} from {holder}",
                    resource.name()
                );
                Ok(told(self, holder, None, text))
            }
            "bind" => {
                let (name, path) = (m.text("name")?, m.text("path")?);
                if let Some(&cid) = self.names.get(name) {
                    self.bind(cid, path, uid);
                }
                let text = format!("bound {name} to {path}");
                Ok(told(self, name, None, text))
            }
            "unbind" => {
                let name = m.text("name")?;
                let path = members["path"].as_str();
                self.unbind(name, path);
                let from = path.unwrap_or("all cgroups");
                let text = format!("unbound {name} from {from}");
                Ok(told(self, name, None, text))
            }
            "run" => {
                let (name, path) = (m.text("name")?, m.text("path")?);
                let (cid, owner) = (m.number("cid")?, m.number("owner")?);
                let (issuer, amount) = (m.text("issuer")?, m.number("amount")?);
                if self.create(cid, name, owner, Some(path), uid) {
                    self.fund(issuer, name, Resource::Cpu, amount, uid);
                    self.bind(cid, path, uid);
                }
                let text = format!(
                    "ran a command in {path} as {name}, with {amount} cpu tickets of {issuer}"
                );
                Ok(told(self, name, Some(owner), text))
            }
            "wilt" => {
                let path = m.text("path")?;
                self.wilt(path);
                Ok(told(self, path, None, format!("{path} went")))
            }
            other => Err(format!("there was no operation {other:?}")),
        }
    }

    fn owner(&self, name: &str) -> Option<u32> {
        match self.rows.get(&Key::Currency(*self.names.get(name)?))? {
            Row::Currency { owner, .. } => Some(*owner),
            _ => None,
        }
    }

    fn end(&self, name: &str) -> Option<End> {
        match name {
            "base" | "/" => Some(End::Cid(BASE)),
            path if path.starts_with('/') => Some(End::Path(path.to_owned())),
            name => self.names.get(name).map(|c| End::Cid(*c)),
        }
    }

    /// What the row hangs on.
    fn ends(key: &Key, row: &Row) -> Vec<End> {
        match (key, row) {
            (Key::Ticket { issuer, holder, .. }, _) => vec![issuer.clone(), holder.clone()],
            (Key::Binding(path), Row::Binding { cid, .. }) => {
                vec![End::Cid(*cid), End::Path(path.clone())]
            }
            _ => vec![],
        }
    }

    fn set(&mut self, key: Key, row: Row) {
        self.unset(&key);
        for end in Self::ends(&key, &row) {
            self.at.entry(end).or_default().insert(key.clone());
        }
        self.rows.insert(key, row);
    }

    fn unset(&mut self, key: &Key) {
        let Some(row) = self.rows.remove(key) else {
            return;
        };
        for end in Self::ends(key, &row) {
            if let Some(keys) = self.at.get_mut(&end) {
                keys.remove(key);
                if keys.is_empty() {
                    self.at.remove(&end);
                }
            }
        }
    }

    fn hanging_on(&self, end: &End) -> Vec<Key> {
        self.at.get(end).into_iter().flatten().cloned().collect()
    }

    fn create(
        &mut self,
        cid: Cid,
        name: &str,
        owner: u32,
        transient: Option<&str>,
        uid: u32,
    ) -> bool {
        self.last_cid = self.last_cid.max(cid);
        if self.names.contains_key(name) {
            return false;
        }
        let row = Row::Currency {
            name: name.to_owned(),
            owner,
            // The owner's own group was not known; it has the owner's number on most machines, and
            // the mode gives it nothing.
            group: owner,
            mode: OWNERS,
            transient: transient.map(str::to_owned),
            by: uid,
        };
        self.names.insert(name.to_owned(), cid);
        self.set(Key::Currency(cid), row);
        true
    }

    fn destroy(&mut self, name: &str) {
        let Some(cid) = self.names.remove(name) else {
            return;
        };
        for key in self.hanging_on(&End::Cid(cid)) {
            self.unset(&key);
        }
        self.unset(&Key::Currency(cid));
    }

    fn ticket(&self, issuer: &str, holder: &str, resource: Resource) -> Option<Key> {
        Some(Key::Ticket {
            issuer: self.end(issuer)?,
            holder: self.end(holder)?,
            resource,
            kind: Kind::Soft,
        })
    }

    fn fund(&mut self, issuer: &str, holder: &str, resource: Resource, more: u64, uid: u32) {
        let Some(key) = self.ticket(issuer, holder, resource) else {
            return;
        };
        let (has, by) = match self.rows.get(&key) {
            Some(Row::Ticket { amount, by, .. }) => (*amount, whose(*by, uid)),
            _ => (0, uid),
        };
        let row = Row::Ticket {
            amount: has.saturating_add(more).min(MAX_AMOUNT),
            bytes: false,
            by,
        };
        self.set(key, row);
    }

    fn unfund(&mut self, issuer: &str, holder: &str, resource: Resource, less: Option<u64>) {
        let Some(key) = self.ticket(issuer, holder, resource) else {
            return;
        };
        if let Some(Row::Ticket { amount, .. }) = self.rows.get_mut(&key) {
            *amount = less.map_or(0, |less| amount.saturating_sub(less));
            if *amount == 0 {
                self.unset(&key);
            }
        }
    }

    fn bind(&mut self, cid: Cid, path: &str, uid: u32) {
        let key = Key::Binding(path.to_owned());
        let by = match self.rows.get(&key) {
            Some(Row::Binding { cid: known, by, .. }) if *known == cid => whose(*by, uid),
            _ => uid,
        };
        // Root withdrew what the binding replaces; of others' the ledger of that time did not say.
        let withdrawn = match by {
            ROOT => Withdrawn::Cpu,
            _ => Withdrawn::Nothing,
        };
        self.set(key, Row::Binding { cid, by, withdrawn });
    }

    fn unbind(&mut self, name: &str, path: Option<&str>) {
        let Some(&cid) = self.names.get(name) else {
            return;
        };
        for key in self.hanging_on(&End::Cid(cid)) {
            if matches!(&key, Key::Binding(p) if path.is_none_or(|wanted| wanted == p)) {
                self.unset(&key);
            }
        }
    }

    /// The cgroup went: root's tickets and bindings wait for it, except that of a run, which went
    /// with it.
    fn wilt(&mut self, path: &str) {
        for key in self.hanging_on(&End::Path(path.to_owned())) {
            let stays = match self.rows.get(&key) {
                Some(Row::Ticket { by, .. }) => *by == ROOT,
                Some(Row::Binding { cid, by, .. }) => *by == ROOT && !self.runs_in(*cid, path),
                _ => true,
            };
            if !stays {
                self.unset(&key);
            }
        }
    }

    fn runs_in(&self, cid: Cid, path: &str) -> bool {
        matches!(
            self.rows.get(&Key::Currency(cid)),
            Some(Row::Currency { transient: Some(p), .. }) if p == path
        )
    }
}

/// What root has had a hand in is root's.
fn whose(before: u32, now: u32) -> u32 {
    match before {
        ROOT => ROOT,
        _ => now,
    }
}
