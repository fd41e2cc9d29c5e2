// SPDX-License-Identifier: GPL-2.0-only
//! Brokers: who may do what to a currency (Sullivan §2.3, Table 1, and its extension in model.md
//! §1).

use super::{BASE, Broker, By, Cid, Currency, DEFAULT_MODE, Event, Key, Ledger, POLICY, Refusal};
use tix_model::shell;

/// Who asks, as the kernel says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// The user's name, where it matters and is known: the label of a space that is opened for this
    /// caller.
    pub user: Option<String>,
    /// The cgroup that root speaks from, which is to keep a share (`place.rs`).
    pub place: Option<String>,
}

impl Caller {
    /// root, for what tixd does of itself.
    pub const ROOT: Caller = Caller {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        user: None,
        place: None,
    };
    /// The policy: it may what root may.
    pub const POLICY: Caller = Caller {
        uid: POLICY,
        gid: 0,
        groups: Vec::new(),
        user: None,
        place: None,
    };

    /// A user who is in the group of the same number alone.
    pub fn user(uid: u32) -> Caller {
        Caller {
            uid,
            gid: uid,
            groups: Vec::new(),
            user: None,
            place: None,
        }
    }

    pub fn is_root(&self) -> bool {
        is_root(self.uid)
    }

    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// Root or the policy did it.
pub fn is_root(by: By) -> bool {
    by == 0 || by == POLICY
}

/// A bit of a currency's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// `f`: give it tickets.
    Fund = 4,
    /// `c`: change it: destroy it, take its tickets away.
    Change = 2,
    /// `i`: issue its tickets, and take them back.
    Issue = 1,
}

impl Right {
    fn name(self) -> &'static str {
        match self {
            Right::Fund => "f (fund)",
            Right::Change => "c (change)",
            Right::Issue => "i (issue)",
        }
    }

    /// The way to this right on `c`, `cid`: the users who can give it to `caller`, and what they
    /// type.
    fn way(self, caller: &Caller, cid: Cid, c: &Currency) -> String {
        if cid == BASE {
            return match self {
                Right::Issue => "base's tickets are root's to give and to take back; what a \
                                 currency of yours holds you divide by `tixctl fund NAME --from \
                                 YOURS cpu 100`"
                    .to_owned(),
                Right::Fund | Right::Change => "base is root's alone to change".to_owned(),
            };
        }
        let (name, letter) = (shell::word(&c.name), &self.name()[..1]);
        let owner = owner(c.owner);
        let mode = |of: char| format!("{of}+{letter}");
        if caller.uid == c.owner {
            let mode = mode('u');
            return format!("its mode denies you, its owner, this: `tixctl chmod {mode} {name}`");
        }
        let group = mode('g');
        if caller.in_group(c.group) {
            return format!("{owner} can permit your group this: `tixctl chmod {group} {name}`");
        }
        format!(
            "root can do it; {owner} can permit a group of yours this: \
             `tixctl chgrp GROUP {name}`, then `tixctl chmod {group} {name}`"
        )
    }
}

/// The users who can change the mode of a currency of `uid`'s.
fn owner(uid: u32) -> String {
    match uid {
        0 => "root".to_owned(),
        uid => format!("its owner, uid {uid}, or root"),
    }
}

/// `fci------` and the like.
fn shown(mode: u16) -> String {
    let bit = |at: u16| {
        if mode >> (8 - at) & 1 == 1 {
            char::from(b"fci"[usize::from(at % 3)])
        } else {
            '-'
        }
    };
    (0..9).map(bit).collect()
}

impl Ledger {
    /// Does the mode of `cid` give `caller` this right? Owner, group, others: the first that
    /// applies decides, as with files.
    pub fn allows(&self, caller: &Caller, cid: Cid, right: Right) -> bool {
        let Some(c) = self.get(cid) else { return false };
        let shift = match caller {
            _ if caller.is_root() => return true,
            _ if caller.uid == c.owner => 6,
            _ if caller.in_group(c.group) => 3,
            _ => 0,
        };
        c.mode >> shift & right as u16 != 0
    }

    pub(super) fn need(
        &self,
        caller: &Caller,
        cid: Cid,
        right: Right,
        what: &str,
    ) -> Result<(), Refusal> {
        if self.allows(caller, cid, right) {
            return Ok(());
        }
        let c = self
            .get(cid)
            .ok_or_else(|| Refusal::NoSuchCurrency(cid.to_string()))?;
        Err(Refusal::NotPermitted {
            uid: caller.uid,
            what: what.to_owned(),
            why: format!(
                "that needs {} on {:?}, which is {} of uid {}, group {}",
                right.name(),
                c.name,
                shown(c.mode),
                c.owner,
                c.group
            ),
            hint: right.way(caller, cid, c),
        })
    }

