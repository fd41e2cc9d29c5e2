// SPDX-License-Identifier: GPL-2.0-only
//! `--dry-run`: after `Rehearse` the next change on a connection is done to a copy of the
//! ledger, so that the caller sees what would be done, and whose share would be another.
//!
//! The writer makes the copy, and all else is done beside it. For users but root there is one copy
//! at a time, and making copies takes one part in [`PART`] of the writer's time; for them it is copied
//! only if it has at most [`LARGEST`] currencies, with names of [`USUAL`] bytes on average. What the
//! copy costs, and what is done with it, is charged to the caller.

use super::check;
use super::errors::{bad, internal};
use super::pace::Pace;
use super::readers::behind;
use crate::parts::blocking;
use crate::writer::{Failure, Handle, acts};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tix_api::{Effect, Error, RehearsedReply};
use tix_ledger::{BASE, Caller, Cid, Event, Ledger, Op, Refusal, Resource, fraction};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

/// Shares that are told of, at most, and acts.
const MOST: usize = 100;
/// Bytes of their names, and of the acts, at most: names of cgroups may be long.
const LONGEST: usize = 32 << 10;
/// Shares that differ by less are the same.
const NEAR: f64 = 1e-9;
/// The largest ledger that is copied for who is not root, currencies. With ten tickets each that
/// takes some 12 ms, for which others wait.
const LARGEST: usize = 5_000;
/// Bytes that a name has on average there, at most: paths of cgroups may have 3,500, three times.
const USUAL: usize = 128;
/// Of the writer's time, copies for users but root take one part in so many.
const PART: u32 = 10;
/// So long a change waits for its turn to be tried.
const PATIENCE: Duration = Duration::from_secs(5);
const INSTEAD: &str = "leave --dry-run out: the change is done then, and `tixctl undo` takes it \
                       back; `tixctl explain` shows what is so now";

/// Whose turn it is, root apart, to have a change tried. Each user waits in one place: the second
/// try of a user comes after the first, and after those who wait by then.
#[derive(Debug, Default)]
pub struct Tries {
    /// It has the time when the next copy may be made.
    due: Arc<Mutex<Option<Instant>>>,
    /// The places of those who wait.
    places: RefCell<HashMap<u32, Weak<Mutex<()>>>>,
}

struct Turn {
    due: OwnedMutexGuard<Option<Instant>>,
    _place: OwnedMutexGuard<()>,
}

impl Tries {
    fn place(&self, user: u32) -> Arc<Mutex<()>> {
        let mut places = self.places.borrow_mut();
        places.retain(|_, place| place.strong_count() > 0);
        let known = places.get(&user).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let place = Arc::default();
            places.insert(user, Arc::downgrade(&place));
            place
        })
    }

    /// Waits for it.
    async fn next(&self, user: u32) -> Result<Turn, Error> {
        let place = self.place(user);
        let turn = async {
            let place = place.lock_owned().await;
            let due = Arc::clone(&self.due).lock_owned().await;
            if let Some(due) = *due {
                tokio::time::sleep_until(due).await;
            }
            Turn { due, _place: place }
        };
        let turn = tokio::time::timeout(PATIENCE, turn).await;
        turn.map_err(|_| Error::LimitReached {
            message: "other changes of users are being tried, one at a time".to_owned(),
            hint: format!("try again in a moment; or {INSTEAD}"),
        })
    }
}

/// What a connection has asked for.
#[derive(Debug, Default)]
pub enum Rehearsal {
    #[default]
    Off,
    /// The next change is only tried.
    Next,
    /// What is being called is, if it is a change.
    Now,
    /// It was.
    Done(RehearsedReply),
}

impl Rehearsal {
    /// Each call begins with this, also one that is refused before any method sees it: what was to
    /// be tried is that one, and none after it.
    pub fn call(&mut self, message: &[u8]) {
        match self {
            Rehearsal::Next if check::may_change(message) => *self = Rehearsal::Now,
            Rehearsal::Now => *self = Rehearsal::Off,
            _ => {}
        }
    }

    /// What the last one came to; once.
    pub fn reply(self) -> Result<RehearsedReply, Error> {
        match self {
            Rehearsal::Done(reply) => Ok(reply),
            Rehearsal::Off | Rehearsal::Next | Rehearsal::Now => Err(bad(
                "nothing was rehearsed on this connection".to_owned(),
                "call Rehearse, then what would change something",
            )),
        }
    }
}

/// The caller who asked to try a change.
pub struct Asker {
    pub caller: Caller,
    /// Whose time it takes.
    pub user: u32,
}

