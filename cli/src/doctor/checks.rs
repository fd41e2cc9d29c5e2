// SPDX-License-Identifier: GPL-2.0-only
//! What doctor looks at, in the order in which one would repair it.

use super::btf;
use super::finding::{Finding, Level};
use crate::{host, kernel};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The host, as files below a folder: `/`, except in tests.
pub struct Host {
    pub root: PathBuf,
    pub release: String,
    pub uid: u32,
    pub socket: PathBuf,
}

impl Host {
    pub fn this(root: &Path) -> Host {
        let name = rustix::system::uname();
        Host {
            root: root.to_owned(),
            release: name.release().to_string_lossy().into_owned(),
            uid: rustix::process::geteuid().as_raw(),
            socket: tix_client::socket(),
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }
}

/// Everything there is to say about the host.
pub fn all(host: &Host) -> Vec<Finding> {
    let mut findings = vec![sched_ext(host)];
    if findings[0].level == Level::Ok {
        findings.push(scheduler(host));
        findings.push(types(host));
    }
    findings.extend([bpf(host), bpffs(host)]);
    findings.extend(cgroups(host));
    findings.extend(compaction(host));
    findings.extend([systemd(host), privileges(host), tixd(host)]);
    findings
}

fn ok(check: &'static str, message: impl Into<String>) -> Finding {
    finding(check, Level::Ok, message, "")
}

fn warning(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
    finding(check, Level::Warning, message, hint)
}

fn missing(check: &'static str, message: impl Into<String>, hint: impl Into<String>) -> Finding {
    finding(check, Level::Missing, message, hint)
}

fn finding(
    check: &'static str,
    level: Level,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Finding {
    Finding {
        check,
        level,
        message: message.into(),
        hint: hint.into(),
    }
}

/// Can this kernel be given a scheduler at all?
fn sched_ext(host: &Host) -> Finding {
    const CHECK: &str = "sched_ext";
    let release = &host.release;
    if host.root.join("sys/kernel/sched_ext").is_dir() {
        return ok(
            CHECK,
            format!("the kernel ({release}) can be given a scheduler"),
        );
    }
    let config = host.read(&format!("boot/config-{release}"));
    let built = match config
        .as_deref()
        .map(|text| text.lines().any(|line| line == "CONFIG_SCHED_CLASS_EXT=y"))
    {
        Some(true) => " although its config has CONFIG_SCHED_CLASS_EXT",
        Some(false) => ": it was built without CONFIG_SCHED_CLASS_EXT",
        None => "",
    };
    missing(
        CHECK,
        format!("the kernel ({release}) has no sched_ext{built}"),
        "boot a kernel from 6.16 on whose config has CONFIG_SCHED_CLASS_EXT=y; Debian 13's own \
         6.12 lacks it, the newer ones of backports and sid have it",
    )
}

/// Whose scheduler is loaded?
fn scheduler(host: &Host) -> Finding {
    const CHECK: &str = "scheduler";
    let found = kernel::sched_ext(&host.root);
    match found.other() {
        _ if found.in_force => ok(CHECK, found.sentence()),
        Some(ops) => missing(
            CHECK,
            match found.partial {
                true => format!(
                    "{}, for threads that ask for it (SCHED_EXT) alone",
                    found.sentence()
                ),
                false => format!(
                    "{}; cpu.weight and cpu.max count only if that heeds them",
                    found.sentence()
                ),
            },
            format!(
                "only one can be loaded: end the program that loaded {ops} (a service called scx \
                 or scx_loader?); a tixd that runs loads its own then"
            ),
        ),
        None => warning(CHECK, found.sentence(), "start tixd: systemctl start tixd"),
    }
}

/// Can programs be checked against this kernel's types?
fn types(host: &Host) -> Finding {
    const CHECK: &str = "btf";
    let path = host.root.join("sys/kernel/btf/vmlinux");
    match fs::read(&path) {
        Err(err) => missing(
            CHECK,
            format!("the kernel does not describe its types: /sys/kernel/btf/vmlinux: {err}"),
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        ),
        Ok(bytes) => {
            let message = match btf::sched_ext(&bytes) {
                btf::Verdict::Sound(lacking) if !lacking.is_empty() => {
                    return warning(
                        CHECK,
                        format!(
                            "this kernel does not tell a scheduler of all, so that tix's does not \
                             hold {}",
                            lacking.join(", ")
                        ),
                        "all else holds; boot a later kernel",
                    );
                }
                btf::Verdict::Sound(_) => {
                    return ok(
                        CHECK,
                        "the kernel describes its types, sched_ext's functions included",
                    );
                }
                btf::Verdict::Unknown => {
                    "the kernel's description of its types (BTF) does not know sched_ext's \
                     functions"
                        .into()
                }
                btf::Verdict::Wrong(names) => format!(
                    "the kernel's description of its types (BTF) is wrong about {} of sched_ext's \
                     functions, such as {}",
                    names.len(),
                    names[0]
                ),
            };
            missing(
                CHECK,
                message,
                "no scheduler can be loaded into this kernel, because it was built with a broken \
                 pahole (1.30): boot another build (of Debian's, those from sid made with pahole \
                 1.32 are sound)",
            )
        }
    }
}

/// May BPF programs be loaded, and do they run fast?
fn bpf(host: &Host) -> Finding {
    const CHECK: &str = "bpf";
    let lockdown = host
        .read("sys/kernel/security/lockdown")
        .unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return missing(
            CHECK,
            "the kernel is locked down for confidentiality, so BPF programs may not read its \
             memory",
            "boot with lockdown=integrity, or without lockdown=",
        );
    }
    match host
        .read("proc/sys/net/core/bpf_jit_enable")
        .as_deref()
        .map(str::trim)
    {
        Some("0") => warning(
            CHECK,
            "BPF programs are interpreted, not compiled: the scheduler would be slow",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        _ => ok(
            CHECK,
            "BPF programs may be loaded; no compiler is needed for that, tixd brings its \
             scheduler compiled",
        ),
    }
}

/// Where the scheduler is pinned, so that it outlives tixd.
fn bpffs(host: &Host) -> Finding {
    const CHECK: &str = "bpffs";
    let point = Path::new("/sys/fs/bpf");
    match host::mounts(&host.root)
        .iter()
        .any(|mount| mount.kind == "bpf" && mount.point == point)
    {
        true => ok(CHECK, "the BPF file system is at /sys/fs/bpf"),
        false => missing(
            CHECK,
            "the BPF file system is not mounted at /sys/fs/bpf, where tixd pins its scheduler",
            "mount -t bpf bpf /sys/fs/bpf",
        ),
    }
}

/// Is there one cgroup tree, and does it have what shares need?
fn cgroups(host: &Host) -> Vec<Finding> {
    const CHECK: &str = "cgroups";
    let mounts = host::mounts(&host.root);
    let Some(mount) = mounts.iter().find(|mount| mount.kind == "cgroup2") else {
        return vec![missing(
            CHECK,
            "cgroup v2 is not mounted",
            "boot with systemd.unified_cgroup_hierarchy=1, or, without systemd: mount -t cgroup2 \
             cgroup2 /sys/fs/cgroup",
        )];
    };
    let point = mount.point.display();
    let directory = host
        .root
        .join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
    let mut findings = Vec::new();
    let v1 = mounts.iter().filter(|mount| {
        mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "cpu")
    });
    match v1.map(|mount| mount.point.display().to_string()).next() {
        Some(v1) => findings.push(missing(
            CHECK,
            format!(
                "the cpu controller is in cgroup v1 ({v1}), and cgroup v2 ({point}) is only \
                 beside it"
            ),
            "boot with systemd.unified_cgroup_hierarchy=1 (and without \
             systemd.legacy_systemd_cgroup_controller); without systemd: unmount the v1 \
             hierarchies",
        )),
        None => findings.push(ok(CHECK, format!("cgroup v2 is at {point}"))),
    }
    let there = host::words(&directory.join("cgroup.controllers"));
    let enabled = host::words(&directory.join("cgroup.subtree_control"));
    let has = |list: &[String], name: &str| list.iter().any(|word| word == name);
    let own_root = host::own_cgroup(&host.root);
    findings.push(if !has(&there, "cpu") {
        missing(
            "controllers",
            format!("there is no cpu controller in {point}/cgroup.controllers"),
            "does the kernel's command line have cgroup_disable=cpu, or a v1 hierarchy hold it? \
             In a container only the host can give it",
        )
    } else if !has(&enabled, "cpu") {
        warning(
            "controllers",
            format!(
                "the cpu controller is not enabled below {point}, so there are no currencies but \
                 base yet"
            ),
            format!(
                "tixd enables it when it starts; by hand: echo +cpu > \
                 {point}/cgroup.subtree_control"
            ),
        )
    } else {
        ok(
            "controllers",
            format!("the cpu controller is enabled in {point}"),
        )
    });
    if own_root
        .as_deref()
        .is_some_and(|path| path.starts_with("/.."))
    {
        findings.push(warning(
            CHECK,
            "this process is outside the cgroup tree that it sees",
            "run tixctl in the same cgroup namespace as tixd",
        ));
    }
    findings
}

/// From so much of the last five minutes on, in per cent, that somebody waits for memory, it is
/// short.
const PRESSED: f64 = 1.0;

/// Does the kernel move pages about that others need? Nothing to say where it does not compact
/// memory.
fn compaction(host: &Host) -> Option<Finding> {
    const CHECK: &str = "compaction";
    let said = host.read("proc/sys/vm/compaction_proactiveness")?;
    let ahead = said.trim();
    if ahead == "0" {
        return Some(ok(CHECK, "memory is compacted on demand alone"));
    }
    let setting = format!("vm.compaction_proactiveness is {ahead}");
    Some(match pressure(host) {
        Some(percent) if percent >= PRESSED => warning(
            CHECK,
            format!(
                "somebody waited for memory during {percent} % of the last five minutes, and the \
                 kernel compacts it ahead of need ({setting}): who touches a page that is being \
                 moved waits for that, too, and it may be a login"
            ),
            "where huge pages matter less: tixd --compact-on-demand, or sysctl \
             vm.compaction_proactiveness=0",
        ),
        _ => ok(
            CHECK,
            format!("memory is compacted ahead of need ({setting}), and nobody waits for any"),
        ),
    })
}

/// For which part of the last five minutes somebody waited for memory, in per cent.
fn pressure(host: &Host) -> Option<f64> {
    let said = host.read("proc/pressure/memory")?;
    let some = said.lines().find_map(|l| l.strip_prefix("some "))?;
    let average = some
        .split(' ')
        .find_map(|word| word.strip_prefix("avg300="))?;
    average.parse().ok()
}

/// Who makes the cgroups that `tixctl run` needs?
fn systemd(host: &Host) -> Finding {
    const CHECK: &str = "systemd";
    if !host::systemd(&host.root) {
        return ok(
            CHECK,
            "no systemd: `tixctl run` makes cgroups below the caller's own",
        );
    }
    if host.uid == 0 {
        return ok(
            CHECK,
            "systemd runs this host: `tixctl run` asks it for a scope",
        );
    }
    let runtime = format!("run/user/{}", host.uid);
    let yours = ["bus", "systemd/private"]
        .iter()
        .any(|file| host.root.join(&runtime).join(file).exists());
    match yours {
        true => ok(
            CHECK,
            "your own systemd is there: `tixctl run` asks it for a scope",
        ),
        false => warning(
            CHECK,
            format!(
                "no systemd of your own runs (nothing at /{runtime}), so `tixctl run` cannot ask \
                 it for a scope"
            ),
            "log in properly instead of through su, install dbus-user-session, or have root run \
             `loginctl enable-linger` for you",
        ),
    }
}

fn tixd(host: &Host) -> Finding {
    const CHECK: &str = "tixd";
    let socket = host.socket.display();
    match UnixStream::connect(&host.socket) {
        Ok(_) => ok(CHECK, format!("tixd listens at {socket}")),
        Err(err) => warning(
            CHECK,
            format!("tixd cannot be reached at {socket}: {err}"),
            "start it with `systemctl start tixd`, or as root with `tixd &` where there is no \
             systemd",
        ),
    }
}

/// What the caller may do.
fn privileges(host: &Host) -> Finding {
    const CHECK: &str = "privileges";
    match host.uid {
        0 => {
            const NEEDED: [(u32, &str); 2] = [(39, "CAP_BPF"), (38, "CAP_PERFMON")];
            let lacking: Vec<&str> = match capabilities(host) {
                Some(set) => NEEDED
                    .iter()
                    .filter(|(bit, _)| set & (1 << bit) == 0)
                    .map(|(_, name)| *name)
                    .collect(),
                None => Vec::new(),
            };
            match lacking.as_slice() {
                [] => ok(
                    CHECK,
                    "you are root: you can start tixd, and may do everything",
                ),
                lacking => warning(
                    CHECK,
                    format!(
                        "you are root without {}: a tixd that you start cannot load its scheduler",
                        lacking.join(", ")
                    ),
                    "start tixd outside this container, or give the container these capabilities",
                ),
            }
        }
        uid => ok(
            CHECK,
            format!(
                "you are user {uid}: you can run commands and fund what you like out of \
                 currencies that are yours"
            ),
        ),
    }
}

/// The effective capabilities of this process.
fn capabilities(host: &Host) -> Option<u64> {
    let status = host.read("proc/self/status")?;
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
