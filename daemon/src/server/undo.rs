// SPDX-License-Identifier: GPL-2.0-only
//! `Undo`: an operation of the caller's own is taken back by its inverse, which the log has kept
//! with it; or the caller is told which later one stands in the way.

use super::errors::{bad, internal};
use super::journal::{SLICE, SLICE_TOLD};
use super::session::Session;
use crate::writer::Undoes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use tix_api::{Error, UndoReply};
use tix_ledger::{BASE, Event, Kind, Ledger, Op, Resource};
use tix_store::{Query, Record};

/// For who is not root: so many of the caller's own are looked at for what is to be taken back, and
/// so many that may stand in its way are known at a time. The log itself is read in slices, at the
/// caller's pace, however long it is.
const MOST: usize = 500;

/// An operation in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Logged {
    seq: i64,
    uid: u32,
    kind: String,
    subject: String,
    text: String,
    op: Op,
    /// What takes it back.
    back: Vec<Op>,
    /// Why nothing does.
    for_good: Option<String>,
    /// It took back what has this number.
    undoes: Option<i64>,
}

/// Whoever looks through the log.
trait Looks: Send + 'static {
    fn look(&mut self, record: (i64, Record));
    /// Is nothing more wanted?
    fn is_done(&self) -> bool;
}

/// Looks for what is to be taken back among the caller's own, newest first: the one of a number, or
/// the newest that is not taken back yet and takes none back.
#[derive(Debug, Default)]
struct Own {
    uid: u32,
    seq: Option<i64>,
    most: usize,
    looked: usize,
    /// Which numbers were taken back.
    undone: BTreeSet<i64>,
    found: Option<Logged>,
    /// A later import of a ledger, which is no operation.
    import: Option<i64>,
}

impl Looks for Own {
    fn look(&mut self, record: (i64, Record)) {
        if self.is_done() {
            return;
        }
        if record.1.kind == "import" {
            self.import.get_or_insert(record.0);
        }
        if record.1.uid != self.uid {
            return;
        }
        self.looked += 1;
        let Some(logged) = Logged::of(record) else {
            return;
        };
        match (self.seq, logged.undoes) {
            (Some(seq), _) if seq != logged.seq => {}
            (None, Some(other)) => drop(self.undone.insert(other)),
            (None, None) if self.undone.contains(&logged.seq) => {}
            _ => self.found = Some(logged),
        }
    }

    fn is_done(&self) -> bool {
        self.found.is_some() || self.looked >= self.most
    }
}

/// Looks for what was done to the subject of `target` after it, oldest first.
#[derive(Debug)]
struct Later {
    target: Logged,
    most: usize,
    /// What took it back.
    by: Option<i64>,
    /// What would be taken back with it, and was not taken back itself: its kind, and whose it is.
    in_force: BTreeMap<i64, (String, u32)>,
}

impl Looks for Later {
    fn look(&mut self, record: (i64, Record)) {
        let Some(later) = Logged::of(record) else {
            return;
        };
        match later.undoes {
            Some(seq) if seq == self.target.seq => drop(self.by.get_or_insert(later.seq)),
            Some(seq) => drop(self.in_force.remove(&seq)),
            None if later.op.overrides(&self.target.op) => {
                self.in_force.insert(later.seq, (later.kind, later.uid));
            }
            None => {}
        }
    }

    fn is_done(&self) -> bool {
        self.by.is_some() || self.in_force.len() > self.most
    }
}

/// Looks for what an undo of `seq` has done: its sentences, the last one first.
#[derive(Debug)]
struct Done {
    seq: i64,
    told: Vec<String>,
    /// It begins before this one.
    is_past: bool,
}

impl Looks for Done {
    fn look(&mut self, record: (i64, Record)) {
        match Logged::of(record) {
            Some(logged) if logged.undoes == Some(self.seq) => self.told.push(logged.text),
            _ => self.is_past |= !self.told.is_empty(),
        }
    }

    fn is_done(&self) -> bool {
        self.is_past
    }
}

