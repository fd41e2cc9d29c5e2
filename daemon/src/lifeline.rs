// SPDX-License-Identifier: GPL-2.0-only
//! A small share of their own for what an administrator needs when users take everything: PID 1,
//! logins and tixd itself.
//!
//! Where systemd runs, these are cgroups below `/` and `/system.slice`; the currency `lifeline` is
//! bound to them, and the ledger keeps its share in every step (`daemon/ledger/src/lifeline.rs`).
//! They are principals like any other (model.md §2): while they sleep their tickets count for
//! nothing, so users' shares are not touched. Without systemd they live in the root cgroup, whose
//! hidden leaf has 100 of base's tickets: nobody can take them, but what root issues beside them
//! makes them worth less.

use crate::writer::{Core, Failure, Handle};
use std::time::Duration;
use tix_ledger::{Caller, DEFAULT_MODE, Op};
use tix_model::LIFELINE;
use tix_systemd as systemd;
use tokio::sync::broadcast;

const UNITS: [&str; 5] = [
    "init.scope",
    "ssh.service",
    "sshd.service",
    "systemd-logind.service",
    "dbus.service",
];

/// Keeps it as it should be, for ever.
pub async fn keep(handle: Handle) {
    if !systemd::is_running() {
        return;
    }
    let mut appear = handle.appear();
    let mut clock = tokio::time::interval(Duration::from_secs(10));
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        if let Err(e) = arrange(&handle).await {
            tracing::warn!("lifeline: {e}");
        }
        // At once for one that appears, and now and then: its CPU controller may have come later.
        tokio::select! {
            _ = clock.tick() => {}
            () = appears(&mut appear) => {}
        }
    }
}

async fn appears(appear: &mut broadcast::Receiver<String>) {
    loop {
        match appear.recv().await {
            Ok(path) if paths().contains(&path) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Lagged(_)) => return,
            // tixd is ending.
            Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// Where systemd has their cgroups, and tixd's own.
fn paths() -> Vec<String> {
    let mut paths: Vec<String> = UNITS.iter().map(|unit| place(unit)).collect();
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|l| l.strip_prefix("0::"));
    paths.extend(
        own.filter(|p| p.starts_with("/system.slice/"))
            .map(str::to_owned),
    );
    paths
}

fn place(unit: &str) -> String {
    match unit.ends_with(".scope") {
        true => format!("/{unit}"),
        false => format!("/system.slice/{unit}"),
    }
}

/// Creates and binds it, as far as that is not done.
async fn arrange(handle: &Handle) -> Result<(), Failure> {
    for unit in UNITS {
        let path = place(unit);
        let lacks_cpu = handle
            .call(move |core| {
                core.ledger.find(&path).is_none()
                    && core
                        .tree
                        .root
                        .cgroup(&path)
                        .is_ok_and(|c| c.weight().is_ok_and(|w| w.is_none()))
            })
            .await?;
        if lacks_cpu && let Err(e) = systemd::enable_cpu(unit).await {
            tracing::warn!("{e}");
        }
    }
    handle.act(move |core| set(core, &paths())).await?
}

/// Has the currency be there, and kept at its part, where it will be needed. Its name is plain, so
/// nobody but root can have made it.
///
/// # Errors
/// It cannot be kept.
pub fn create(core: &mut Core) -> Result<(), Failure> {
    if !systemd::is_running() {
        return Ok(());
    }
    if core.ledger.find(LIFELINE).is_none() {
        let create = Op::Create {
            cid: core.ledger.next_cid(),
            name: LIFELINE.into(),
            owner: 0,
            group: 0,
            mode: DEFAULT_MODE,
        };
        core.submit(&[create], &Caller::ROOT)?;
    }
    // Each time: what raised it may have been taken back with a step that could not be kept.
    if let Some(cid) = core.ledger.find(LIFELINE) {
        core.keep_lifeline(cid, &paths());
    }
    Ok(())
}

fn set(core: &mut Core, paths: &[String]) -> Result<(), Failure> {
    create(core)?;
    for path in paths {
        let free = core
            .ledger
            .find(path)
            .and_then(|c| core.ledger.get(c))
            .is_some_and(|c| c.bound_to.is_none());
        if free
            && let Err(e) = core.submit(
                &[Op::Bind {
                    name: LIFELINE.into(),
                    path: path.clone(),
                }],
                &Caller::ROOT,
            )
        {
            tracing::warn!("lifeline for {path}: {e}");
        }
    }
    Ok(())
}
