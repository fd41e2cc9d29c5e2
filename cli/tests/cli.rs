// SPDX-License-Identifier: GPL-2.0-only
//! The program as one meets it: what it says and how it exits, with no tixd to talk to.
//!
//! Exit status 0 and 1 of what tixd does are tested with a real tixd, in a guest.

#![allow(clippy::unwrap_used)]

use std::os::unix::net::UnixListener;
use std::process::{Command, Output};

fn tixctl(socket: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tixctl"))
        .args(arguments)
        .env("TIX_SOCKET", socket)
        .env_remove("NO_COLOR")
        .output()
        .unwrap()
}

/// Every command that talks to tixd, complete.
const ASKING: &[&[&str]] = &[
    &["tree"],
    &["tree", "--json"],
    &["create", "alice"],
    &["destroy", "alice"],
    &["fund", "alice", "--from", "base", "cpu", "300"],
    &["unfund", "alice", "--from", "base", "cpu"],
    &["unfund", "alice", "--from", "base", "cpu", "5"],
    &["fund", "alice", "--from", "base", "disk", "300"],
    &["reserve", "alice", "--from", "base", "cpu", "25%"],
    &["reserve", "alice", "--from", "base", "cpu", "250"],
    &["reserve", "alice", "--from", "base", "memory", "256M"],
    &["reserve", "alice", "--from", "base", "memory", "12.5%"],
    &["unreserve", "alice", "--from", "base", "net"],
    &["limit", "alice", "cpu", "30%"],
    &["limit", "/x.slice", "cpu", "102400%"],
    &["unlimit", "alice", "cpu"],
    &[
        "create", "alice", "--owner", "root", "--group", "0", "--mode", "g+f",
    ],
    &["create", "alice", "--mode", "-f"],
    &["chmod", "g+f", "alice"],
    &["chmod", "g-f", "alice"],
    &["chmod", "-f", "alice"],
    &["chmod", "-c", "alice"],
    &["chmod", "-i", "alice"],
    &["chmod", "-fc", "alice"],
    &["chmod", "--------i", "alice"],
    &["chmod", "---------", "alice"],
    &["chmod", "u=fci,go-c", "alice"],
    &["chmod", "0740", "alice"],
    &["chmod", "--", "-f", "alice"],
    &["chown", "root", "alice"],
    &["chown", "root:root", "alice"],
    &["chown", ":root", "alice"],
    &["chgrp", "root", "alice"],
    &["nice", "--", "true"],
    &[
        "nice", "--cpu", "10%", "--from", "alice", "--name", "job", "--", "true",
    ],
    &["nice", "--cpu", "10", "--", "true"],
    &["log"],
    &[
        "log", "alice", "--mine", "--since", "1h", "-n", "5", "--json",
    ],
    &["log", "-f", "--since", "2026-11-21 15:04"],
    &["export"],
    &["import", "--dry-run", "Cargo.toml"],
    &["tree", "--resource", "memory", "--long"],
    &["tree", "-r", "all", "-l"],
    &["explain", "alice", "--resource", "disk"],
    &["bind", "alice", "/alice"],
    &["unbind", "alice"],
    &["unbind", "alice", "/alice"],
    &["explain", "alice"],
    &["top", "--once"],
    &["top"],
    &["undo"],
    &["undo", "5", "-q"],
    &["disk", "list"],
    &["disk", "enable", "vda"],
    &["disk", "disable", "vda", "-q"],
    &["fund", "alice", "--from", "base", "cpu", "300", "--set"],
    &["offer", "list"],
    &["offers"],
    &["offer", "make", "a", "--give", "cpu:1", "--want", "disk:1"],
    &["offer", "a", "--give", "cpu:1", "--want", "disk:1"],
    &["offer", "amend", "5", "--give", "cpu:1"],
    &["amend", "5", "--give", "cpu:1"],
    &["offer", "cancel", "5"],
    &["exchange", "list"],
    &["exchanges"],
    &["exchange", "show", "5"],
    &["exchange", "end", "5", "--yes"],
    &["cancel", "5"],
    &["accept", "5", "a"],
];

#[test]
fn examples() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