impl Logged {
    /// `None`: the record is of no operation.
    fn of((seq, record): (i64, Record)) -> Option<Logged> {
        let Value::Object(mut kept) = serde_json::from_str(&record.op).ok()? else {
            return None;
        };
        let back = kept.remove("undo");
        let for_good = kept.remove("for_good");
        let for_good = for_good.and_then(|why| why.as_str().map(str::to_owned));
        let undoes = kept.remove("undoes").and_then(|seq| seq.as_i64());
        let back = back.as_ref().and_then(Value::as_array).cloned();
        let back = back.into_iter().flatten();
        let op = filled(Value::Object(kept), &record.subject)?;
        let back = match &op {
            // By the name that it was given.
            Op::Create { .. } => vec![Op::Destroy {
                name: record.subject.clone(),
            }],
            _ => back.filter_map(|op| filled(op, &record.subject)).collect(),
        };
        Some(Logged {
            seq,
            uid: record.uid,
            kind: record.kind,
            subject: record.subject,
            text: record.text,
            op,
            back,
            for_good,
            undoes,
        })
    }
}

impl Logged {
    /// Why nothing takes it back, and what to type instead.
    fn why_for_good(&self) -> (String, String) {
        let name = tix_api::shell::word(&self.subject);
        let (why, hint) = match &self.op {
            _ if self.for_good.is_some() => (
                self.for_good.as_deref().unwrap_or_default(),
                format!("`tixctl explain {name}` shows what is so now; type what you mean"),
            ),
            Op::Destroy { .. } => (
                "its tickets went with it",
                "`tixctl create` makes a new one; another time `tixctl destroy NAME --dry-run` shows \
                 what would go, and `tixctl import` brings back what `tixctl export` printed before"
                    .to_owned(),
            ),
            Op::Accept { .. } => (
                "the other party has agreed to it",
                format!(
                    "`tixctl exchange list {name}` shows its number, `tixctl exchange end` \
                         ends it"
                ),
            ),
            Op::Amend { offer, .. } => (
                "what the offer was before may have met others by now",
                format!("`tixctl offer amend {offer}` changes it again"),
            ),
            Op::Cancel { .. } | Op::Expire { .. } => (
                "others may trade otherwise by now",
                "`tixctl offer make` makes a new offer".to_owned(),
            ),
            Op::Run { .. } | Op::Nice { .. } => (
                "it belongs to a job",
                "end the job's command: what it was given goes with it".to_owned(),
            ),
            _ => (
                "it changed nothing that was not so already",
                format!("`tixctl explain {name}` shows what is so now; type what you mean"),
            ),
        };
        (why.to_owned(), hint)
    }
}

/// An operation as it was asked for, with the name that the log leaves out.
fn filled(mut op: Value, subject: &str) -> Option<Op> {
    let (kind, members) = op.as_object_mut()?.iter_mut().next()?;
    let name = match kind.as_str() {
        "fund" | "unfund" | "reserve" | "unreserve" => "holder",
        "offer" | "accept" => "party",
        "amend" | "cancel" | "expire" => return serde_json::from_value(op).ok(),
        _ => "name",
    };
    let members = members.as_object_mut()?;
    let missing = || Value::from(subject);
    members.entry(name).or_insert_with(missing);
    serde_json::from_value(op).ok()
}

impl Own {
    /// What is to be taken back.
    fn target(self) -> Result<Logged, Error> {
        let hint = "`tixctl log --mine` shows what you did, with its numbers";
        let found = self.found.ok_or_else(|| match self.seq {
            Some(seq) => bad(format!("there is no operation {seq} of yours"), hint),
            None if self.looked >= self.most => bad(
                format!("your last {} records have none to take back", self.looked),
                "`tixctl log --mine` shows what you did before; `tixctl undo` with its \
                 number takes that back",
            ),
            None => bad(
                "there is no operation of yours to take back".to_owned(),
                hint,
            ),
        })?;
        if let Some(other) = found.undoes {
            let again = "to have it again, type what you typed then: `tixctl log --mine` shows it";
            return Err(bad(
                format!("{} took back {other} itself", found.seq),
                again,
            ));
        }
        if found.back.is_empty() {
            let (why, hint) = found.why_for_good();
            let what = format!("{} ({}) cannot be taken back: {why}", found.seq, found.kind);
            return Err(bad(what, &hint));
        }
        if let Some(import) = self.import {
            let seq = found.seq;
            return Err(bad(
                format!("{import} (import) came after what else you did last, {seq}"),
                &format!(
                    "`tixctl import` of what `tixctl export` printed before takes an import back; \
                     `tixctl undo {seq}` takes {seq} back all the same"
                ),
            ));
        }
        Ok(found)
    }
}

