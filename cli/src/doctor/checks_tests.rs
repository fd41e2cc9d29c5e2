// SPDX-License-Identifier: GPL-2.0-only
//! Doctor's checks on hosts that are folders.

use super::*;
use tempfile::TempDir;

const SOUND: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n\
                     31 23 0:27 / /sys/fs/bpf rw - bpf bpf rw\n";

/// A host that has everything but tixd.
fn sound() -> (TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let host = Host {
        root: folder.path().to_owned(),
        release: "7.2.13".into(),
        uid: 0,
        socket: folder.path().join("no.sock"),
    };
    put(&host, "proc/self/mountinfo", SOUND);
    put(&host, "proc/self/cgroup", "0::/\n");
    put(&host, "proc/self/status", "CapEff:\t000001ffffffffff\n");
    put(&host, "proc/sys/net/core/bpf_jit_enable", "1\n");
    put(&host, "proc/sys/vm/compaction_proactiveness", "0\n");
    put(&host, "sys/kernel/sched_ext/state", "enabled\n");
    put(&host, "sys/kernel/sched_ext/root/ops", "tix\n");
    put(
        &host,
        "sys/kernel/btf/vmlinux",
        btf::tests::btf("node", "cgroup_set_bandwidth"),
    );
    put(&host, "sys/fs/cgroup/cgroup.controllers", "cpu io memory\n");
    put(
        &host,
        "sys/fs/cgroup/cgroup.subtree_control",
        "cpu memory\n",
    );
    (folder, host)
}

fn put(host: &Host, path: &str, content: impl AsRef<[u8]>) {
    let path = host.root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The findings other than ok.
fn complaints(host: &Host) -> Vec<(&'static str, Level)> {
    let found = all(host);
    for finding in &found {
        assert_eq!(
            finding.level == Level::Ok,
            finding.hint.is_empty(),
            "{finding:?}"
        );
    }
    found
        .into_iter()
        .filter(|finding| finding.level != Level::Ok)
        .map(|finding| (finding.check, finding.level))
        .collect()
}

#[test]
fn a_sound_host_lacks_only_tixd() {
    let (_folder, host) = sound();
    assert_eq!(complaints(&host), [("tixd", Level::Warning)]);
}

#[test]
fn a_setting_of_the_machines_is_no_complaint_while_it_does_no_harm() {
    let (_folder, host) = sound();
    put(&host, "proc/sys/vm/compaction_proactiveness", "20\n");
    for said in ["", "some avg10=9.00 avg60=9.00 avg300=0.99 total=1\n"] {
        put(&host, "proc/pressure/memory", said);
        assert_eq!(complaints(&host), [("tixd", Level::Warning)]);
    }
}

#[test]
fn each_thing_that_can_be_missing_is_named() {
    type Break = fn(&Host);
    let cases: &[(&str, Level, Break)] = &[
        ("sched_ext", Level::Missing, |host| {
            fs::remove_dir_all(host.root.join("sys/kernel/sched_ext")).unwrap()
        }),
        ("scheduler", Level::Missing, |host| {
            put(host, "sys/kernel/sched_ext/root/ops", "flatcg\n")
        }),
        ("scheduler", Level::Warning, |host| {
            put(host, "sys/kernel/sched_ext/state", "disabled\n");
            fs::remove_file(host.root.join("sys/kernel/sched_ext/root/ops")).unwrap();
        }),
        ("btf", Level::Missing, |host| {
            fs::remove_file(host.root.join("sys/kernel/btf/vmlinux")).unwrap()
        }),
        ("btf", Level::Missing, |host| {
            put(
                host,
                "sys/kernel/btf/vmlinux",
                btf::tests::btf("aux", "cgroup_set_bandwidth"),
            )
        }),
        ("btf", Level::Warning, |host| {
            let old = btf::tests::btf("node", "cgroup_move");
            put(host, "sys/kernel/btf/vmlinux", old)
        }),
        ("btf", Level::Missing, |host| {
            put(host, "sys/kernel/btf/vmlinux", "noise")
        }),
        ("bpf", Level::Missing, |host| {
            put(
                host,
                "sys/kernel/security/lockdown",
                "none integrity [confidentiality]\n",
            )
        }),
        ("bpf", Level::Warning, |host| {
            put(host, "proc/sys/net/core/bpf_jit_enable", "0\n")
        }),
        ("bpffs", Level::Missing, |host| {
            put(host, "proc/self/mountinfo", SOUND.lines().next().unwrap())
        }),
        ("cgroups", Level::Missing, |host| {
            put(host, "proc/self/mountinfo", SOUND.lines().nth(1).unwrap())
        }),
        ("cgroups", Level::Missing, |host| {
            let v1 = "40 23 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
            put(host, "proc/self/mountinfo", format!("{SOUND}{v1}"));
        }),
        ("cgroups", Level::Warning, |host| {
            put(host, "proc/self/cgroup", "0::/../elsewhere\n")
        }),
        ("controllers", Level::Missing, |host| {
            put(host, "sys/fs/cgroup/cgroup.controllers", "io memory\n")
        }),
        ("controllers", Level::Warning, |host| {
            put(host, "sys/fs/cgroup/cgroup.subtree_control", "\n")
        }),
        ("compaction", Level::Warning, |host| {
            put(host, "proc/sys/vm/compaction_proactiveness", "20\n");
            let waited = "some avg10=0.00 avg60=0.00 avg300=1.00 total=1\n";
            put(host, "proc/pressure/memory", waited)
        }),
        ("privileges", Level::Warning, |host| {
            put(host, "proc/self/status", "CapEff:\t00000000a80425fb\n")
        }),
    ];
    for (check, level, break_it) in cases {
        let (_folder, host) = sound();
        break_it(&host);
        assert_eq!(
            complaints(&host).first(),
            Some(&(*check, *level)),
            "{check}"
        );
    }
}

#[test]
fn a_user_without_a_systemd_of_their_own_is_told() {
    let (_folder, mut host) = sound();
    host.uid = 1000;
    fs::create_dir_all(host.root.join("run/systemd/system")).unwrap();
    assert_eq!(
        complaints(&host).first(),
        Some(&("systemd", Level::Warning))
    );
    put(&host, "run/user/1000/bus", "");
    assert_eq!(complaints(&host), [("tixd", Level::Warning)]);
}

#[test]
fn the_config_of_a_kernel_without_sched_ext_is_looked_at() {
    let (_folder, host) = sound();
    fs::remove_dir_all(host.root.join("sys/kernel/sched_ext")).unwrap();
    put(
        &host,
        "boot/config-7.2.13",
        "# CONFIG_SCHED_CLASS_EXT is not set\n",
    );
    assert!(
        sched_ext(&host)
            .message
            .contains("built without CONFIG_SCHED_CLASS_EXT")
    );
}
