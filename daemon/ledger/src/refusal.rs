// SPDX-License-Identifier: GPL-2.0-only
//! Why an operation is refused.

use std::borrow::Cow;

/// A hard share of `r` for people.
fn size(r: super::Resource, n: u64) -> String {
    match r {
        super::Resource::Memory => format!("{n} bytes of memory"),
        _ => format!("{}.{} % of its {}", n / 10, n % 10, r.name()),
    }
}

/// What can be done to named currencies alone, or to all but base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    Destroy,
    /// It, to a cgroup.
    Bind,
    /// Another currency to it: it is the root cgroup.
    BindTo,
    Unbind,
    /// Its mode, owner or group.
    Change,
    /// Tickets for a job.
    GiveUp,
    Trade,
}

impl Act {
    fn infinitive(self) -> &'static str {
        match self {
            Act::Destroy => "be destroyed",
            Act::Bind => "be bound to a cgroup",
            Act::BindTo => "have a currency bound to it",
            Act::Unbind => "be unbound",
            Act::Change => "be given to others",
            Act::GiveUp => "give up tickets for a job",
            Act::Trade => "exchange tickets",
        }
    }

    fn why(self, name: &str) -> &'static str {
        match (self, name) {
            (_, "base" | "/") => "it is the whole machine, which all others have their tickets of",
            (Act::Destroy, _) => "it is a cgroup's own currency, and goes with that cgroup",
            _ => "it is a cgroup's own currency, and backs that cgroup alone",
        }
    }

    fn hint(self, name: &str) -> &'static str {
        match (self, name) {
            (Act::Destroy, "base" | "/") => {
                "`tixctl unfund NAME --from base cpu` takes back what base gave"
            }
            (Act::Destroy, _) => {
                "stop its unit or remove its directory; `tixctl unfund NAME --from ISSUER cpu` \
                 takes back what it was given"
            }
            (Act::Bind, _) => {
                "`tixctl create NAME`, then `tixctl fund NAME --from ISSUER cpu 100`, and bind \
                 that one; or `tixctl fund` the cgroup directly"
            }
            (Act::BindTo, _) => "bind a cgroup below it: `tixctl bind NAME /system.slice`",
            (Act::Unbind, _) => {
                "name the currency that is bound, which `tixctl tree` shows beside BOUND TO: \
                 `tixctl unbind NAME /PATH`"
            }
            (Act::Change, _) => {
                "give them a currency that base funds: `tixctl create NAME --owner USER`, then \
                 `tixctl fund NAME --from base cpu 100`"
            }
            (Act::GiveUp, _) => {
                "name a currency that base funds: `tixctl nice --from NAME -- COMMAND`; or give \
                 the job tickets of base: `tixctl run --from base -- COMMAND`"
            }
            (Act::Trade, _) => {
                "name a currency that base funds: `tixctl offer NAME --give cpu:10 --want disk:10`"
            }
        }
    }
}