impl Later {
    /// Refuses if something later would be taken back with it.
    fn check(&self, uid: u32) -> Result<(), Error> {
        let (target, subject) = (self.target.seq, &self.target.subject);
        if let Some(by) = self.by {
            let hint = "`tixctl log --mine` shows what you did, with its numbers";
            return Err(bad(format!("{target} was taken back by {by}"), hint));
        }
        if self.in_force.len() > self.most {
            return Err(bad(
                format!("{target} cannot be taken back: too much came after it"),
                "`tixctl log` shows what did; type what takes back what of it you mean",
            ));
        }
        let Some((seq, (kind, by))) = self.in_force.first_key_value() else {
            return Ok(());
        };
        let hint = match *by == uid {
            true => format!("`tixctl undo {seq}` takes that back first"),
            false => format!(
                "somebody else did that; `tixctl log {}` shows what is yours to see",
                tix_api::shell::word(subject)
            ),
        };
        let what = format!("{target} cannot be taken back: {seq} ({kind}) came after it");
        Err(bad(what, &hint))
    }
}

impl Session {
    /// Has `looks` look at the records that `query` asks for, in slices between which others have
    /// their turn. Returns after which number the last slice began, too.
    async fn look<L: Looks>(
        &self,
        mut query: Query<'static>,
        subject: Option<&str>,
        mut looks: L,
    ) -> Result<(L, i64), Error> {
        query.limit = SLICE_TOLD;
        query.scan = SLICE;
        loop {
            self.pace.wait(self.user, 1.0).await;
            let subject = subject.map(str::to_owned);
            let read = self.handle.read(move |store| {
                let page = store.log(&Query {
                    subject: subject.as_deref(),
                    ..query
                })?;
                page.records.into_iter().for_each(|r| looks.look(r));
                Ok((looks, page.next))
            });
            let read = read.await.map_err(internal)?;
            let (looked, next) = read.map_err(|e: tix_store::Error| internal(e.into()))?;
            looks = looked;
            match next.filter(|_| !looks.is_done()) {
                None => return Ok((looks, query.after)),
                Some(next) if query.newest => query.before = next,
                Some(next) => query.after = next,
            }
        }
    }

    /// What others hold of it would go with it, and the log has that under their names.
    async fn check_funds_nobody(&self, target: &Logged) -> Result<(), Error> {
        let name = target.subject.clone();
        let funds = self.ask(move |core| {
            let cid = core.ledger.find(&name)?;
            let mut all = Resource::ALL.into_iter();
            all.find_map(|r| core.ledger.funded(cid, r).next())
                .map(|holder| core.ledger.name(holder))
        });
        let (seq, name) = (target.seq, tix_api::shell::word(&target.subject));
        match funds.await? {
            None => Ok(()),
            Some(holder) => Err(bad(
                format!("{seq} cannot be taken back: {holder} holds tickets of {name} by now"),
                &format!("`tixctl destroy {name}` destroys it with all of its tickets"),
            )),
        }
    }

    /// What was given up since would be withdrawn in place of what was given.
    async fn check_nothing_lapsed(&self, target: &Logged) -> Result<(), Error> {
        let [
            Op::Unfund {
                holder,
                issuer,
                resource,
                amount: Some(amount),
            },
        ] = target.back.as_slice()
        else {
            return Ok(());
        };
        if issuer != "base" {
            return Ok(());
        }
        let (name, r, amount) = (holder.clone(), *resource, amount.unsigned_abs());
        let left = self.ask(move |core| {
            let ledger = &core.ledger;
            let held = (ledger.find(&name)).and_then(|h| ledger.held(h, BASE, r, Kind::Soft));
            let lapsed = Some(ledger.lapsed(&name, r)).filter(|lapsed| *lapsed > 0)?;
            Some((held.map_or(0, |g| g.amount) + lapsed).saturating_sub(amount))
        });
        let Some(left) = left.await? else {
            return Ok(());
        };
        let (name, resource) = (tix_api::shell::word(holder), resource.name());
        let hint = match left {
            0 => format!("`tixctl unfund {name} --from base {resource}` withdraws those, too"),
            _ => format!(
                "`tixctl fund {name} --from base {resource} {left} --set` withdraws those, too"
            ),
        };
        let what = format!(
            "{} cannot be taken back: {holder} has given up tickets of base since",
            target.seq
        );
        Err(bad(what, &hint))
    }