#[test]
fn without_tixd_every_command_that_needs_it_exits_with_3_and_says_how_to_start_it() {
    for arguments in ASKING {
        let output = tixctl("/nonexistent/tixd.sock", arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {said}");
        assert!(
            said.contains("/nonexistent/tixd.sock") && said.contains("systemctl start tixd"),
            "{said}"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_socket_that_nobody_listens_on_is_not_reachable() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("dead.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let output = tixctl(socket.to_str().unwrap(), &["tree"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody listens"));
}

#[test]
fn a_peer_that_hangs_up_or_talks_nonsense_is_not_reachable() {
    for answer in [&b""[..], b"noise\0", b"{}{\0", &[0xff, 0]] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("odd.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let peer = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream.write_all(answer).unwrap();
        });
        let output = tixctl(socket.to_str().unwrap(), &["create", "alice"]);
        peer.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{answer:?}: {said}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let wrong: &[&[&str]] = &[
        &[],
        &["no-such-verb"],
        &["create"],
        &["create", "a", "b"],
        &["fund", "alice", "cpu", "5"],
        &["fund", "alice", "--from", "base", "cpu"],
        &["fund", "alice", "--from", "base", "cpu", "-5"],
        &["fund", "alice", "--from", "base", "cpu", "0"],
        &["fund", "alice", "--from", "base", "cpu", "2147483649"],
        &[
            "fund",
            "alice",
            "--from",
            "base",
            "cpu",
            "99999999999999999999999",
        ],
        &["fund", "alice", "--from", "base", "gpu", "5"],
        &["unfund", "alice", "--from", "base", "cpu", "1.5"],
        &["bind", "alice"],
        &["run"],
        &["run", "--"],
        &["run", "--cpu", "0", "--", "true"],
        &["run", "true"],
        &["reserve", "alice", "--from", "base", "cpu"],
        &["reserve", "alice", "--from", "base", "cpu", "100%"],
        &["reserve", "alice", "--from", "base", "cpu", "0"],
        &["reserve", "alice", "--from", "base", "cpu", "-5"],
        &["reserve", "alice", "--from", "base", "cpu", "-5%"],
        &["reserve", "alice", "--from", "base", "cpu", "1000"],
        &["reserve", "alice", "--from", "base", "cpu", "12.55%"],
        &["reserve", "alice", "--from", "base", "disk", "256M"],
        &["reserve", "alice", "cpu", "25%"],
        &["unreserve", "alice", "--from", "base", "cpu", "25%"],
        &["limit", "alice", "cpu"],
        &["limit", "alice", "cpu", "30"],
        &["limit", "alice", "cpu", "0%"],
        &["limit", "alice", "cpu", "-5%"],
        &["limit", "alice", "cpu", "none"],
        &["limit", "alice", "gpu", "30%"],
        &["unlimit", "alice"],
        &["unlimit", "alice", "cpu", "30%"],
        &["create", "alice", "--mode", "999"],
        &["chmod", "g+r", "alice"],
        &["chmod", "-x", "alice"],
        &["chmod", "g+f"],
        &["chown", "alice"],
        &["chown", "alice:", "pool"],
        &["chgrp", "staff"],
        &["nice"],
        &["nice", "--cpu", "0%", "--", "true"],
        &["nice", "--cpu", "101%", "--", "true"],
        &["nice", "--cpu", "-1", "--", "true"],
        &["nice", "true"],
        &["log", "--since", "tomorrow"],
        &["log", "-n", "0"],
        &["log", "-n", "1001"],
        &["import"],
        &["offer", "a", "--give", "cpu:1"],
        &["offer", "a", "--give", "cpu", "--want", "disk:1"],
        &["offer", "a", "--give", "cpu:0", "--want", "disk:1"],
        &[
            "offer",
            "a",
            "--give",
            "cpu:1",
            "--want",
            "disk:1",
            "--expires",
            "soon",
        ],
        &["offer"],
        &["offer", "make", "a"],
        &["offer", "cancel"],
        &["amend", "x"],
        &["cancel"],
        &["exchange"],
        &["tree", "--resource", "gold"],
        &["explain", "alice", "--resource", "all"],
        &["top", "--interval", "0"],
        &["undo", "0"],
        &["undo", "last"],
        &["tree", "--yaml"],
        &["tree", "--watch", "0"],
        &["tree", "--color", "sometimes"],
        &["completions", "no-such-shell"],
    ];
    for arguments in wrong {
        let output = tixctl("/nonexistent/tixd.sock", arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

/// `--dry-run` of what changes more than the ledger says how else to see it, before anything
/// is done or asked.
#[test]
fn what_cannot_be_tried_is_not_done() {
    for line in [
        "run --dry-run -- true",
        "nice --dry-run -- true",
        "disk enable vda --dry-run",
        "disk disable vda --dry-run",
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = tixctl("/nonexistent/tixd.sock", &arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.contains("which cannot be tried without doing it") && text.contains("hint: "),
            "{line}: {text}"
        );
        assert_eq!(output.status.code(), Some(2), "{line}");
    }
}

#[test]
fn help_and_version_exit_with_0() {
    for arguments in [
        &["--help"][..],
        &["help", "fund"],
        &["run", "--help"],
        &["--version"],
    ] {
        assert_eq!(
            tixctl("/nonexistent/tixd.sock", arguments).status.code(),
            Some(0),
            "{arguments:?}"
        );
    }
}

/// On a host whose kernel runs tix's scheduler it is 0, so this test asks the kernel, too.
#[test]
fn status_without_tixd_still_reports_the_kernel() {
    let output = tixctl("/nonexistent/tixd.sock", &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let read = |file: &str| {
        std::fs::read_to_string(format!("/sys/kernel/sched_ext/{file}")).unwrap_or_default()
    };
    let in_force = read("state").trim() == "enabled" && read("root/ops").trim() == "tix";
    assert_eq!(status["in_force"], in_force);
    assert_eq!(status["tixd"], serde_json::Value::Null);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn doctor_says_what_is_missing_and_exits_with_1_only_then() {
    let output = tixctl("/nonexistent/tixd.sock", &["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let missing = report["level"] == "missing";
    assert_eq!(output.status.code(), Some(i32::from(missing)));
    for finding in report["findings"].as_array().unwrap() {
        assert_eq!(finding["level"] == "ok", finding["hint"] == "", "{finding}");
    }
}

#[test]
fn run_of_a_command_that_does_not_exist_changes_nothing() {
    let output = tixctl(
        "/nonexistent/tixd.sock",
        &["run", "--", "no-such-command-here"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-command-here"));
}

/// What is refused before anybody is asked says what to do, and exits with 1.
#[test]
fn users_groups_and_files_that_do_not_exist_are_refused() {
    let refused: &[&[&str]] = &[
        &["create", "alice", "--owner", "no-such-user"],
        &["create", "alice", "--group", "no-such-group"],
        &["chown", "no-such-user", "alice"],
        &["chown", "root:no-such-group", "alice"],
        &["chgrp", "no-such-group", "alice"],
        &["import", "/nonexistent/file"],
        &["nice", "--", "no-such-command-here"],
    ];
    for arguments in refused {
        let output = tixctl("/nonexistent/tixd.sock", arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("hint:") && said.contains("no"), "{said}");
    }
}

#[test]
fn no_escape_sequences_in_a_pipe() {
    let output = tixctl("/nonexistent/tixd.sock", &["doctor"]);
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));
}

#[test]
fn colours_in_a_pipe_only_if_they_are_asked_for() {
    for (arguments, coloured) in [
        (&["doctor"][..], false),
        (&["doctor", "--color", "always"], true),
        (&["--color=never", "doctor"], false),
    ] {
        let output = tixctl("/nonexistent/tixd.sock", arguments);
        assert_eq!(output.stdout.contains(&0x1b), coloured, "{arguments:?}");
    }
}

/// It goes before the variable.
#[test]
fn the_socket_can_be_named() {
    let output = tixctl(
        "/nonexistent/a.sock",
        &["tree", "--socket", "/nonexistent/b.sock"],
    );
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("/nonexistent/b.sock"), "{said}");
}

#[test]
fn completions_and_manual_pages_come_from_the_grammar() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = tixctl("", &["completions", shell]);
        let script = String::from_utf8_lossy(&output.stdout).into_owned();
        let asks = script.contains("TIXCTL_COMPLETE") && script.contains("tixctl");
        assert!(output.status.success() && asks, "{shell}: {script}");
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(
        tixctl("", &["pages", folder.path().to_str().unwrap()])
            .status
            .success()
    );
    let page = std::fs::read_to_string(folder.path().join("man/man1/tixctl-fund.1")).unwrap();
    assert!(page.contains("ISSUER"));
    let page = std::fs::read_to_string(folder.path().join("man/man1/tixctl.1")).unwrap();
    for group in [
        "LOOK",
        "SHARE",
        "\"GUARANTEE AND LIMIT\"",
        "TRADE",
        "ADMINISTER",
    ] {
        assert!(page.contains(&format!(".SH {group}\n")), "{group}: {page}");
    }
    assert!(page.contains("tixctl\\-fund"), "{page}");
    let script = folder.path().join("bash-completion/completions/tixctl");
    assert!(
        std::fs::read_to_string(script)
            .unwrap()
            .contains("TIXCTL_COMPLETE")
    );
}

/// A reader that has gone (`tixctl … | head -1`) is no failure.
#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tixctl"))
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}
