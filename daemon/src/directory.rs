// SPDX-License-Identifier: GPL-2.0-only
//! What the system's databases say of users and groups, asked beside the writer.
//!
//! The problem: a directory service may take minutes, or hang, and every login and every first
//! currency of a user asks it. The rule: each question has a thread of its own, of which there are
//! `AT_ONCE`; whoever asks what is being asked already waits for the same answer, nobody waits
//! longer than `PATIENCE`, and an answer is taken again for `FRESH`.
//! Worked example: alice logs in twice while the service hangs. One thread waits; both logins go on
//! after 5 s without an answer, and are decided upon later.
//! Cost: a thread for each question; `KEPT` answers. Limits: that there is no such user is not
//! kept, nor an error: the next who asks may hear otherwise. A thread that hangs stays.

use crate::policy::User;
use crate::policy::users::{self, Names, System};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tix_model::NOBODY;
use tokio::sync::watch;

/// Questions without an answer, at most: beyond these nothing is asked.
const AT_ONCE: usize = 8;
/// How long somebody waits for one answer, or for several together.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer is good for, and how many are kept.
const FRESH: Duration = Duration::from_secs(10);
const KEPT: usize = 1024;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Question {
    /// The name of a user.
    Name(u32),
    /// A user, with every group.
    User(u32),
    /// The number of the group with this name.
    Gid(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Name(Option<String>),
    User(User),
    Gid(Option<u32>),
}

impl Answer {
    /// Is there somebody?
    fn is_found(&self) -> bool {
        match self {
            Answer::Name(name) => name.is_some(),
            Answer::User(user) => user.name.is_some(),
            Answer::Gid(gid) => gid.is_some(),
        }
    }
}

/// Answers a question; may block.
pub type Lookup = dyn Fn(&Question) -> io::Result<Answer> + Send + Sync;
/// `None` until there is an answer. An error is its text: several are told of it.
type Coming = watch::Receiver<Option<Result<Answer, String>>>;

#[derive(Clone)]
pub struct Directory {
    lookup: Arc<Lookup>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    asked: HashMap<Question, Coming>,
    known: Known,
}

/// Answers, and when each came.
#[derive(Default)]
struct Known(HashMap<Question, (Instant, Answer)>);

impl Known {
    fn get(&self, question: &Question, now: Instant) -> Option<Answer> {
        let (since, answer) = self.0.get(question)?;
        (now.duration_since(*since) < FRESH).then(|| answer.clone())
    }

    fn keep(&mut self, question: Question, answer: Answer, now: Instant) {
        if self.0.len() >= KEPT {
            self.0
                .retain(|_, (since, _)| now.duration_since(*since) < FRESH);
        }
        if self.0.len() < KEPT {
            self.0.insert(question, (now, answer));
        }
    }
}

/// A question that is being asked, and is no longer when this is dropped, also by a panic.
struct Asked {
    question: Question,
    of: Arc<Mutex<State>>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        lock(&self.of).asked.remove(&self.question);
    }
}

fn lock(of: &Mutex<State>) -> MutexGuard<'_, State> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn busy() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the user database does not answer (see nsswitch.conf)",
    )
}

fn system(question: &Question) -> io::Result<Answer> {
    Ok(match question {
        Question::Name(uid) => Answer::Name(users::name(*uid)?),
        Question::User(uid) => Answer::User(users::lookup(*uid)?),
        Question::Gid(name) => Answer::Gid(System.gid(name)?),
    })
}

impl Default for Directory {
    fn default() -> Directory {
        Directory::new(system)
    }
}

impl Directory {
    /// With another way to look things up.
    pub fn new(
        lookup: impl Fn(&Question) -> io::Result<Answer> + Send + Sync + 'static,
    ) -> Directory {
        Directory {
            lookup: Arc::new(lookup),
            state: Arc::default(),
        }
    }

    /// One of users that are in no group.
    pub fn of_users(names: impl Fn(u32) -> Option<String> + Send + Sync + 'static) -> Directory {
        Directory::new(move |question| {
            Ok(match question {
                Question::Name(uid) => Answer::Name(names(*uid)),
                Question::User(uid) => Answer::User(User {
                    uid: *uid,
                    gid: NOBODY,
                    name: names(*uid),
                    groups: vec![],
                }),
                Question::Gid(_) => Answer::Gid(None),
            })
        })
    }

    /// The name of `uid`, if it is known in time.
    pub async fn name(&self, uid: u32) -> Option<String> {
        match self.answer(Question::Name(uid)).await {
            Ok(Answer::Name(name)) => name,
            Ok(_) => None,
            Err(e) => {
                tracing::warn!("the name of uid {uid}: {e}");
                None
            }
        }
    }

    /// Those of them that are known in time, all together.
    pub async fn names(&self, uids: impl IntoIterator<Item = u32>) -> BTreeMap<u32, String> {
        let mut known = BTreeMap::new();
        let all = async {
            for uid in uids {
                if let Some(name) = self.name(uid).await {
                    known.insert(uid, name);
                }
            }
        };
        if tokio::time::timeout(PATIENCE, all).await.is_err() {
            tracing::warn!("not all users' names are known within {PATIENCE:?}");
        }
        known
    }

    /// The user with this number, and every group of theirs.
    ///
    /// # Errors
    /// The databases do not answer, or not soon.
    pub async fn user(&self, uid: u32) -> io::Result<User> {
        match self.answer(Question::User(uid)).await? {
            Answer::User(user) => Ok(user),
            _ => Err(busy()),
        }
    }

