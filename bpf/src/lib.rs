// SPDX-License-Identifier: GPL-2.0-only
//! The kernel side of tix: a sched_ext scheduler, and the thinnest loader around it.
//!
//! Once loaded and pinned the scheduler serves the machine without anybody: cgroups are
//! mirrored into the funding graph by the kernel side itself, funded by their parent with
//! `cpu.weight` tickets. What a daemon adds (named currencies, other funders) goes through
//! [`Scheduler::set_funding`], one complete change per call.

#![deny(unsafe_code)]

mod call;
mod control;
mod exit;
mod force;
mod kernel;
mod leads;
mod load;
mod pins;
mod swap;
mod sys;

pub use control::{Edge, Funding, NodeId, NodeState, Stats, Throttle};
pub use exit::{Exit, last_exit};
pub use force::{Force, ejections, has_all, in_force, settled};
pub use kernel::{Lack, lacks};
pub use leads::{LEADS, Lead};
pub use load::{Options, Scheduler, clear, go_back};
pub use swap::{Exchange, can_go_back, forget_old, went_back_from};

use std::path::PathBuf;

/// The currency that stands for the machine.
pub const BASE: NodeId = NodeId::BASE;

/// Version of the pinned state (`TIX_LAYOUT` in intf.h): a scheduler pinned with another one is not
/// adopted.
pub const LAYOUT: u32 = number(env!("TIX_LAYOUT"));

/// Room in the scheduler's tables, for cgroups and named currencies (`TIX_NODES_MAX` in intf.h).
pub const NODES_MAX: u32 = number(env!("TIX_NODES_MAX"));

/// Funders of one currency (`FUND_FUNDERS` in funding.h).
pub const FUNDERS: usize = number(env!("FUND_FUNDERS")) as usize;

/// What the build script found in a header.
const fn number(text: &str) -> u32 {
    match u32::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("no number"),
    }
}

/// This build of the BPF program: another may be in force, and is replaced.
pub const BUILD: &str = env!("TIX_BUILD");

/// What can go wrong between here and the kernel. Every text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "this kernel has no sched_ext (CONFIG_SCHED_CLASS_EXT): boot a kernel from 6.16 on that \
         has it"
    )]
    NoSchedExt,
    #[error(
        "the kernel is locked down for confidentiality, so BPF programs may not read its memory: \
         boot with lockdown=integrity, or without lockdown="
    )]
    LockedDown,
    #[error(
        "tixd may not load BPF programs here, for it lacks {0} (is it in a container?): start it \
         where it has that"
    )]
    NotCapable(String),
    #[error("the sched_ext scheduler {0} is loaded: stop it first, only one can be in force")]
    OtherScheduler(String),
    #[error("the kernel has been {0} a scheduler for too long: see its log (dmesg)")]
    Unsettled(String),
    #[error("the kernel refused the BPF program: {reason}{hint}")]
    Load { reason: String, hint: &'static str },
    #[error("the scheduler could not begin: {reason}")]
    Begin { reason: String },
    #[error("{reason}; the one that was in force before is again")]
    WentBack { reason: String },
    #[error("{path}: {reason}")]
    Pin { path: PathBuf, reason: String },
    #[error(
        "what is pinned at {path} has layout {found}, this build speaks {LAYOUT}: `systemctl \
         restart tixd` puts its own in that one's place"
    )]
    Layout { path: PathBuf, found: String },
    #[error(
        "what is pinned at {0} is not all there, or not in force: `systemctl restart tixd` loads \
         it anew"
    )]
    Torn(PathBuf),
    #[error("it tells that in version {found}, this build speaks {LEADS}")]
    Leads { found: String },
    #[error("it was not kept when the scheduler was taken out")]
    NoLeads,
    #[error("{what}: {source}")]
    Call {
        what: &'static str,
        source: libbpf_rs::Error,
    },
    #[error("{what}: refused by the kernel side ({})", std::io::Error::from_raw_os_error(*errno))]
    Refused { what: &'static str, errno: i32 },
    #[error("a currency can have at most {FUNDERS} funders, not {0}")]
    TooManyFunders(usize),
}
