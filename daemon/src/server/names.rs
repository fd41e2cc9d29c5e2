// SPDX-License-Identifier: GPL-2.0-only
//! From what a caller wrote to a currency: a name, a cgroup path, or a systemd unit. And cgroups
//! that have no currency yet, because the cpu controller is not enabled for them.

use super::decides;
use super::errors;
use super::peer::Process;
use crate::policy::in_slices;
use crate::writer::{Core, Handle};
use std::time::Duration;
use tix_api::{Error, shell};
use tix_cgroupfs as cgroups;
use tix_ledger::{BASE, Caller, Ledger, Ref, Refusal, Resource, Right};
use tix_systemd as systemd;

/// How long a cgroup may take from its creation to its currency.
const SOON: Duration = Duration::from_secs(2);

pub fn looks_like_unit(name: &str) -> bool {
    [".service", ".slice", ".scope", ".socket", ".mount"]
        .iter()
        .any(|s| name.ends_with(s))
        && !name.contains('/')
}

fn tidy(path: &str) -> String {
    let path = path
        .strip_prefix("/sys/fs/cgroup")
        .filter(|p| p.is_empty() || p.starts_with('/'))
        .unwrap_or(path);
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    format!("/{}", parts.join("/"))
}

/// Is the cgroup `path` that of a unit of the system's manager, or of the own manager of `uid`?
/// Elsewhere whoever a cgroup is delegated to chooses the names: what bob or a container calls
/// `nginx.service` is not what others mean by it.
fn is_unit_for(path: &str, uid: u32) -> bool {
    let own = format!("/user.slice/user-{uid}.slice/user@{uid}.service");
    in_slices(path) || path.strip_prefix(&own).is_some_and(in_slices)
}

/// The ledger's name of what `uid` called `name`, if the ledger knows it.
pub fn known(ledger: &Ledger, name: &str, uid: u32) -> Option<Ref> {
    if name.starts_with('/') {
        let path = tidy(name);
        return ledger
            .find(&path)
            .map(|c| if c == 0 { "base".to_owned() } else { path });
    }
    if let Some(full) = ledger.meant(name, uid) {
        return Some(full);
    }
    if !looks_like_unit(name) {
        return None;
    }
    let tail = format!("/{name}");
    ledger
        .iter()
        .filter_map(|(_, c)| c.mirror.as_ref())
        .map(|m| m.path.as_str())
        .filter(|p| p.ends_with(&tail) && is_unit_for(p, uid))
        .min_by_key(|p| (p.contains("/user@"), p.matches('/').count(), p.len()))
        .map(str::to_owned)
}

/// The same, or as the ledger called it when it was there.
pub fn known_or_gone(ledger: &Ledger, name: &str, uid: u32) -> Ref {
    known(ledger, name, uid).unwrap_or_else(|| ledger.meant_or_gone(name, uid))
}

/// The same for an operation, which is refused if there is no such currency.
pub fn named(ledger: &Ledger, name: &str, uid: u32) -> Result<Ref, Refusal> {
    known(ledger, name, uid).ok_or_else(|| missing(name))
}

/// The same for what is destroyed, which must have one meaning: a user who leaves out what is
/// before the `/` means a currency of the user's own, and none that others made under that name.
pub fn doomed(ledger: &Ledger, name: &str, caller: &Caller) -> Result<Ref, Refusal> {
    let found = named(ledger, name, caller.uid)?;
    let plain = ledger.find(name).filter(|_| !name.contains('/'));
    let Some(plain) = plain.filter(|c| *c != BASE && !caller.is_root()) else {
        return Ok(found);
    };
    let own = (found != name).then_some(&found);
    if own.is_none() && !ledger.allows(caller, plain, Right::Change) {
        // What keeps it from being destroyed is that it is others'.
        return Ok(found);
    }
    let plain = format!("root/{name}");
    Err(Refusal::Ambiguous {
        name: name.to_owned(),
        meant: own.cloned().into_iter().chain([plain]).collect(),
    })
}

/// As [`named`]; or the name of one that is gone, whose base tickets count still.
pub fn lapsed_or_named(ledger: &Ledger, name: &str, uid: u32) -> Result<Ref, Refusal> {
    let gone = || Some(ledger.meant_or_gone(name, uid));
    let has_lapsed = |name: &String| Resource::ALL.iter().any(|r| ledger.lapsed(name, *r) > 0);
    known(ledger, name, uid)
        .or_else(|| gone().filter(has_lapsed))
        .ok_or_else(|| missing(name))
}