/// Each says what happened and to whom; [`Refusal::hint`] says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no currency called {0:?}")]
    NoSuchCurrency(String),
    /// A name that is to be given in full, and what it means or may mean.
    #[error("{name:?} alone is not enough to destroy {}", .meant.join(" or "))]
    Ambiguous { name: String, meant: Vec<String> },
    #[error("there is no cgroup or unit {0:?} with the cpu controller")]
    NoSuchCgroup(String),
    #[error("there is a currency called {0:?} already")]
    AlreadyExists(String),
    #[error("{0:?} cannot be a currency's name")]
    BadName(String),
    #[error("uid {uid} cannot make a currency {name:?}: {why}")]
    OtherSpace { uid: u32, name: String, why: String },
    #[error("{0} is no amount of tickets")]
    BadAmount(String),
    /// `hint`: who can permit this very operation, and what they type.
    #[error("uid {uid} may not {what}: {why}")]
    NotPermitted {
        uid: u32,
        what: String,
        why: String,
        hint: String,
    },
    #[error("tickets of {issuer:?} for {holder:?} would let {holder:?} fund itself")]
    WouldCycle { issuer: String, holder: String },
    #[error("{0}")]
    LimitReached(String),
    #[error("{holder:?} holds no such tickets of {issuer:?}")]
    NotFunded { holder: String, issuer: String },
    #[error("{holder:?} holds only {has} of {issuer:?}'s tickets, not {asked}")]
    TooFew {
        holder: String,
        issuer: String,
        has: u64,
        asked: u64,
    },
    #[error("{name:?} is not bound to {target:?}")]
    NotBound { name: String, target: String },
    #[error("the cgroup {path:?} is bound to {to:?}")]
    AlreadyBound { path: String, to: String },
    #[error("{0:?} cannot {act}: {why}", act = .1.infinitive(), why = .1.why(.0))]
    NotNamed(String, Act),
    #[error("{0} is no mode")]
    BadMode(String),
    #[error("{0} is no hard share")]
    BadHard(String),
    #[error(
        "{issuer:?} cannot reserve {}: it has {} left",
        size(*.resource, *.asked),
        size(*.resource, *.left)
    )]
    TooMuch {
        issuer: String,
        resource: super::Resource,
        /// Thousandths of the issuer, or bytes of memory.
        asked: u64,
        left: u64,
    },
    #[error(
        "{name:?} cannot give up {asked} {} tickets: it is entitled to {has}",
        .resource.name()
    )]
    TooLittle {
        name: String,
        resource: super::Resource,
        /// Base tickets.
        has: u64,
        asked: u64,
    },
    #[error("there is no offer and no exchange {0}")]
    NoSuchOffer(u64),
    #[error("{0} is no offer")]
    BadOffer(String),
    #[error("{0}")]
    BadLimit(String),
    #[error("{0:?} has no limit of its own")]
    NotLimited(String),
    #[error("{0}")]
    Lifeline(String),
    #[error(
        "{path:?}, which you are in, would be left {percent} % of the machine's cpu: too little to \
         take this back"
    )]
    OwnPlace { path: String, percent: String },
    #[error("{} tickets would share nothing: tix does not enforce them yet", .0.name())]
    NotEnforced(super::Resource),
    #[error("{name:?} would trade with itself: offer {offer} is its own")]
    SelfTrade { name: String, offer: u64 },
}

