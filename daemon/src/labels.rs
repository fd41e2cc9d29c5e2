// SPDX-License-Identifier: GPL-2.0-only
//! Users' names, for the labels of their spaces (`ledger::spaces`). The users' databases may take
//! as long as a directory service does, or hang: each question has a thread of its own, of which
//! there are few, and nobody waits longer than [`PATIENCE`]. A user whose name does not come in
//! time is called by number.

use crate::core::Core;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How long somebody waits for one answer, or at the start for all.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions without an answer, at most: beyond these nobody is asked.
const AT_ONCE: usize = 8;

/// Tells the name of a uid; may block.
pub type Lookup = dyn Fn(u32) -> Option<String> + Send + Sync;
/// `None` until there is an answer.
type Answer = watch::Receiver<Option<Option<String>>>;

#[derive(Clone)]
pub struct Labels {
    lookup: Arc<Lookup>,
    asked: Arc<Mutex<HashMap<u32, Answer>>>,
}

/// What the system's databases say.
fn system(uid: u32) -> Option<String> {
    let found = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
    match found {
        Ok(user) => user.map(|u| u.name),
        Err(e) => {
            tracing::warn!("who is uid {uid}? {e}");
            None
        }
    }
}

impl Default for Labels {
    fn default() -> Labels {
        Labels::new(system)
    }
}

impl Labels {
    pub fn new(lookup: impl Fn(u32) -> Option<String> + Send + Sync + 'static) -> Labels {
        Labels {
            lookup: Arc::new(lookup),
            asked: Arc::default(),
        }
    }

    /// The name of `uid`, if it is known in time.
    pub async fn user(&self, uid: u32) -> Option<String> {
        let mut answer = self.ask(uid)?;
        let waited = tokio::time::timeout(PATIENCE, answer.wait_for(Option::is_some)).await;
        match waited {
            Ok(told) => told.ok()?.clone().flatten(),
            Err(_) => {
                tracing::warn!("who is uid {uid}? No answer within {PATIENCE:?}");
                None
            }
        }
    }

    /// Those of them that are known in time, all together.
    pub async fn users(&self, uids: impl IntoIterator<Item = u32>) -> BTreeMap<u32, String> {
        let mut known = BTreeMap::new();
        let all = async {
            for uid in uids {
                if let Some(name) = self.user(uid).await {
                    known.insert(uid, name);
                }
            }
        };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("not all users' names are known within {PATIENCE:?}");
        }
        known
    }

    /// Two who ask the same wait for one answer.
    fn ask(&self, uid: u32) -> Option<Answer> {
        let mut asked = lock(&self.asked);
        if let Some(answer) = asked.get(&uid) {
            return Some(answer.clone());
        }
        if asked.len() >= AT_ONCE {
            return None;
        }
        let (tell, answer) = watch::channel(None);
        let (lookup, open) = (Arc::clone(&self.lookup), Arc::clone(&self.asked));
        // No task of the runtime's: at its end that would wait for an answer that may never come.
        let started = std::thread::Builder::new()
            .name("users".into())
            .spawn(move || {
                let name = lookup(uid);
                lock(&open).remove(&uid);
                // Nobody may be waiting any more.
                let _ = tell.send(Some(name));
            });
        match started {
            Ok(_) => asked.insert(uid, answer.clone()),
            Err(e) => {
                tracing::warn!("who is uid {uid}? {e}");
                return None;
            }
        };
        Some(answer)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// At the start: the currencies that users made when all names were plain move into their makers'
/// spaces. Done once, as there are none afterwards; the log says it of each.
pub async fn move_into_spaces(core: &mut Core, labels: &Labels) {
    let makers: BTreeSet<u32> = core.ledger.without_space();
    if makers.is_empty() {
        return;
    }
    let users = labels.users(makers).await;
    core.move_into_spaces(&users).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;

    #[tokio::test(start_paused = true)]
    async fn a_service_that_hangs_is_not_waited_for() {
        let hangs = Arc::new((Mutex::new(true), Condvar::new()));
        let gate = Arc::clone(&hangs);
        let labels = Labels::new(move |uid| {
            let mut shut = lock(&gate.0);
            while *shut && uid > 10 {
                shut = gate.1.wait(shut).unwrap();
            }
            Some(format!("u{uid}"))
        });
        for uid in 0..u32::try_from(AT_ONCE).unwrap() {
            assert_eq!(labels.user(100 + uid).await, None);
        }
        let open = lock(&labels.asked).len();
        // However many ask: no more threads wait.
        for uid in [100, 101, 500, 501] {
            assert_eq!(labels.user(uid).await, None);
        }
        assert_eq!((open, lock(&labels.asked).len()), (AT_ONCE, AT_ONCE));
        *lock(&hangs.0) = false;
        hangs.1.notify_all();
        while !lock(&labels.asked).is_empty() {
            std::thread::yield_now();
        }
        let mut answer = labels.ask(500).unwrap();
        let told = answer.wait_for(Option::is_some).await.unwrap().clone();
        assert_eq!(told, Some(Some("u500".to_owned())));
    }
}