/// The currency called `name`, waiting a little for a cgroup that has just been made.
pub async fn currency(handle: &Handle, name: &str, uid: u32) -> Result<Ref, Error> {
    let mut appear = handle.appear();
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let wanted = name.to_owned();
        let (found, exists) = handle
            .call(move |core| {
                let found = known(&core.ledger, &wanted, uid);
                let exists = found.is_none()
                    && wanted.starts_with('/')
                    && core
                        .tree
                        .root
                        .cgroup(&tidy(&wanted))
                        .and_then(|c| c.weight())
                        .is_ok_and(|w| w.is_some());
                (found, exists)
            })
            .await
            .map_err(errors::internal)?;
        if let Some(found) = found {
            return Ok(found);
        }
        // Only what is there in the tree will come into the ledger.
        if !exists
            || tokio::time::timeout_at(deadline, appear.recv())
                .await
                .is_err()
        {
            return Err(unknown(name));
        }
    }
}

fn missing(name: &str) -> Refusal {
    match name.starts_with('/') || looks_like_unit(name) {
        true => Refusal::NoSuchCgroup(name.to_owned()),
        false => Refusal::NoSuchCurrency(name.to_owned()),
    }
}

fn unknown(name: &str) -> Error {
    errors::refusal(&missing(name))
}

/// The cgroup `target` (a path or a unit) for binding: with the cpu controller enabled for it if it
/// was not, as far as `uid` may.
pub async fn cgroup(handle: &Handle, target: &str, uid: u32) -> Result<Ref, Error> {
    if !target.starts_with('/') && !looks_like_unit(target) {
        return Err(errors::refusal(&Refusal::NoSuchCgroup(target.to_owned())));
    }
    if let Ok(found) = currency(handle, target, uid).await {
        return Ok(found);
    }
    let systemd = systemd::is_running();
    let path = if target.starts_with('/') {
        tidy(target)
    } else if systemd {
        match systemd::cgroup_of(target).await {
            Ok(Some(path)) => tidy(&path),
            Ok(None) => return Err(unknown(target)),
            Err(e) => {
                return Err(Error::Internal {
                    message: e.to_string(),
                    hint: "is D-Bus running?".into(),
                });
            }
        }
    } else {
        return Err(unknown(target));
    };
    let unit = path
        .rsplit('/')
        .next()
        .filter(|u| looks_like_unit(u))
        .map(str::to_owned);
    let here = path.clone();
    let (owner, may_enable) = handle
        .call(move |core| {
            let owner = core.tree.root.cgroup(&here).map(|c| c.owner)?;
            let may_enable = core.tree.root.cpu_is_off_in(&here).map_or(Ok(()), |off| {
                let what = format!("enable the cpu controller for {here:?}");
                let file = core
                    .tree
                    .root
                    .path()
                    .join(&off[1..])
                    .join("cgroup.subtree_control");
                let file = shell::word(&file.to_string_lossy());
                let instead = format!("; or root enables it: `echo +cpu > {file}`");
                decides::may_write(core, &what, &instead)
            });
            Ok((owner, may_enable))
        })
        .await
        .map_err(errors::internal)?
        .map_err(|_: cgroups::Error| unknown(target))?;
    if uid != 0 && uid != owner {
        return Err(Error::NotPermitted {
            message: format!(
                "uid {uid} may not bind {path:?}: its directory belongs to uid {owner}"
            ),
            hint: format!(
                "root can: `tixctl bind NAME {}`; yours are the cgroups that systemd delegates to \
                 you, such as one of `systemd-run --user --scope`",
                shell::word(&path)
            ),
        });
    }
    may_enable?;
    match unit.filter(|_| systemd && uid == 0 && !path.contains("/user@")) {
        Some(unit) => systemd::enable_cpu(&unit)
            .await
            .map_err(|e| Error::Internal {
                message: e.to_string(),
                hint: "is the unit running?".into(),
            })?,
        None => {
            let below = path.clone();
            handle
                .call(move |core| enable_down_to(core, &below, uid))
                .await
                .map_err(errors::internal)??;
        }
    }
    appeared(handle, &path, uid).await
}

async fn appeared(handle: &Handle, path: &str, uid: u32) -> Result<Ref, Error> {
    let mut appear = handle.appear();
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        let wanted = path.to_owned();
        if let Some(found) = handle
            .call(move |core| known(&core.ledger, &wanted, uid))
            .await
            .map_err(errors::internal)?
        {
            return Ok(found);
        }
        if tokio::time::timeout_at(deadline, appear.recv())
            .await
            .is_err()
        {
            return Err(unknown(path));
        }
    }
}