/// Tries what `plan` says: the answer is as if it had been done.
pub async fn rehearse<T, R>(
    handle: &Handle,
    tries: &Tries,
    pace: &Pace,
    Asker { caller, user }: Asker,
    plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal> + Send + 'static,
) -> Result<(T, RehearsedReply), Error>
where
    T: Send + 'static,
    R: FnOnce(&Ledger, &[Event]) -> T + Send + 'static,
{
    let is_root = caller.is_root();
    let mut turn = match is_root {
        true => None,
        false => {
            let sized = handle.call(move |core| check_size(&core.ledger, is_root));
            sized.await.map_err(internal)??;
            Some(tries.next(user).await?)
        }
    };
    let copied = handle.call(move |core| copy(&core.ledger, is_root)).await;
    let (mut copy, took) = copied.map_err(internal)??;
    if let Some(turn) = &mut turn {
        *turn.due = Some(Instant::now() + took * (PART - 1));
    }
    let spent = (!is_root).then(|| pace.spent(user));
    let tried = blocking(move || {
        let _turn = turn;
        let all = || {
            let tried = tried(&mut copy, &caller, plan);
            drop(copy);
            tried
        };
        match spent {
            Some(spent) => behind(&spent, all),
            None => all(),
        }
    });
    let tried = tried.await.map_err(Failure::from);
    tried.and_then(|tried| tried).map_err(internal)
}

/// Refuses what is too large to be copied for who is not root.
fn check_size(ledger: &Ledger, is_root: bool) -> Result<(), Error> {
    let (size, long) = (ledger.len(), ledger.name_bytes());
    let why = match () {
        () if is_root => return Ok(()),
        () if size > LARGEST => format!("{size} currencies, more than {LARGEST}"),
        () if long > LARGEST * USUAL => format!(
            "currencies whose names have {long} bytes, more than {}",
            LARGEST * USUAL
        ),
        () => return Ok(()),
    };
    Err(Error::LimitReached {
        message: format!("only root may have a change tried here: the ledger has {why}"),
        hint: INSTEAD.to_owned(),
    })
}

/// A copy, and how long it took.
fn copy(ledger: &Ledger, is_root: bool) -> Result<(Ledger, Duration), Error> {
    // It may have grown since that was asked.
    check_size(ledger, is_root)?;
    let began = std::time::Instant::now();
    Ok((ledger.clone(), began.elapsed()))
}

/// Does to `copy` what `plan` says.
fn tried<T, R>(
    copy: &mut Ledger,
    caller: &Caller,
    plan: impl FnOnce(&Ledger) -> Result<(Vec<Op>, R), Refusal>,
) -> Result<(T, RehearsedReply), Failure>
where
    R: FnOnce(&Ledger, &[Event]) -> T,
{
    let (ops, reply) = plan(copy)?;
    let before = shares(copy);
    let mut events = Vec::new();
    for op in &ops {
        op.check_enforced(copy)?;
        events.extend(copy.apply(op, caller)?);
    }
    let told = told(acts(copy, &events), effects(&before, &shares(copy)));
    Ok((reply(copy, &events), told))
}

/// A currency's name, and the parts of the resources that are its.
type Shares = BTreeMap<Cid, (String, Vec<(Resource, f64)>)>;

fn shares(ledger: &Ledger) -> Shares {
    let enforced = || Resource::ALL.into_iter().filter(|r| r.is_enforced());
    let share = |cid, r| fraction(ledger.entitlement(cid, r), ledger.total(r));
    let all = ledger.iter().filter(|(cid, _)| *cid != BASE);
    let all = all.map(|(cid, c)| {
        let its = enforced().map(|r| (r, share(cid, r)));
        (cid, (c.name.clone(), its.collect()))
    });
    all.collect()
}

/// Whose share differs.
fn effects(before: &Shares, after: &Shares) -> Vec<Effect> {
    let mut effects = Vec::new();
    let all: BTreeSet<&Cid> = before.keys().chain(after.keys()).collect();
    for cid in all {
        let (was, is) = (before.get(cid), after.get(cid));
        let Some((name, known)) = is.or(was) else {
            continue;
        };
        let of = |shares: Option<&(String, Vec<(Resource, f64)>)>, i: usize| {
            shares.map_or(0.0, |(_, shares)| shares[i].1)
        };
        for (i, (r, _)) in known.iter().enumerate() {
            let (was, is) = (of(was, i), of(is, i));
            if (was - is).abs() > NEAR {
                effects.push(Effect {
                    currency: name.clone(),
                    resource: (*r).into(),
                    before: was,
                    after: is,
                });
            }
        }
    }
    effects
}

/// The most important of it.
fn told(mut acts: Vec<String>, mut effects: Vec<Effect>) -> RehearsedReply {
    effects.sort_by(|a, b| {
        let size = |e: &Effect| (e.after - e.before).abs();
        size(b)
            .total_cmp(&size(a))
            .then_with(|| a.currency.cmp(&b.currency))
    });
    let shown = fitting(effects.iter().map(|e| e.currency.len()));
    let more = (effects.len() - shown) as u64;
    effects.truncate(shown);
    let shown = fitting(acts.iter().map(String::len));
    let left = acts.len() - shown;
    acts.truncate(shown);
    if left > 0 {
        acts.push(format!("and {left} more"));
    }
    RehearsedReply {
        acts,
        effects,
        more,
    }
}

