// SPDX-License-Identifier: GPL-2.0-only
//! The policy put into practice: each cgroup is decided upon when it appears, and what is decided
//! is done by operations like anybody's, in the policy's name, so that it is in the ledger and in
//! the log.
//!
//! The users' databases may be slow to answer (a directory server): they are asked beside the
//! writer, and not waited for long. A cgroup whose user is not known yet stays as it is, and is
//! decided upon later.

use crate::directory::Directory;
use crate::parts::blocking;
use crate::policy::{self, Decision, Declared, Grant, Policy, Problem, Subject, user_of_slice};
use crate::writer::event::EventKind;
use crate::writer::{Core, Handle};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tix_ledger::{Caller, Cid, Hard, Kind, Ledger, Op, POLICY, Resource};
use tokio::sync::{Notify, broadcast};

/// After so long those are decided upon again whose user was not known.
const LATER: Duration = Duration::from_secs(30);

/// What the policy is kept in force by.
struct Keeper {
    handle: Handle,
    directory: Directory,
}

/// Keeps the policy in `dir` in force, for ever; reads it again when `again` says so.
pub async fn keep(handle: Handle, directory: Directory, dir: PathBuf, again: Arc<Notify>) {
    let mut appear = handle.appear();
    let keeper = Keeper { handle, directory };
    let mut policy = Arc::new(Policy::default());
    let mut first = true;
    let mut later = Later::default();
    let mut clock = tokio::time::interval(LATER);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        policy = read(&keeper, &dir, policy, first, &mut later).await;
        first = false;
        loop {
            tokio::select! {
                () = again.notified() => break,
                path = appeared(&mut appear) => match path {
                    Some(path) => decide(&keeper, &policy, path, &mut later).await,
                    // Some were missed: look at all of them.
                    None => all(&keeper, &policy, &mut later).await,
                },
                _ = clock.tick(), if !later.is_empty() => {
                    for path in std::mem::take(&mut later) {
                        decide(&keeper, &policy, path, &mut later).await;
                    }
                }
            }
        }
    }
}

/// Cgroups that are decided upon later, by path.
type Later = BTreeSet<String>;

/// The next cgroup that appears.
async fn appeared(appear: &mut broadcast::Receiver<String>) -> Option<String> {
    match appear.recv().await {
        Ok(path) => Some(path),
        Err(broadcast::error::RecvError::Lagged(_)) => None,
        // tixd is ending.
        Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
    }
}

/// Reads the files; with a mistake in them what was in force stays.
async fn read(
    keeper: &Keeper,
    dir: &Path,
    old: Arc<Policy>,
    first: bool,
    later: &mut Later,
) -> Arc<Policy> {
    let from = dir.to_owned();
    let (policy, problems) = match blocking(move || Policy::load(&from)).await {
        Ok(Ok(policy)) => (Arc::new(policy), vec![]),
        Ok(Err(problems)) => (old, problems),
        Err(e) => (old, vec![unread(dir, &e)]),
    };
    tell(&keeper.handle, dir, &policy, &problems, first).await;
    if problems.is_empty() {
        let declared = Arc::clone(&policy);
        let done = keeper.handle.act(move |core| {
            for d in declared.declared() {
                declare(core, d);
            }
        });
        // tixd may be ending.
        let _ = done.await;
        all(keeper, &policy, later).await;
        let _ = retire(keeper, &policy, later).await;
    }
    policy
}

fn unread(dir: &Path, e: &std::io::Error) -> Problem {
    Problem {
        file: dir.display().to_string(),
        line: 0,
        what: format!("it was not read: {e}"),
        instead: "`systemctl reload tixd` reads it again".to_owned(),
    }
}

async fn tell(handle: &Handle, dir: &Path, policy: &Policy, problems: &[Problem], first: bool) {
    for p in problems {
        tracing::error!("policy: {p}");
    }
    for note in policy.notes() {
        tracing::warn!("policy: {note}");
    }
    let status = policy::Status {
        directory: dir.display().to_string(),
        files: policy.files(),
        rules: policy.rules(),
        problems: problems.iter().map(Problem::to_string).collect(),
    };
    let what = match problems.len() {
        0 => format!("the policy in {} is in force", dir.display()),
        n => format!(
            "the policy in {} has {n} mistakes: what was in force stays so",
            dir.display()
        ),
    };
    let quiet = first && policy.is_empty() && problems.is_empty();
    let done = handle.call(move |core| {
        core.policy = status;
        if !quiet {
            core.note(EventKind::Policy, &what);
        }
    });
    // tixd may be ending.
    let _ = done.await;
}

/// Every cgroup that is there.
async fn all(keeper: &Keeper, policy: &Arc<Policy>, later: &mut Later) {
    if policy.is_empty() {
        return;
    }
    let concern = Arc::clone(policy);
    let paths = keeper.handle.call(move |core| {
        let mirrors = core.ledger.iter().filter_map(|(_, c)| c.mirror.as_ref());
        let paths = mirrors.map(|m| m.path.clone());
        paths
            .filter(|p| concern.may_concern(p))
            .collect::<Vec<String>>()
    });
    let mut paths = paths.await.unwrap_or_default();
    // In an order of their own: the same policy gives the same ledger.
    paths.sort();
    for path in paths {
        decide(keeper, policy, path, later).await;
    }
}