/// Enables the cpu controller in every cgroup above `path` where `uid` could do so.
fn enable_down_to(core: &Core, path: &str, uid: u32) -> Result<(), Error> {
    let ends = std::iter::once(0).chain(path.match_indices('/').map(|(i, _)| i).skip(1));
    for end in ends {
        let parent = if end == 0 { "/" } else { &path[..end] };
        let say = |e: &dyn std::fmt::Display| Error::NoSuchCgroup {
            message: format!("cannot enable the cpu controller for {path:?}: {e}"),
            hint: "a cgroup that has processes of its own cannot have children with controllers: \
                   move them down first"
                .into(),
        };
        let dir = core.tree.root.cgroup(parent).map_err(|e| say(&e))?;
        if dir.gives_cpu().map_err(|e| say(&e))? {
            continue;
        }
        if uid != 0 && dir.owner != uid {
            return Err(Error::NotPermitted {
                message: format!(
                    "the cpu controller is off below {parent:?}, which belongs to uid {}",
                    dir.owner
                ),
                hint: format!(
                    "root can: `echo +cpu > {}`; under systemd: Delegate=cpu of its unit",
                    shell::word(&dir.path().join("cgroup.subtree_control").to_string_lossy())
                ),
            });
        }
        // The kernel would make it a threaded domain, in which nobody can use other cgroups. (The
        // root of all has no type, and may.)
        let kind = dir.read("cgroup.type").unwrap_or_default();
        if kind.trim() == "domain" && !dir.read("cgroup.procs").map_err(|e| say(&e))?.is_empty() {
            return Err(say(&format!("{parent:?} has processes of its own")));
        }
        dir.write("cgroup.subtree_control", "+cpu")
            .map_err(|e| say(&e))?;
    }
    Ok(())
}

/// The caller's user currency: the slice of the user's logins; without systemd, the nearest cgroup
/// that the caller is in and owns, from the caller's own upwards. Root without either has base.
pub fn user_currency(core: &Core, uid: u32, process: &Process) -> Option<Ref> {
    let slice = format!("/user.slice/user-{uid}.slice");
    if core.ledger.find(&slice).is_some() {
        return Some(slice);
    }
    nearest(&process.cgroup().unwrap_or_default(), |path| {
        core.ledger
            .find(path)
            .and_then(|c| core.ledger.get(c))
            .is_some_and(|c| c.owner == uid)
    })
    .or_else(|| (uid == 0).then(|| "base".to_owned()))
}

/// The first of `path` and the cgroups above it, the root excepted, that is `good`.
fn nearest(path: &str, good: impl Fn(&str) -> bool) -> Option<Ref> {
    std::iter::successors(Some(path), |p| p.rfind('/').map(|end| &p[..end]))
        .filter(|p| p.len() > 1)
        .find(|p| good(p))
        .map(str::to_owned)
}

/// What a ticket amounts to, and whether that is bytes.
pub fn held(
    l: &Ledger,
    holder: &str,
    issuer: &str,
    r: tix_api::Resource,
    kind: tix_ledger::Kind,
) -> (u64, bool) {
    let ends = l.find(holder).zip(l.find(issuer));
    ends.and_then(|(h, i)| l.held(h, i, tix_model::Resource::from(r), kind))
        .map_or((0, false), |g| (g.amount, g.bytes))
}

/// The currency that funds the cgroup `path`.
pub fn bound_to(l: &Ledger, path: &str) -> String {
    let cgroup = l.find(path).and_then(|c| l.get(c));
    cgroup
        .and_then(|c| c.bound_to)
        .map(|c| l.name(c))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_systems_or_ones_own() {
        let alices = "/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service";
        for (path, root, alice, bob) in [
            ("/system.slice/nginx.service", true, true, true),
            ("/user.slice/user-1000.slice", true, true, true),
            ("/init.scope", true, true, true),
            (
                "/user.slice/user-1000.slice/user@1000.service",
                true,
                true,
                true,
            ),
            (alices, false, true, false),
            (
                "/system.slice/box.service/nginx.service",
                false,
                false,
                false,
            ),
            (
                "/machine.slice/box.scope/system.slice/nginx.service",
                false,
                false,
                false,
            ),
            ("/nginx/nginx.service", false, false, false),
            (
                "/user.slice/user-1000.slice/user@1000.service/box.service\
                 /user.slice/user-0.slice/user@0.service/nginx.service",
                false,
                false,
                false,
            ),
        ] {
            let of = [0, 1000, 1001].map(|uid| is_unit_for(path, uid));
            assert_eq!(of, [root, alice, bob], "{path}");
        }
    }

    #[test]
    fn the_nearest_is_looked_for_upwards() {
        let from = |path: &str, known: &[&str]| nearest(path, |p| known.contains(&p));
        assert_eq!(from("/a/b/c", &["/a", "/a/b"]), Some("/a/b".into()));
        assert_eq!(from("/a/b/c", &["/a/b/c"]), Some("/a/b/c".into()));
        assert_eq!(from("/a/bc", &["/a/b"]), None);
        assert_eq!(from("/", &["/", ""]), None);
        assert_eq!(from("", &["", "/"]), None);
    }
}