    /// The number of the group `name`; `None`: there is no such group.
    ///
    /// # Errors
    /// As for [`Directory::user`].
    pub async fn gid(&self, name: &str) -> io::Result<Option<u32>> {
        match self.answer(Question::Gid(name.to_owned())).await? {
            Answer::Gid(gid) => Ok(gid),
            _ => Err(busy()),
        }
    }

    async fn answer(&self, question: Question) -> io::Result<Answer> {
        if let Some(answer) = lock(&self.state).known.get(&question, Instant::now()) {
            return Ok(answer);
        }
        let mut coming = self.ask(question)?;
        let told = tokio::time::timeout(PATIENCE, coming.wait_for(Option::is_some)).await;
        let told = told.map_err(|_| busy())?;
        let told = told.map_err(|_| io::Error::other("the look-up has panicked"))?;
        match &*told {
            Some(Ok(answer)) => Ok(answer.clone()),
            Some(Err(why)) => Err(io::Error::other(why.clone())),
            None => Err(busy()),
        }
    }

    /// Two who ask the same wait for one answer.
    fn ask(&self, question: Question) -> io::Result<Coming> {
        let mut state = lock(&self.state);
        if let Some(coming) = state.asked.get(&question) {
            return Ok(coming.clone());
        }
        if state.asked.len() >= AT_ONCE {
            return Err(busy());
        }
        let (tell, coming) = watch::channel(None);
        state.asked.insert(question.clone(), coming.clone());
        drop(state);
        let lookup = Arc::clone(&self.lookup);
        let asked = Asked {
            question,
            of: Arc::clone(&self.state),
        };
        // No task of the runtime's: at its end that would wait for an answer that may never come.
        std::thread::Builder::new()
            .name("directory".into())
            .spawn(move || {
                let answer = lookup(&asked.question);
                if let Some(found) = answer.as_ref().ok().filter(|a| a.is_found()) {
                    let (question, now) = (asked.question.clone(), Instant::now());
                    let mut state = lock(&asked.of);
                    state.known.keep(question, found.clone(), now);
                }
                drop(asked);
                // Nobody may be waiting any more.
                let _ = tell.send(Some(answer.map_err(|e| e.to_string())));
            })?;
        Ok(coming)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn waiting(directory: &Directory) -> usize {
        lock(&directory.state).asked.len()
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_hangs_is_not_waited_for() {
        let hangs = Arc::new((Mutex::new(true), Condvar::new()));
        let gate = Arc::clone(&hangs);
        let directory = Directory::of_users(move |uid| {
            let mut shut = gate.0.lock().unwrap();
            while *shut && uid > 10 {
                shut = gate.1.wait(shut).unwrap();
            }
            Some(format!("u{uid}"))
        });
        let start = tokio::time::Instant::now();
        // In a time that passes only when everybody waits, in steps of milliseconds.
        let waited = || (start.elapsed().as_secs_f64() / PATIENCE.as_secs_f64()).round();
        for n in 0..AT_ONCE {
            assert!(directory.user(100 + n as u32).await.is_err());
        }
        assert_eq!((waiting(&directory), waited()), (AT_ONCE, AT_ONCE as f64));
        // However many ask: no more threads wait, and who asks something else waits for nothing.
        for uid in 500..600 {
            assert_eq!(directory.name(uid).await, None);
        }
        assert!(directory.gid("x").await.is_err());
        assert_eq!((waiting(&directory), waited()), (AT_ONCE, AT_ONCE as f64));
        // What is being asked already is not asked again.
        assert!(directory.user(100).await.is_err());
        assert_eq!(waiting(&directory), AT_ONCE);
        *hangs.0.lock().unwrap() = false;
        hangs.1.notify_all();
        while waiting(&directory) > 0 {
            std::thread::yield_now();
        }
        tokio::time::resume();
        assert_eq!(directory.name(500).await.as_deref(), Some("u500"));
    }

    #[tokio::test]
    async fn one_that_panics_gives_its_place_back_and_errors_are_asked_again() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let directory = Directory::new(move |question| {
            count.fetch_add(1, Ordering::Relaxed);
            match question {
                Question::Name(1) => panic!("no sense"),
                Question::Name(2) => Err(io::Error::other("away")),
                Question::Name(3) => Ok(Answer::Name(None)),
                _ => Ok(Answer::Name(Some("alice".to_owned()))),
            }
        });
        for _ in 0..3 * AT_ONCE {
            assert_eq!(directory.name(1).await, None);
        }
        while waiting(&directory) > 0 {
            std::thread::yield_now();
        }
        for uid in [2, 2, 3, 3] {
            assert_eq!(directory.name(uid).await, None);
        }
        let before = asked.swap(0, Ordering::Relaxed);
        assert_eq!(before, 3 * AT_ONCE + 4);
        for _ in 0..5 {
            assert_eq!(directory.name(4).await.as_deref(), Some("alice"));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn so_many_answers_are_kept_for_so_long() {
        let (mut known, start) = (Known::default(), Instant::now());
        let answer = |uid: u32| Answer::Name(Some(format!("u{uid}")));
        for uid in 0..2 * KEPT as u32 {
            known.keep(Question::Name(uid), answer(uid), start);
        }
        assert_eq!(known.0.len(), KEPT);
        let later = start + FRESH;
        let just = later - Duration::from_millis(1);
        assert_eq!(known.get(&Question::Name(7), just), Some(answer(7)));
        assert_eq!(known.get(&Question::Name(7), later), None);
        known.keep(Question::Name(9999), answer(9999), later);
        assert_eq!(known.0.len(), 1);
    }
}