/// What the policy says of the cgroup `path`, done.
async fn decide(keeper: &Keeper, policy: &Arc<Policy>, path: String, later: &mut Later) {
    if !policy.may_concern(&path) {
        return;
    }
    let decision = match decision(keeper, policy, &path).await {
        Ok(Some(decision)) => decision,
        Ok(None) => return,
        Err(e) => {
            tracing::warn!("policy for {path}: {e}; it is decided later");
            later.insert(path);
            return;
        }
    };
    let at = path.clone();
    let done = keeper
        .handle
        .act(move |core| carry_out(core, &decision, &at));
    if let Ok(Err(e)) | Err(e) = done.await {
        tracing::warn!("policy for {path}: {e}");
    }
}

/// An error: it is not known yet whose it is.
async fn decision(
    keeper: &Keeper,
    policy: &Arc<Policy>,
    path: &str,
) -> std::io::Result<Option<Decision>> {
    let at = path.to_owned();
    let dir = keeper.handle.call(move |core| {
        let c = core.ledger.get(core.ledger.find(&at)?)?;
        c.mirror.as_ref().map(|m| (m.owner, m.group))
    });
    let Ok(Some((owner, group))) = dir.await else {
        return Ok(None);
    };
    let user = match user_of_slice(path) {
        Some(uid) => Some(keeper.directory.user(uid).await?),
        None => None,
    };
    let (policy, path) = (Arc::clone(policy), path.to_owned());
    let decided = blocking(move || {
        policy.decide(&Subject {
            path: &path,
            owner,
            group,
            user,
        })
    });
    decided.await
}

fn declare(core: &mut Core, d: &Declared) {
    let made = match core.ledger.find(&d.name) {
        None => create(
            core,
            &d.name,
            d.owner.unwrap_or(0),
            d.group.unwrap_or(0),
            d.mode.unwrap_or(tix_model::DEFAULT_MODE),
        ),
        Some(_) => broker(core, &d.name, d.owner, d.group, d.mode),
    };
    if let Err(e) = made {
        return tracing::warn!("policy {}: {}: {e}", d.origin, d.name);
    }
    grants(core, &d.name, &d.grants, &d.origin);
}

fn create(
    core: &mut Core,
    name: &str,
    owner: u32,
    group: u32,
    mode: u16,
) -> Result<(), crate::writer::Failure> {
    let cid = core.ledger.next_cid();
    let op = Op::Create {
        cid,
        name: name.to_owned(),
        owner,
        group,
        mode,
    };
    core.submit(&[op], &Caller::POLICY)
}

fn broker(
    core: &mut Core,
    name: &str,
    owner: Option<u32>,
    group: Option<u32>,
    mode: Option<u16>,
) -> Result<(), crate::writer::Failure> {
    let Some(c) = core.ledger.find(name).and_then(|c| core.ledger.get(c)) else {
        return Ok(());
    };
    let mut ops = Vec::new();
    if owner.is_some_and(|o| o != c.owner) || group.is_some_and(|g| g != c.group) {
        ops.push(Op::Chown {
            name: name.to_owned(),
            owner,
            group,
        });
    }
    if let Some(mode) = mode.filter(|m| *m != c.mode) {
        ops.push(Op::Chmod {
            name: name.to_owned(),
            mode,
        });
    }
    core.submit(&ops, &Caller::POLICY)
}

/// The currency that is decided, funded and bound. One that is there and not the policy's is left
/// to whoever made it.
fn carry_out(core: &mut Core, d: &Decision, path: &str) -> Result<(), crate::writer::Failure> {
    let known = core.ledger.find(&d.currency);
    match known.and_then(|c| core.ledger.get(c)) {
        None if d.grants.is_empty() => {
            tracing::warn!(
                "policy {}: {} would be funded with nothing; it stays with its parent's weight",
                d.origin,
                path
            );
            return Ok(());
        }
        None => create(core, &d.currency, d.owner, d.group, d.mode)?,
        Some(c) if c.by != POLICY && c.owner != d.owner => {
            tracing::warn!(
                "policy {}: {} is uid {}'s currency, and not for {path}",
                d.origin,
                d.currency,
                c.owner
            );
            return Ok(());
        }
        Some(_) => {}
    }
    grants(core, &d.currency, &d.grants, &d.origin);
    if core.ledger.binding(path).is_some() {
        // By the policy before, or by an administrator, who knows better.
        return Ok(());
    }
    let op = Op::Bind {
        name: d.currency.clone(),
        path: path.to_owned(),
    };
    core.submit(&[op], &Caller::POLICY)
}