/// How many of these lengths are few enough and short enough; one is.
fn fitting(lengths: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    let fit = lengths.take(MOST).take_while(|n| {
        let first = sum == 0;
        sum += n;
        first || sum <= LONGEST
    });
    fit.count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_ledger::{Cgroup, DEFAULT_MODE};

    #[tokio::test(start_paused = true)]
    async fn one_has_the_turn_and_the_next_waits_for_it_or_is_told() {
        let tries = Tries::default();
        let first = tries.next(1000).await.unwrap();
        let Err(Error::LimitReached { message, hint }) = tries.next(1001).await else {
            panic!("two have it");
        };
        assert!(message.contains("one at a time"), "{message}");
        assert!(hint.contains("leave --dry-run out"), "{hint}");
        drop(first);
        // Whoever has it says when the next copy may be made.
        let due = Instant::now() + PATIENCE / 2;
        *tries.next(1001).await.unwrap().due = Some(due);
        let next = tries.next(1000).await.unwrap();
        assert!(Instant::now() >= due);
        // The time that the last one took is paid for before somebody else may.
        let mut next = next;
        *next.due = Some(Instant::now() + 2 * PATIENCE);
        drop(next);
        assert!(tries.next(1000).await.is_err());
        tokio::time::sleep(2 * PATIENCE).await;
        assert!(tries.next(1000).await.is_ok());
    }

    /// All of alice's connections wait before bob does: he has the second turn.
    #[tokio::test(start_paused = true)]
    async fn a_user_waits_in_one_place_however_many_wait_of_that_user() {
        let tries = Tries::default();
        let first = tries.next(1000).await.unwrap();
        let order = RefCell::new(Vec::new());
        let wait = async |user: u32| {
            let turn = tries.next(user).await.unwrap();
            order.borrow_mut().push(user);
            tokio::task::yield_now().await;
            drop(turn);
        };
        let ends = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        tokio::join!(
            wait(1000),
            wait(1000),
            wait(1000),
            wait(1001),
            wait(1002),
            ends
        );
        assert_eq!(*order.borrow(), [1001, 1002, 1000, 1000, 1000]);
        tries.next(1003).await.unwrap();
        assert_eq!(tries.places.borrow().len(), 1);
    }

    /// A ledger with a currency more of that name.
    fn grow(ledger: &mut Ledger, name: String) {
        let op = Op::Create {
            cid: ledger.next_cid(),
            name,
            owner: 0,
            group: 0,
            mode: DEFAULT_MODE,
        };
        ledger.apply(&op, &Caller::ROOT).unwrap();
    }

    fn why_not(ledger: &Ledger) -> String {
        assert!(copy(ledger, true).is_ok());
        match copy(ledger, false) {
            Err(Error::LimitReached { message, .. }) => message,
            _ => panic!("it is copied"),
        }
    }

    #[test]
    fn what_is_large_is_copied_for_root_alone() {
        let mut ledger = Ledger::new(1, 0);
        while ledger.len() < LARGEST {
            let name = format!("c{}", ledger.next_cid());
            grow(&mut ledger, name);
        }
        assert_eq!(copy(&ledger, false).unwrap().0.len(), LARGEST);
        grow(&mut ledger, "more".to_owned());
        let why = why_not(&ledger);
        assert!(why.contains("5001 currencies"), "{why}");
    }

    #[test]
    fn few_long_names_are_as_large_as_many() {
        let mut ledger = Ledger::new(1, 0);
        let path = "/".to_owned() + &"x".repeat(3_499);
        for n in 0..=LARGEST * USUAL / path.len() {
            assert!(copy(&ledger, false).is_ok(), "{n}");
            ledger.cgroup_here(&Cgroup {
                path: &format!("{}{n:03}", &path[..path.len() - 3]),
                id: 7 + n as u64,
                weight: 100,
                disk: 100,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
        }
        let why = why_not(&ledger);
        assert!(why.contains("bytes, more than 640000"), "{why}");
    }

    #[test]
    fn what_is_told_is_bounded() {
        let effect = |n: usize, long: usize| Effect {
            currency: format!("/{n:0long$}"),
            resource: tix_api::Resource::Cpu,
            before: 0.0,
            after: n as f64,
        };
        let effects = |many, long| (0..many).map(|n| effect(n, long)).collect::<Vec<_>>();
        let few = told(vec!["done".to_owned()], effects(3, 10));
        assert_eq!((few.acts.len(), few.effects.len(), few.more), (1, 3, 0));
        // The largest change first.
        assert_eq!(few.effects[0].after, 2.0);
        let many = told(vec!["done".to_owned(); 150], effects(150, 10));
        assert_eq!((many.effects.len(), many.more), (MOST, 50));
        assert_eq!(many.acts.len(), MOST + 1);
        assert_eq!(many.acts[MOST], "and 50 more");
        let long = told(vec!["x".repeat(2 * LONGEST)], effects(150, 4_000));
        let bytes: usize = long.effects.iter().map(|e| e.currency.len()).sum();
        assert!(bytes <= LONGEST && long.effects.len() == 8, "{bytes}");
        // What was done is told however long it is.
        assert_eq!((long.acts.len(), long.more), (1, 142));
    }
}
