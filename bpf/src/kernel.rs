// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel's sched_ext can do, as its own description of its types (BTF) says.

use crate::Error;
use crate::load::load_error;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Enum64, Struct, Typedef};
use std::sync::OnceLock;

/// What this kernel does not tell a scheduler, so that tix's cannot hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// `cpu.max` (before 6.17).
    CpuMax,
    /// `cpu.idle` (before 6.19).
    CpuIdle,
    /// Which threads it takes for a CPU (before 7.1): where there are several, nice levels in a cgroup are not exact.
    Nice,
    /// Who moves pages (built without that, or without tracepoints of it): others wait longer for those that are locked meanwhile.
    Moves,
    /// Who looks for a page of a file (older ones, or built so): who waits for one that a crowd waits for has to wait for the crowd.
    Faults,
}

/// What is lacking, looked up once.
///
/// # Errors
/// When the kernel does not describe its types.
pub fn lacks() -> Result<&'static [Lack], Error> {
    static FOUND: OnceLock<Vec<Lack>> = OnceLock::new();
    match FOUND.get() {
        Some(found) => Ok(found),
        None => {
            let kernel = Btf::from_vmlinux().map_err(load_error)?;
            Ok(FOUND.get_or_init(|| lacking(&kernel)))
        }
    }
}

/// Whether the kernel is locked down so far that programs may not read its memory. A kernel without lockdown has no such file, nor has
/// one whose security file system is not mounted.
pub(crate) fn is_confidential() -> bool {
    let state = std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    state.contains("[confidentiality]")
}

/// Which of the capabilities that loading takes this process has not.
pub(crate) fn not_capable() -> Option<String> {
    const SYS_ADMIN: u32 = 21;
    const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let set = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    let set = u64::from_str_radix(set.trim(), 16).ok()?;
    // It includes both.
    let has = |bit: u32| set & (1 << bit | 1 << SYS_ADMIN) != 0;
    let lacking = NEEDED.iter().filter(|(bit, _)| !has(*bit));
    let names: Vec<&str> = lacking.map(|(_, name)| *name).collect();
    (!names.is_empty()).then(|| names.join(" and "))
}

fn lacking(kernel: &Btf<'_>) -> Vec<Lack> {
    let ops = kernel.type_by_name::<Struct<'_>>("sched_ext_ops");
    let has = |name| (ops.iter()).any(|ops| ops.iter().any(|m| m.name.is_some_and(|n| n == name)));
    let flags = kernel.type_by_name::<Enum64<'_>>("scx_deq_flags");
    let told = (flags.iter()).any(|all| {
        let mut names = all.iter().filter_map(|one| one.name);
        names.any(|name| name == "SCX_DEQ_SCHED_CHANGE")
    });
    let tells = |tracepoint| kernel.type_by_name::<Typedef<'_>>(tracepoint).is_some();
    [
        (Lack::CpuMax, has("cgroup_set_bandwidth")),
        (Lack::CpuIdle, has("cgroup_set_idle")),
        (Lack::Nice, told),
        (
            Lack::Moves,
            tells("btf_trace_mm_migrate_pages_start") && tells("btf_trace_mm_migrate_pages"),
        ),
        (Lack::Faults, tells("btf_trace_mm_filemap_fault")),
    ]
    .into_iter()
    .filter_map(|(lack, has)| (!has).then_some(lack))
    .collect()
}
