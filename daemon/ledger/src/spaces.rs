// SPDX-License-Identifier: GPL-2.0-only
//! Spaces: whose names are whose.
//!
//! The problem: whoever takes a name first is funded and trusted by everybody who uses it later.
//! The rule: a currency that a user makes is called `LABEL/NAME`, in the space of the user's uid;
//! plain names are made by root and the policy alone. So nobody can stand in another's way, or in
//! tixd's, by a name: uid 1000, called alice, creates `gold` and has `alice/gold`; a policy's
//! `gold` is another currency.
//!
//! A label is the user's name as of the first currency, or the uid's number where that name is not
//! known, is no label (see [`is_label`]) or is the label of another uid's space. It is kept for
//! good: other people have written the names down. The space is the maker's: another owner
//! (`chown`) changes no name. A user who says `gold` means `alice/gold` if there is one, else a
//! plain `gold`; everybody can say `alice/gold`, and `1000/gold` whatever the label is.
//!
//! Limits: one row for each uid that ever made a currency. Paths begin with `/` and units have no
//! `/`, so neither is ever a currency's name.

use super::brokers::{Caller, is_root};
use super::rights::good_name;
use super::{By, Cid, Event, Key, Ledger, POLICY, Refusal, Resource};
use std::collections::{BTreeMap, BTreeSet};

/// The longest label: the longest name of a Linux user.
const LONGEST: usize = 32;

/// `[a-z_][a-z0-9_.-]{0,31}`, which no number is; and not root, whose names are plain.
fn is_label(user: &str) -> bool {
    let mut b = user.bytes();
    user.len() <= LONGEST
        && user != "root"
        && b.next()
            .is_some_and(|c| c.is_ascii_lowercase() || c == b'_')
        && b.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_.-".contains(&c))
}

/// The uid that a label of digits stands for.
fn number(label: &str) -> Option<u32> {
    let uid: u32 = label.parse().ok()?;
    (uid.to_string() == label).then_some(uid)
}

/// A currency that has moved into the space of whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    pub was: String,
    pub name: String,
    pub maker: u32,
    pub owner: u32,
    /// What was taken back from it.
    pub events: Vec<Event>,
}

impl Ledger {
    /// What the names of this uid's currencies begin with, once it has made one.
    pub fn label(&self, uid: u32) -> Option<&str> {
        self.spaces.get(&uid).map(String::as_str)
    }

    /// The uid that has this label.
    pub fn labelled(&self, label: &str) -> Option<u32> {
        self.labels.get(label).copied()
    }

    /// The label that `uid` has, or gets if the user is called `user`.
    pub fn label_for(&self, uid: u32, user: Option<&str>) -> String {
        let fresh = |user: &&str| is_label(user) && self.labelled(user).is_none();
        match (self.label(uid), user.filter(fresh)) {
            (Some(label), _) | (None, Some(label)) => label.to_owned(),
            (None, None) => uid.to_string(),
        }
    }

    /// What `uid` means by `name`, in full, if there is such a currency.
    pub fn meant(&self, name: &str, uid: u32) -> Option<String> {
        // No user's label: what is plain, though the speaker has one of that name.
        if let Some(plain) = name.strip_prefix("root/") {
            return self.find(plain).map(|_| plain.to_owned());
        }
        let full = self.in_full(name, uid);
        match self.find(&full) {
            Some(_) => Some(full),
            None => self.find(name).map(|_| name.to_owned()),
        }
    }

    /// The same, also of one that is gone.
    pub fn meant_or_gone(&self, name: &str, uid: u32) -> String {
        self.meant(name, uid)
            .unwrap_or_else(|| self.in_full(name, uid))
    }

    /// With the label of a number, or with the speaker's own where there is none.
    fn in_full(&self, name: &str, uid: u32) -> String {
        let (label, local) = match name.split_once('/') {
            Some((label, local)) => (number(label).and_then(|uid| self.label(uid)), local),
            None => (self.label(uid), name),
        };
        match label {
            Some(label) => format!("{label}/{local}"),
            None => name.to_owned(),
        }
    }