    /// `what` is its owner's alone, and root's.
    /// `hint` is told who can, and the name as a shell takes it.
    pub(super) fn need_owner(
        &self,
        caller: &Caller,
        cid: Cid,
        what: &str,
        hint: impl FnOnce(&str, &str) -> String,
    ) -> Result<(), Refusal> {
        match self.get(cid) {
            Some(c) if caller.is_root() || c.owner == caller.uid => Ok(()),
            Some(c) => Err(Refusal::NotPermitted {
                uid: caller.uid,
                what: what.to_owned(),
                why: format!("{:?} belongs to uid {}", c.name, c.owner),
                hint: hint(&owner(c.owner), &shell::word(&c.name)),
            }),
            None => Err(Refusal::NoSuchCurrency(cid.to_string())),
        }
    }

    /// `hint`: what root types, or the caller instead.
    pub(super) fn need_root(
        caller: &Caller,
        what: &str,
        why: &str,
        hint: impl FnOnce() -> String,
    ) -> Result<(), Refusal> {
        match caller.is_root() {
            true => Ok(()),
            false => Err(Refusal::NotPermitted {
                uid: caller.uid,
                what: what.to_owned(),
                why: why.to_owned(),
                hint: hint(),
            }),
        }
    }

    /// Another owner, group or mode; of a cgroup's currency it is kept beside the cgroup.
    pub(super) fn set_broker(
        &mut self,
        cid: Cid,
        owner: Option<u32>,
        group: Option<u32>,
        mode: Option<u16>,
        by: By,
    ) -> Vec<Event> {
        let Some(path) = self
            .get(cid)
            .map(|c| c.mirror.as_ref().map(|m| m.path.clone()))
        else {
            return vec![];
        };
        match path {
            None => self.note(Key::Currency(cid)),
            Some(path) => {
                self.note(Key::Broker(path.clone()));
                let known = self.brokers.get(&path).copied();
                let b = Broker {
                    owner: owner.or(known.and_then(|b| b.owner)),
                    group: group.or(known.and_then(|b| b.group)),
                    mode: mode.or(known.and_then(|b| b.mode)),
                    // What root said of it stays when the cgroup goes.
                    by: match known {
                        Some(b) if is_root(b.by) => b.by,
                        _ => by,
                    },
                };
                self.brokers.insert(path, b);
            }
        }
        self.change_broker(cid, owner, group, mode)
            .into_iter()
            .collect()
    }

    /// Of the currency itself alone.
    pub(super) fn change_broker(
        &mut self,
        cid: Cid,
        owner: Option<u32>,
        group: Option<u32>,
        mode: Option<u16>,
    ) -> Option<Event> {
        let c = self.currencies.get_mut(&cid)?;
        let (was, named) = (c.owner, !c.is_mirror());
        c.owner = owner.unwrap_or(c.owner);
        c.group = group.unwrap_or(c.group);
        c.mode = mode.unwrap_or(c.mode);
        let (owner, group, mode) = (c.owner, c.group, c.mode);
        if named && was != owner {
            self.made.entry(was).or_default().currencies -= 1;
            self.made.entry(owner).or_default().currencies += 1;
        }
        Some(Event::Brokered {
            cid,
            owner,
            group,
            mode,
        })
    }

    /// What was said of a cgroup, by whom: else its owner and group are its directory's.
    pub(super) fn said_of(&self, path: &str) -> Option<Broker> {
        self.brokers.get(path).copied()
    }

    /// What the broker of a cgroup's currency is to be: what was said of it, else as its directory.
    pub(super) fn broker_of(&self, path: &str, owner: u32, group: u32) -> (u32, u32, u16) {
        let said = self.brokers.get(path);
        (
            said.and_then(|b| b.owner).unwrap_or(owner),
            said.and_then(|b| b.group).unwrap_or(group),
            said.and_then(|b| b.mode).unwrap_or(DEFAULT_MODE),
        )
    }

    /// May `caller` change what base has issued?
    pub(super) fn issues_base(&self, caller: &Caller) -> bool {
        self.allows(caller, BASE, Right::Issue)
    }
}
