// SPDX-License-Identifier: GPL-2.0-only
//! A connection, and how its requests reach the one writer.

use super::pace::Pace;
use super::peer::Process;
use super::people::UNKNOWN;
use super::rehearse::{self, Asker, Rehearsal, Tries};
use super::transfer::{self, Import};
use super::whole::Written;
use super::{errors, names};
use crate::directory::Directory;
use crate::parts::blocking;
use crate::writer::{Core, Failure, Handle, Undoes};
use serde::Serialize;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tix_api::Error;
use tix_ledger::{Caller, Cid, Event, Ledger, Op, Refusal};

/// A connection, and who is at its other end.
pub struct Session {
    pub handle: Handle,
    pub caller: Caller,
    /// May read what is others' business: the whole log, their processes, the ledger as a document.
    pub reads_all: bool,
    /// Whose limits count: the caller's uid, or the user's whose subordinate uid that is.
    pub user: u32,
    pub process: Arc<Process>,
    pub pace: Rc<Pace>,
    /// Of reading what cgroups use: it waits for itself alone.
    pub reading: Rc<Pace>,
    /// Of what changes have logged, bytes.
    pub logging: Rc<Pace>,
    /// Names of users, for the label of a space that is opened.
    pub directory: Directory,
    /// A document that is being handed in.
    pub import: RefCell<Option<Import>>,
    /// Whether the next change is only tried, or what is being called.
    pub rehearsal: Rc<RefCell<Rehearsal>>,
    /// Whose turn it is to have one tried.
    pub trying: Rc<Tries>,
}

/// Names that one operation looks up, at most.
const NAMES: usize = 2;

/// So long a change waits for those of before to be paid for in the log.
const PATIENCE: Duration = Duration::from_secs(30);

/// Currencies that one request of ordinary cost can tell of.
pub(super) const CHEAP: f64 = 1000.0;