impl Refusal {
    /// What to do about it.
    pub fn hint(&self) -> Cow<'static, str> {
        let fixed = match self {
            Refusal::NoSuchCurrency(_) => {
                "`tixctl tree` lists what there is; a name (USER/NAME for what another user made), \
                 a cgroup path beginning with /, a systemd unit, or base"
            }
            Refusal::Ambiguous { meant, .. } => {
                let typed = meant.iter().map(|full| format!("`tixctl destroy {full}`"));
                let typed: Vec<String> = typed.collect();
                return format!("type its name in full: {}", typed.join(" or ")).into();
            }
            Refusal::NoSuchCgroup(_) => {
                "give its path below the cgroup root, or a unit that is running (user-1000.slice \
                 is while that user is logged in); its parent's cgroup.subtree_control must have \
                 cpu"
            }
            Refusal::AlreadyExists(name) => {
                let hint =
                    format!("choose another name, or `tixctl destroy {name}` that one first");
                return hint.into();
            }
            Refusal::BadName(_) => {
                "`tixctl create NAME`: a letter a-z, then up to 62 of a-z 0-9 _ -; and not base. \
                 USER/ in front may be your own name"
            }
            Refusal::OtherSpace { .. } => {
                "leave out what is before the /: `tixctl create gold` as alice makes alice/gold, \
                 as root a plain gold"
            }
            Refusal::BadAmount(_) => {
                "1 to 2147483648, also as the sum of all that one issuer gives one holder: \
                 `tixctl fund NAME --from ISSUER cpu 100`"
            }
            Refusal::NotPermitted { hint, .. } => return hint.clone().into(),
            Refusal::WouldCycle { .. } => {
                "take the tickets from a currency that is not funded by the holder: `tixctl tree` \
                 shows who funds whom"
            }
            Refusal::LimitReached(_) => {
                "fund fewer or shallower; `tixctl explain NAME` shows the paths"
            }
            Refusal::NotFunded { .. } | Refusal::TooFew { .. } => {
                "`tixctl explain NAME` shows what it holds"
            }
            Refusal::NotBound { .. } => "`tixctl tree` shows bindings",
            Refusal::AlreadyBound { to, .. } => {
                return format!("`tixctl unbind {to} CGROUP` unbinds it first").into();
            }
            Refusal::NotNamed(name, act) => act.hint(name),
            Refusal::BadMode(_) => {
                "`tixctl chmod g+f NAME`; or all at once: nine of `fci` and `-` for owner, group \
                 and others (fci-c----), or octal (750)"
            }
            Refusal::BadHard(_) => {
                "`tixctl reserve NAME --from ISSUER cpu 25%`: 0.1% to 99.9% of the issuer, or 1 to \
                 999 thousandths; of memory a size too, such as 256M"
            }
            Refusal::TooMuch { .. } => {
                "ask for less, or take another guarantee back: `tixctl unreserve NAME --from \
                 ISSUER cpu`; of base at most 95 % can be reserved"
            }
            Refusal::TooLittle { .. } => {
                "give up less: `tixctl explain NAME` shows what it has; what came by an exchange \
                 cannot be given up again"
            }
            Refusal::NoSuchOffer(_) => {
                "`tixctl offer list` shows the book, `tixctl exchange list` what was matched"
            }
            Refusal::BadOffer(_) => {
                "give one resource and want another, as `tixctl offer make NAME --give cpu:10 \
                 --want disk:10`; 0.001 tickets and more of each, and a minimum of no more than \
                 what is wanted"
            }
            Refusal::BadLimit(_) => {
                "of cpu, of any currency but base: 0.1% of one CPU to 102400%, and 100% is all of \
                 one; as `tixctl limit alice cpu 150%`"
            }
            Refusal::NotLimited(_) => {
                "`tixctl explain NAME` shows which limits count for it; a cgroup's cpu.max is \
                 lifted where it was set"
            }
            Refusal::OwnPlace { .. } => {
                "give less, or first as many of base's tickets to the cgroup that you are in, by \
                 `tixctl fund`"
            }
            Refusal::Lifeline(_) => {
                "the lifeline is the currency that keeps a part of the CPU for init and logins, so \
                 that root is heard (`tixctl explain lifeline`); name another, or its units, one \
                 by one"
            }
            Refusal::NotEnforced(_) => {
                "share cpu, disk or memory; `tixctl unfund`, `unreserve` and `cancel` take back \
                 what there is"
            }
            Refusal::SelfTrade { offer, .. } => {
                let hint = format!(
                    "`tixctl offer cancel {offer}` takes that one off the book, `tixctl offer \
                     amend {offer} --give cpu:10` changes it"
                );
                return hint.into();
            }
        };
        fixed.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Resource;
    use super::*;

    /// Who is refused is told what to type next.
    #[test]
    fn every_hint_names_a_command() {
        let a = || "a".to_owned();
        let (holder, issuer) = (a(), a());
        let all = [
            Refusal::NoSuchCurrency(a()),
            Refusal::Ambiguous {
                name: a(),
                meant: vec![a()],
            },
            Refusal::AlreadyExists(a()),
            Refusal::BadName(a()),
            Refusal::BadAmount(a()),
            Refusal::WouldCycle { issuer, holder },
            Refusal::LimitReached(a()),
            Refusal::NotFunded {
                holder: a(),
                issuer: a(),
            },
            Refusal::TooFew {
                holder: a(),
                issuer: a(),
                has: 1,
                asked: 2,
            },
            Refusal::NotBound {
                name: a(),
                target: a(),
            },
            Refusal::AlreadyBound { path: a(), to: a() },
            Refusal::BadMode(a()),
            Refusal::BadHard(a()),
            Refusal::TooMuch {
                issuer: a(),
                resource: Resource::Cpu,
                asked: 2,
                left: 1,
            },
            Refusal::TooLittle {
                name: a(),
                resource: Resource::Cpu,
                has: 1,
                asked: 2,
            },
            Refusal::NoSuchOffer(1),
            Refusal::BadOffer(a()),
            Refusal::BadLimit(a()),
            Refusal::NotLimited(a()),
            Refusal::Lifeline(a()),
            Refusal::OwnPlace {
                path: a(),
                percent: a(),
            },
            Refusal::NotEnforced(Resource::Net),
            Refusal::SelfTrade {
                name: a(),
                offer: 1,
            },
        ];
        for refusal in all {
            let hint = refusal.hint();
            assert!(hint.contains(concat!("`", "tixctl ")), "{refusal}: {hint}");
        }
    }
}