/// Exactly these tickets by the policy, beside what others gave.
fn grants(core: &mut Core, name: &str, wanted: &[Grant], origin: &str) {
    let Some(cid) = core.ledger.find(name) else {
        return;
    };
    for op in steps(&core.ledger, cid, name, wanted) {
        // One that does not fit (the fiftieth guarantee) is no reason not to give the others.
        if let Err(e) = core.submit(&[op], &Caller::POLICY) {
            tracing::warn!("policy {origin}: {name}: {e}");
        }
    }
}

fn steps(l: &Ledger, cid: Cid, name: &str, wanted: &[Grant]) -> Vec<Op> {
    let mut ops = Vec::new();
    let (holder, same) = (name.to_owned(), |g: &Grant, issuer: &str, r, kind| {
        g.issuer == issuer && g.resource == r && g.kind == kind
    });
    for r in Resource::ALL {
        let held = l.get(cid).map(|c| c.grants(r)).unwrap_or_default();
        for g in held.iter().filter(|g| g.by == POLICY) {
            let issuer = l.name(g.issuer);
            if wanted.iter().any(|w| same(w, &issuer, r, g.kind)) {
                continue;
            }
            ops.push(match g.kind {
                Kind::Soft => Op::Unfund {
                    holder: holder.clone(),
                    issuer,
                    resource: r,
                    amount: None,
                },
                Kind::Hard => Op::Unreserve {
                    holder: holder.clone(),
                    issuer,
                    resource: r,
                },
            });
        }
    }
    for w in wanted {
        let held = (l.find(&w.issuer)).and_then(|i| l.held(cid, i, w.resource, w.kind));
        // What its holder gave up counts still, and goes first: it is not what the policy takes.
        let lapsed = match w.issuer.as_str() {
            "base" => l.lapsed(name, w.resource),
            _ => 0,
        };
        match (held, w.kind) {
            // What an administrator gave instead stays.
            (Some(g), _) if g.by != POLICY || g.amount == w.amount => {}
            (held, Kind::Soft) => {
                ops.extend(soft(&holder, w, held.map_or(0, |g| g.amount), lapsed));
            }
            (_, Kind::Hard) => ops.push(Op::Reserve {
                holder: holder.clone(),
                issuer: w.issuer.clone(),
                resource: w.resource,
                amount: match w.bytes {
                    true => Hard::Bytes(w.amount),
                    false => Hard::Milli(w.amount),
                },
            }),
        }
    }
    ops
}

/// From so many soft tickets to as many as are wanted; of its name so many have lapsed.
fn soft(holder: &str, w: &Grant, has: u64, lapsed: u64) -> Option<Op> {
    let (holder, issuer, resource) = (holder.to_owned(), w.issuer.clone(), w.resource);
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let n = w.amount.abs_diff(has);
    match w.amount.cmp(&has) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(Op::Fund {
            holder,
            issuer,
            resource,
            amount: number(n),
        }),
        std::cmp::Ordering::Less => Some(Op::Unfund {
            holder,
            issuer,
            resource,
            amount: Some(number(n + lapsed)),
        }),
    }
}

/// What an earlier policy bound and this one does not goes back to its parent's weight; what it
/// made and nothing uses goes.
async fn retire(
    keeper: &Keeper,
    policy: &Arc<Policy>,
    later: &mut Later,
) -> Result<(), crate::writer::Failure> {
    let bound = keeper.handle.call(|core| {
        let all = core.ledger.bindings().filter(|(_, b)| b.by == POLICY);
        all.map(|(p, b)| (p.to_owned(), core.ledger.name(b.name)))
            .collect::<Vec<_>>()
    });
    for (path, name) in bound.await? {
        let there = path.clone();
        // What waits for its cgroup is decided upon when that comes.
        let there = keeper
            .handle
            .call(move |core| core.ledger.find(&there).is_some());
        if !there.await? {
            continue;
        }
        // What was decided before stands until it is known to be otherwise.
        let Ok(decided) = decision(keeper, policy, &path).await else {
            later.insert(path);
            continue;
        };
        if decided.is_some_and(|d| d.currency == name) {
            continue;
        }
        let op = Op::Unbind {
            name,
            path: Some(path.clone()),
        };
        let done = keeper
            .handle
            .act(move |core| core.submit(&[op], &Caller::POLICY));
        done.await??;
        decide(keeper, policy, path, later).await;
    }
    let declared: Vec<String> = (policy.declared().iter()).map(|d| d.name.clone()).collect();
    let unused = keeper.handle.act(move |core| {
        let its = core.ledger.iter().filter(|(_, c)| {
            let used = c.bindings().next().is_some() || declared.contains(&c.name);
            c.by == POLICY && !used
        });
        let mut names: Vec<String> = its.map(|(_, c)| c.name.clone()).collect();
        names.sort();
        for name in names {
            if let Err(e) = core.submit(&[Op::Destroy { name }], &Caller::POLICY) {
                tracing::warn!("policy: {e}");
            }
        }
    });
    unused.await
}