    pub(super) async fn take_back(&self, seq: Option<i64>) -> Result<UndoReply, Error> {
        let uid = self.caller.uid;
        self.pace.wait(self.user, 10.0).await;
        let most = match self.caller.is_root() {
            true => usize::MAX,
            false => MOST,
        };
        let of_own = Query {
            newest: true,
            concerning: Some(uid),
            ..Query::default()
        };
        let asked = match seq {
            None => of_own,
            Some(seq) => Query {
                after: seq.saturating_sub(1),
                before: seq.saturating_add(1),
                ..of_own
            },
        };
        let own = Own {
            uid,
            seq,
            most,
            ..Own::default()
        };
        let target = self.look(asked, None, own).await?.0.target()?;
        let subject = target.subject.clone();
        let after = |after| Query {
            after,
            ..Query::default()
        };
        let later = Later {
            target,
            most,
            by: None,
            in_force: BTreeMap::new(),
        };
        let (later, from) = self
            .look(after(later.target.seq), Some(&subject), later)
            .await?;
        // Until here that may have taken long. What was done before is in the log by now, and of
        // what is done from now on the writer knows.
        let place = self.handle.act(|core| core.commits.here()).await;
        let place = place.map_err(internal)?;
        let (later, from) = self.look(after(from), Some(&subject), later).await?;
        later.check(uid)?;
        let target = later.target;
        if matches!(target.op, Op::Create { .. }) {
            self.check_funds_nobody(&target).await?;
        }
        self.check_nothing_lapsed(&target).await?;
        let (seq, back) = (target.seq, target.back);
        let undoes = Undoes {
            seq,
            subject: target.subject,
            place,
        };
        let plan = move |_: &Ledger| Ok((back, |_: &Ledger, _: &[Event]| ()));
        let tried = self.rehearses();
        self.change_as(self.caller.clone(), Some(undoes), plan)
            .await?;
        let mut done = Done {
            seq,
            told: Vec::new(),
            is_past: tried,
        };
        // What the log says of it; of a rehearsal, nothing.
        if !tried {
            let since = Query {
                after: from,
                ..of_own
            };
            done = self.look(since, None, done).await?.0;
        }
        let told: Vec<String> = done.told.into_iter().rev().collect();
        Ok(UndoReply {
            seq: seq.unsigned_abs(),
            undone: target.text,
            message: told.join("; "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(uid: u32, op: &str) -> Record {
        Record {
            uid,
            kind: "chmod".to_owned(),
            subject: "a".to_owned(),
            op: op.to_owned(),
            ..Record::default()
        }
    }

    const CHMOD: &str = r#"{"chmod":{"mode":448},"undo":[{"chmod":{"mode":457}}]}"#;

    /// Others' records do not count, and a user's own do up to a number that is told.
    #[test]
    fn ones_own_are_looked_at_and_so_many_of_them() {
        let own = |most| Own {
            uid: 1000,
            most,
            ..Own::default()
        };
        let mut few = own(2);
        (10..5_000)
            .rev()
            .for_each(|seq| few.look((seq, record(1001, CHMOD))));
        assert_eq!((few.looked, few.is_done()), (0, false));
        few.look((9, record(1000, r#"{"chmod":{"mode":457},"undoes":8}"#)));
        few.look((8, record(1000, CHMOD)));
        assert!(few.is_done() && few.found.is_none());
        let why = format!("{:?}", few.target().unwrap_err());
        assert!(why.contains("your last 2 records have none"), "{why}");
        let mut more = own(3);
        more.look((9, record(1000, r#"{"chmod":{"mode":457},"undoes":8}"#)));
        more.look((8, record(1000, CHMOD)));
        more.look((7, record(1000, CHMOD)));
        assert_eq!(more.target().unwrap().seq, 7);
    }
}