    /// The full name of the currency that `caller` makes as `name`; it opens the caller's space if
    /// that is the first.
    pub(super) fn new_name(&mut self, caller: &Caller, name: &str) -> Result<String, Refusal> {
        let bad = || Refusal::BadName(name.to_owned());
        let other = |why: String| Refusal::OtherSpace {
            uid: caller.uid,
            name: name.to_owned(),
            why,
        };
        let (label, local) = match name.split_once('/') {
            Some(("", _)) => return Err(bad()),
            Some((label, local)) => (Some(label), local),
            None => (None, name),
        };
        if !good_name(local) {
            return Err(bad());
        }
        if caller.is_root() {
            return match label {
                None | Some("root") => Ok(local.to_owned()),
                Some(_) => Err(other("root's names are plain".to_owned())),
            };
        }
        let own = self.label_for(caller.uid, caller.user.as_deref());
        if let Some(label) = label
            && label != own
            && number(label) != Some(caller.uid)
        {
            return Err(other(format!("yours are called {own}/NAME")));
        }
        if self.label(caller.uid).is_none() {
            self.open_space(caller.uid, own.clone());
        }
        Ok(format!("{own}/{local}"))
    }

    fn open_space(&mut self, uid: u32, label: String) {
        self.note(Key::Space(uid));
        self.put_space(uid, Some(label));
    }

    pub(super) fn put_space(&mut self, uid: u32, label: Option<String>) {
        if let Some(old) = self.spaces.remove(&uid) {
            self.labels.remove(&old);
        }
        if let Some(label) = label {
            self.labels.insert(label.clone(), uid);
            self.spaces.insert(uid, label);
        }
    }

    /// Could the space of `uid` be called so?
    pub(super) fn may_be_label(&self, uid: u32, label: &str) -> Result<(), Refusal> {
        let own = self.label(uid).is_none_or(|known| known == label);
        let free = self.labelled(label).is_none_or(|other| other == uid);
        let good = is_label(label) || number(label) == Some(uid);
        match own && free && good && !is_root(uid) {
            true => Ok(()),
            false => Err(Refusal::OtherSpace {
                uid,
                name: format!("{label}/"),
                why: match self.label(uid) {
                    Some(known) => format!("that uid's are called {known}/NAME"),
                    None if good => "that is how another uid's are called".to_owned(),
                    None => "no name can begin with that".to_owned(),
                },
            }),
        }
    }

    /// Is `name` one that a currency made by `by` may have?
    pub(super) fn is_name_of(&self, by: By, name: &str) -> Result<(), Refusal> {
        let local = match (is_root(by), self.label(by)) {
            (true, _) => Some(name),
            (false, Some(label)) => name
                .strip_prefix(label)
                .and_then(|rest| rest.strip_prefix('/')),
            (false, None) => None,
        };
        match local.is_some_and(good_name) {
            true => Ok(()),
            false => Err(Refusal::BadName(name.to_owned())),
        }
    }

    /// Users who have made currencies with plain names, as they did before there were spaces.
    pub fn without_space(&self) -> BTreeSet<u32> {
        self.strays().map(|(_, by)| by).collect()
    }

    fn strays(&self) -> impl Iterator<Item = (Cid, By)> {
        let named = self.iter().filter(|(_, c)| !c.is_mirror());
        named
            .filter(|(_, c)| !is_root(c.by) && !c.name.contains('/'))
            .map(|(cid, c)| (cid, c.by))
    }