impl Session {
    /// Looks at the ledger and the machine.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.handle.call(f).await.map_err(errors::internal)
    }

    /// What tells of every currency waits for its turn by how many there are.
    pub(super) async fn wait_for_all(&self) -> Result<(), Error> {
        let n = self.ask(|core| core.ledger.len()).await?;
        self.pace.wait(self.user, n as f64 / CHEAP).await;
        Ok(())
    }

    /// What `each` says of every currency, in slices between which others have their turn.
    pub(super) async fn ask_each<T: Send + 'static>(
        &self,
        each: impl Fn(&mut Core, Cid) -> Option<T> + Clone + Send + 'static,
    ) -> Result<Vec<T>, Error> {
        self.wait_for_all().await?;
        let all = self.handle.slices(each).await;
        all.map_err(errors::internal)
    }

    /// The ledger as a document, of one moment: a copy of it is put into words beside the writer.
    pub(super) async fn export_parts(&self) -> Result<Vec<String>, Error> {
        self.wait_for_all().await?;
        let ledger = self.ask(|core| core.ledger.clone()).await?;
        beside(move || transfer::parts(&transfer::document(&ledger))).await
    }

    /// Has all clocks of cgroups read, if they were not a moment ago.
    pub(super) async fn read_clocks(&self) -> Result<(), Error> {
        self.handle.read_clocks().await.map_err(errors::internal)
    }

    pub(super) async fn change<T: Send + 'static>(
        &self,
        op: Op,
        reply: impl FnOnce(&Ledger) -> T + Clone + Send + 'static,
    ) -> Result<T, Error> {
        self.change_with(move |_| Ok((vec![op], reply))).await
    }

    /// Does what `plan` says of the ledger, which looks up names in the same turn; a cgroup that
    /// has just been made is waited for a little.
    pub(super) async fn change_with<T, R>(
        &self,
        plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Clone + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        R: FnOnce(&Ledger) -> T + Send + 'static,
    {
        self.change_told(move |l| {
            let (ops, reply) = plan(l)?;
            Ok((ops, move |l: &Ledger, _: &[Event]| reply(l)))
        })
        .await
    }

    /// The same; the reply is told what was done, too.
    pub(super) async fn change_told<T, R>(
        &self,
        plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Clone + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        R: FnOnce(&Ledger, &[Event]) -> T + Send + 'static,
    {
        self.change_as(self.caller.clone(), None, plan).await
    }

    /// The same, for what makes a currency, which is called by the caller's space.
    pub(super) async fn make<T, R>(
        &self,
        plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Clone + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        R: FnOnce(&Ledger, &[Event]) -> T + Send + 'static,
    {
        self.people_only()?;
        let mut caller = self.caller.clone();
        if !caller.is_root() {
            let uid = caller.uid;
            // Each time: one that is there now may not be kept.
            let label = self.ask(move |core| core.ledger.label(uid).is_some());
            if !label.await? {
                caller.user = self.directory.name(uid).await;
            }
        }
        self.change_as(caller, None, plan).await
    }

    /// Is what is being called only to be tried?
    pub(super) fn rehearses(&self) -> bool {
        matches!(*self.rehearsal.borrow(), Rehearsal::Now)
    }

    /// Refuses what cannot be tried without being done.
    pub(super) fn not_rehearsed(&self) -> Result<(), Error> {
        match self.rehearses() {
            false => Ok(()),
            true => Err(errors::bad(
                "this cannot be tried: it is more than a change of the ledger".to_owned(),
                "type it without --dry-run",
            )),
        }
    }

    async fn rehearse_change<T, R>(
        &self,
        caller: Caller,
        plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        R: FnOnce(&Ledger, &[Event]) -> T + Send + 'static,
    {
        self.wait_for_all().await?;
        let asker = Asker {
            caller,
            user: self.user,
        };
        let tried = rehearse::rehearse(&self.handle, &self.trying, &self.pace, asker, plan);
        let (answer, told) = tried.await?;
        self.rehearsal.replace(Rehearsal::Done(told));
        Ok(answer)
    }

    /// `undoes`: what it takes back.
    pub(super) async fn change_as<T, R>(
        &self,
        caller: Caller,
        undoes: Option<Undoes>,
        plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Clone + Send + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        R: FnOnce(&Ledger, &[Event]) -> T + Send + 'static,
    {
        self.people_only()?;
        if self.rehearses() {
            return self.rehearse_change(caller, plan).await;
        }
        let settled = self.logging.settle(self.user, PATIENCE).await;
        settled.map_err(|due| Error::LimitReached {
            message: format!("uid {} has had too much logged of late", self.user),
            hint: format!("try again in {} s", due.as_secs() + 1),
        })?;
        let mut waits = 0..NAMES;
        loop {
            let done = self
                .handle
                .change(caller.clone(), undoes.clone(), plan.clone());
            match done.await {
                // Nothing but a cgroup comes by itself.
                Err(Failure::Refused(Refusal::NoSuchCgroup(path)))
                    if path.starts_with('/') && waits.next().is_some() =>
                {
                    names::currency(&self.handle, &path, self.caller.uid).await?;
                }
                done => return done.map_err(errors::internal),
            }
        }
    }

    /// `typed`: the command, as root types it.
    pub(super) fn root_only(&self, what: &str, typed: &str) -> Result<(), Error> {
        match self.caller.is_root() {
            true => Ok(()),
            false => Err(Error::NotPermitted {
                message: format!("uid {} may not {what}: only root may", self.caller.uid),
                hint: format!("as root: `{typed}`"),
            }),
        }
    }

    pub(super) fn readers_only(&self, what: &str) -> Result<(), Error> {
        match self.reads_all {
            true => Ok(()),
            false => Err(Error::NotPermitted {
                message: format!("uid {} may not {what}", self.caller.uid),
                hint: "root may, and members of the group that tixd's --readers names: if that is \
                       tix, root types `adduser USER tix`, and you log in again"
                    .into(),
            }),
        }
    }

    /// What the ledger holds is counted by uid, and people have thousands of subordinate ones.
    fn people_only(&self) -> Result<(), Error> {
        match self.user {
            user if user == self.caller.uid => Ok(()),
            UNKNOWN => Err(Error::NotPermitted {
                message: format!(
                    "uid {} may not change anything: it is a subordinate uid, and it is not known \
                     yet of which user",
                    self.caller.uid
                ),
                hint:
                    "the system's user database has not answered; try again, outside of the user \
                       namespace"
                        .into(),
            }),
            _ => Err(Error::NotPermitted {
                message: format!(
                    "uid {} may not change anything: it is a subordinate uid of uid {}",
                    self.caller.uid, self.user
                ),
                hint: format!("ask as uid {}, outside of the user namespace", self.user),
            }),
        }
    }

    /// The caller's user currency, or what is named.
    pub(super) async fn own_or(&self, named: Option<String>) -> Result<String, Error> {
        if let Some(name) = named {
            return names::currency(&self.handle, &name, self.caller.uid).await;
        }
        let (uid, process) = (self.caller.uid, Arc::clone(&self.process));
        let own = self
            .ask(move |core| names::user_currency(core, uid, &process))
            .await?;
        own.ok_or_else(|| Error::NoSuchCurrency {
            message: format!("uid {uid} has no user currency"),
            hint: "name one that you own with --from; `tixctl tree` lists what there is".into(),
        })
    }
}

/// Does `f`, which takes its time, beside the writer.
pub(super) async fn beside<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    blocking(f).await.map_err(|e| Error::Internal {
        message: e.to_string(),
        hint: "try again; see tixd's log if it stays so".into(),
    })
}

/// A long reply in words, put there beside the writer.
pub(super) async fn written<T: Serialize + Send + 'static>(reply: T) -> Result<Written<T>, Error> {
    beside(move || words(&reply)).await?
}

pub(super) fn words<T: Serialize>(reply: &T) -> Result<Written<T>, Error> {
    Written::of(reply).map_err(|e| Error::Internal {
        message: e.to_string(),
        hint: "see tixd's log".into(),
    })
}
