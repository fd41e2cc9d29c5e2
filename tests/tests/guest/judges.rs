// SPDX-License-Identifier: GPL-2.0-only
//! Outside judges: what of other people's tests of cgroups and scheduling passes under the kernel's own scheduler passes under tix. A part
//! of `make soak`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tix_tests::guest::{Guest, tree, under_tix};
use tix_tests::results::{leave, skipped};

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");

/// The output of one of the harness's programs.
fn said_by(program: &str, argument: Option<&str>) -> Result<PathBuf> {
    let mut command = Command::new(tree().join(program));
    let out = command
        .args(argument)
        .output()
        .context(program.to_owned())?;
    let complaint = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{program}: {complaint}");
    Ok(String::from_utf8(out.stdout)?.trim().into())
}

/// A line of a script that runs `command` as the judge `name`.
fn call(name: &str, command: &str) -> String {
    format!(
        "echo judge {name}; status=0; {command} </dev/null 2>&1 || status=$?; echo ended {name} $status\n"
    )
}

/// Who passed: programs that ended well, and of those that tell (by TAP) what they tried each thing that was ok.
fn passed(said: &str) -> BTreeSet<String> {
    let (mut passed, mut judge) = (BTreeSet::new(), "");
    for line in said.lines() {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[..] {
            ["judge", name] => judge = name,
            ["ended", name, "0"] => drop(passed.insert(name.to_owned())),
            ["ok", _, what] if !what.contains("# SKIP") => {
                passed.insert(format!("{judge}: {what}"));
            }
            _ => {}
        }
    }
    passed
}

/// The script's judges under both; what they said is left as `part` of `make soak`. At least so many must pass at all.
fn same_verdicts(part: &str, guest: &Guest, script: &str, at_least: usize) -> Result<()> {
    let of = |script: &str| -> Result<BTreeSet<String>> {
        let said = guest.text(script)?;
        eprintln!("{said}");
        Ok(passed(&said))
    };
    let kernel = of(script)?;
    let tix = of(&under_tix(Path::new(LOAD), script)?)?;
    ensure!(kernel.len() >= at_least, "only {kernel:?} passed");
    let lost: Vec<_> = kernel.difference(&tix).collect();
    ensure!(lost.is_empty(), "{part}: not passed under tix: {lost:?}");
    let judges = script.lines().filter(|l| l.starts_with("echo judge "));
    let came_to = json!({ "judges": judges.count(), "passed_under_the_kernels_own": kernel, "passed_under_tix": tix });
    leave(part, &came_to)
}

/// The kernel's own. On one CPU: emulated ones run in turns, which those tests do not expect.
#[test]
#[ignore = "boots a guest, and fetches the kernel's source"]
fn soak_of_judges() {
    let dir = said_by("bench/peers", Some("--judges")).unwrap();
    let dir = dir.display();
    let plain = [
        "test_cpu",
        "test_core",
        "test_cpuset",
        "test_freezer",
        "test_kill",
        "test_pids",
    ];
    let mut script: String = plain.map(|j| call(j, &format!("{dir}/{j}"))).concat();
    // Beside processes that come and go while a controller is turned on and off for all.
    for controller in ["cpu", "cpuset"] {
        script += &call(
            &format!("test_core_while_{controller}_comes_and_goes"),
            &format!("{dir}/with_stress.sh -c {controller} -s subsys -s fork {dir}/test_core"),
        );
    }
    let guest = Guest::new().icount(3).timeout(3600);
    same_verdicts("judges", &guest, &script, 30).unwrap();
}

/// Which of LTP's: of a file in its `runtest`, those whose names begin so.
const LTP: [(&str, &[&str]); 3] = [
    (
        "syscalls",
        &["getpriority", "nice", "sched_", "setpriority"],
    ),
    (
        "sched",
        &[
            "autogroup",
            "cfs_bandwidth",
            "proc_sched_rt",
            "pth_str",
            "time-schedule",
            "trace_sched",
        ],
    ),
    (
        "controllers",
        &[
            "cgroup_core",
            "cgroup_fj_function_cpu",
            "cgroup_fj_stress_cpu_2_2_each",
        ],
    ),
];

/// Name and command.
fn chosen(ltp: &Path) -> Result<Vec<(String, String)>> {
    let mut chosen = Vec::new();
    for (file, beginnings) in LTP {
        let file = ltp.join("runtest").join(file);
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("TIX_LTP: read {}", file.display()))?;
        for line in text.lines() {
            let wanted = beginnings.iter().any(|b| line.starts_with(b));
            if let Some((name, command)) = line.split_once(char::is_whitespace)
                && wanted
            {
                chosen.push((name.to_owned(), command.trim().to_owned()));
            }
        }
    }
    Ok(chosen)
}

/// The Linux Test Project's, where it is installed: `TIX_LTP=/opt/ltp`. Debian has no package of it.
#[test]
#[ignore = "boots a guest, if TIX_LTP says where LTP is installed"]
fn soak_of_ltp() {
    let Some(ltp) = std::env::var_os("TIX_LTP").map(PathBuf::from) else {
        let why = "TIX_LTP does not say where LTP is installed";
        skipped("soak_of_ltp", why);
        leave("ltp", &format!("SKIPPED: {why}")).unwrap();
        return;
    };
    let kernel = said_by("tests/vm/kernel", std::env::var("KERNEL").ok().as_deref()).unwrap();
    let (root, config) = (ltp.display(), kernel.join("config"));
    // The guest's clock runs ahead while all in it wait for this machine's files: there is more time.
    let mut script = format!(
        "export LTPROOT={root} PATH={root}/testcases/bin:$PATH TMPDIR=/tmp KCONFIG_PATH={}
         export LTP_COLORIZE_OUTPUT=n LTP_TIMEOUT_MUL=20
         cd /tmp\n",
        config.display()
    );
    for (name, command) in chosen(&ltp).unwrap() {
        script += &call(&name, &command);
    }
    let guest = Guest::new().icount(3).timeout(3600);
    same_verdicts("ltp", &guest, &script, 30).unwrap();
}
