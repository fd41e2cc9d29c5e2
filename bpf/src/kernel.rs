// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel's sched_ext can do, as its own description of its types (BTF) says.

use crate::Error;
use libbpf_rs::btf::types::{Enum64, Struct};
use libbpf_rs::btf::{Btf, ReferencesType};
use std::sync::OnceLock;

/// What this kernel does not tell a scheduler, so that tix's cannot hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// `cpu.max` (before 6.17).
    CpuMax,
    /// `cpu.idle` (before 6.19).
    CpuIdle,
    /// Which threads it takes for a CPU (before 7.1): where there are several, nice levels in a
    /// cgroup are not exact.
    Nice,
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

/// Whether the kernel is locked down so far that programs may not read its memory. A kernel without
/// lockdown has no such file, nor has one whose security file system is not mounted.
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
    [
        (Lack::CpuMax, has("cgroup_set_bandwidth")),
        (Lack::CpuIdle, has("cgroup_set_idle")),
        (Lack::Nice, told),
    ]
    .into_iter()
    .filter_map(|(lack, has)| (!has).then_some(lack))
    .collect()
}

pub(crate) fn load_error(err: libbpf_rs::Error) -> Error {
    let reason = format!("{err:#}");
    let hint = match err.kind() {
        _ if too_old() => ": this kernel is too old, boot one from 6.16 on",
        libbpf_rs::ErrorKind::PermissionDenied => ": tixd needs CAP_BPF and CAP_PERFMON",
        _ if Btf::from_vmlinux().is_ok_and(|btf| btf_lies(&btf)) => {
            ": this kernel's BTF describes the scx_bpf_* functions wrongly (built with a broken \
             pahole); boot another build of it"
        }
        _ => "",
    };
    Error::Load { reason, hint }
}

/// Before 6.16 nobody has tried whether the kernel takes the program.
fn too_old() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    matches!((number(), number()), (Some(major), Some(minor)) if (major, minor) < (6, 16))
}

/// Whether the kernel's own BTF is readable but wrong about sched_ext: it lacks the functions, or
/// gives them the implicit parameter `aux`, which only their `_impl` forms have and no program
/// passes (pahole 1.30; `tixctl doctor` names them all).
fn btf_lies(btf: &Btf<'_>) -> bool {
    use libbpf_rs::btf::types::{Func, FuncProto};
    let implicit = |f: &Func<'_>| {
        let name = f.name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with("scx_bpf_")
            && !name.ends_with("_impl")
            && FuncProto::try_from(f.referenced_type())
                .ok()
                .and_then(|p| p.iter().last()?.name.map(|n| n == "aux"))
                .unwrap_or(false)
    };
    btf.type_by_name::<Func<'_>>("scx_bpf_create_dsq").is_none()
        || btf.type_by_kind::<Func<'_>>().any(|f| implicit(&f))
}