    /// Moves those into their makers' spaces; `users` are the makers' names. What goes by name goes
    /// with them: base tickets that have lapsed, and the last exchanges that were revoked. What the
    /// policy gave them by their names goes back to it, and so does what tixd gave those that it
    /// calls `own`: it was meant for currencies that nobody else has made.
    pub fn move_into_spaces(
        &mut self,
        users: &BTreeMap<u32, String>,
        own: &[&str],
    ) -> Vec<Renamed> {
        let mut strays: Vec<(Cid, By)> = self.strays().collect();
        strays.sort_unstable();
        for uid in self.without_space() {
            if self.label(uid).is_none() {
                let label = self.label_for(uid, users.get(&uid).map(String::as_str));
                self.open_space(uid, label);
            }
        }
        let mut renamed = BTreeMap::new();
        for (cid, maker) in strays {
            let Some(c) = self.get(cid) else { continue };
            let (was, owner) = (c.name.clone(), c.owner);
            let name = self.in_full(&was, maker);
            self.note(Key::Currency(cid));
            self.put_name(cid, &name);
            for r in Resource::ALL {
                let lapsed = self.lapsed(&was, r);
                if lapsed > 0 {
                    self.set_lapsed(&was, r, 0);
                    self.set_lapsed(&name, r, lapsed);
                }
            }
            let moved = Renamed {
                events: self.take_back(cid, own.contains(&was.as_str())),
                was: was.clone(),
                name,
                maker,
                owner,
            };
            renamed.insert(was, moved);
        }
        self.rename_ended(&renamed);
        let mut renamed: Vec<Renamed> = renamed.into_values().collect();
        // An exchange that gave on what is taken back ends.
        let revoked = self.revoke_overdrawn();
        if let Some(last) = renamed.last_mut() {
            last.events.extend(revoked);
        }
        renamed
    }

    /// Takes from `cid` what the policy gave it, or all that root gave it if it stood in the place
    /// of one of tixd's `own`.
    fn take_back(&mut self, cid: Cid, own: bool) -> Vec<Event> {
        let given = |by: By| by == POLICY || own && is_root(by);
        let mut events = Vec::new();
        for r in Resource::ALL {
            let grants = self.get(cid).map(|c| c.grants(r).to_vec());
            for g in grants.iter().flatten().filter(|g| given(g.by)) {
                events.push(self.take_away(cid, g, r, None, false));
            }
        }
        let end = self.end(cid);
        for key in self.waits_for(&end) {
            let held = matches!(&key, Key::Ticket { holder, .. } if *holder == end);
            if held && self.waiting.get(&key).is_some_and(|a| given(a.by)) {
                self.note(key.clone());
                self.wait(key, None);
            }
        }
        let bound = |path: &&str| self.bindings.get(*path).is_some_and(|b| given(b.by));
        let paths: Vec<String> = (self.bindings_of(cid).filter(bound))
            .map(str::to_owned)
            .collect();
        events.extend(paths.iter().filter_map(|path| self.unbind(path)));
        events
    }

    fn rename_ended(&mut self, renamed: &BTreeMap<String, Renamed>) {
        let concerned = |e: &super::Ended| e.legs.iter().any(|l| renamed.contains_key(&l.name));
        let ids: Vec<u64> = (self.ended.iter())
            .filter(|(_, e)| concerned(e))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.note(Key::Ended(id));
            for leg in self
                .ended
                .get_mut(&id)
                .into_iter()
                .flat_map(|e| &mut e.legs)
            {
                if let Some(moved) = renamed.get(&leg.name) {
                    leg.name.clone_from(&moved.name);
                }
            }
        }
    }

    /// Another name for `cid`, which nothing else has.
    pub(super) fn put_name(&mut self, cid: Cid, name: &str) {
        let Some(c) = self.currencies.get_mut(&cid).filter(|c| c.name != name) else {
            return;
        };
        let was = std::mem::replace(&mut c.name, name.to_owned());
        self.name_bytes = self.name_bytes + name.len() - was.len();
        self.by_name.remove(&was);
        self.by_name.insert(name.to_owned(), cid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        let long = "a".repeat(LONGEST);
        for good in ["alice", "_apt", "a.b", "x-1_", &long] {
            assert!(is_label(good), "{good}");
        }
        let longer = format!("{long}a");
        for bad in [
            "", "1000", "1a", "root", "Alice", "a b", "a/b", "-a", ".a", "a@b", "ä", &longer,
        ] {
            assert!(!is_label(bad), "{bad}");
        }
        assert_eq!(number("1000"), Some(1000));
        for bad in ["", "01", "+1", "1a", "-1", "4294967296"] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }
}
