// SPDX-License-Identifier: GPL-2.0-only
//! `Undo`: an operation of the caller's own is taken back by its inverse, which the log has kept
//! with it; or the caller is told which later one stands in the way.

use super::errors::{bad, internal};
use super::session::Session;
use crate::writer::Undoes;
use serde_json::Value;
use std::collections::BTreeMap;
use tix_api::{Error, UndoReply};
use tix_ledger::{BASE, Event, Kind, Ledger, Op, Resource};
use tix_store::{Query, Record};

/// Records that are looked at, at most, for the caller's own and for later ones of the currency:
/// as many as a page of the log costs.
const SCANNED: i64 = 500;
/// Of these, at most so many are read.
const MOST: usize = 100;

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

/// What was read of the log.
struct Found {
    all: Vec<Logged>,
    /// There is more than was read.
    more: bool,
    /// The newest import of a ledger, which is no operation.
    import: Option<i64>,
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

/// Which numbers were taken back, and by which.
fn undone(all: &[Logged]) -> BTreeMap<i64, i64> {
    let undos = all.iter().filter_map(|l| Some((l.undoes?, l.seq)));
    undos.collect()
}

/// What is to be taken back: of the caller's own, newest first, the one of that number, or the
/// newest that is not taken back yet and takes none back.
fn wanted(own: &[Logged], seq: Option<i64>) -> Result<&Logged, Error> {
    let undone = undone(own);
    let found = match seq {
        Some(seq) => own.iter().find(|l| l.seq == seq),
        None => (own.iter()).find(|l| l.undoes.is_none() && !undone.contains_key(&l.seq)),
    };
    let hint = "`tixctl log --mine` shows what you did, with its numbers";
    let found = found.ok_or_else(|| match seq {
        Some(seq) => bad(format!("there is no operation {seq} of yours"), hint),
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
    if let Some(by) = undone.get(&found.seq) {
        return Err(bad(format!("{} was taken back by {by}", found.seq), hint));
    }
    if found.back.is_empty() {
        let (why, hint) = found.why_for_good();
        let what = format!("{} ({}) cannot be taken back: {why}", found.seq, found.kind);
        return Err(bad(what, &hint));
    }
    Ok(found)
}

/// Refuses if something later would be taken back with it.
fn check_later(target: &Logged, later: &[Logged], uid: u32) -> Result<(), Error> {
    let undone = undone(later);
    if let Some(by) = undone.get(&target.seq) {
        let hint = "`tixctl log --mine` shows what you did, with its numbers";
        return Err(bad(format!("{} was taken back by {by}", target.seq), hint));
    }
    let mut in_force =
        (later.iter()).filter(|l| l.undoes.is_none() && !undone.contains_key(&l.seq));
    let Some(other) = in_force.find(|l| l.op.overrides(&target.op)) else {
        return Ok(());
    };
    let (seq, kind) = (other.seq, &other.kind);
    let hint = match other.uid == uid {
        true => format!("`tixctl undo {seq}` takes that back first"),
        false => format!(
            "somebody else did that; `tixctl log {}` shows what is yours to see",
            tix_api::shell::word(&target.subject)
        ),
    };
    let what = format!(
        "{} cannot be taken back: {seq} ({kind}) came after it",
        target.seq
    );
    Err(bad(what, &hint))
}

impl Session {
    async fn operations(
        &self,
        query: Query<'static>,
        subject: Option<String>,
    ) -> Result<Found, Error> {
        let read = self.handle.read(move |store| {
            let page = store.log(&Query {
                subject: subject.as_deref(),
                ..query
            })?;
            let imports = page.records.iter().filter(|(_, r)| r.kind == "import");
            Ok(Found {
                import: imports.map(|(seq, _)| *seq).max(),
                more: page.next.is_some(),
                all: page.records.into_iter().filter_map(Logged::of).collect(),
            })
        });
        let read = read.await.map_err(internal)?;
        read.map_err(|e: tix_store::Error| internal(e.into()))
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
        // What was done before is in the log by then, and of what is done later the writer knows.
        let place = self.handle.act(|core| core.commits.here()).await;
        let place = place.map_err(internal)?;
        let newest = Query {
            newest: true,
            limit: MOST,
            concerning: Some(uid),
            scan: SCANNED,
            ..Query::default()
        };
        let asked = match seq {
            Some(seq) => Query {
                after: seq.saturating_sub(1),
                limit: 1,
                scan: 1,
                ..Query::default()
            },
            None => newest,
        };
        let mut own = self.operations(asked, None).await?;
        own.all.retain(|l| l.uid == uid);
        let target = wanted(&own.all, seq)?.clone();
        if let Some(import) = own.import.filter(|import| *import > target.seq) {
            let seq = target.seq;
            return Err(bad(
                format!("{import} (import) came after what else you did last, {seq}"),
                &format!(
                    "`tixctl import` of what `tixctl export` printed before takes an import back; \
                     `tixctl undo {seq}` takes {seq} back all the same"
                ),
            ));
        }
        let later = Query {
            after: target.seq,
            limit: MOST,
            scan: SCANNED,
            ..Query::default()
        };
        let later = self.operations(later, Some(target.subject.clone())).await?;
        check_later(&target, &later.all, uid)?;
        if later.more {
            return Err(bad(
                format!(
                    "{} cannot be taken back: too much came after it",
                    target.seq
                ),
                "`tixctl log` shows what did; type what takes back what of it you mean",
            ));
        }
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
        self.change_as(self.caller.clone(), Some(undoes), plan)
            .await?;
        // What the log says of it; of a rehearsal, nothing.
        let done = self.operations(newest, None).await?.all;
        let its = done.iter().rev().filter(|l| l.undoes == Some(seq));
        let told: Vec<&str> = its.map(|l| l.text.as_str()).collect();
        Ok(UndoReply {
            seq: seq.unsigned_abs(),
            undone: target.text,
            message: told.join("; "),
        })
    }
}
