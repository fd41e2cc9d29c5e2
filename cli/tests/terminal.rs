// SPDX-License-Identifier: GPL-2.0-only
//! tixctl on a terminal: what it asks there, what it pages, what it shows again and again.

#![allow(clippy::unwrap_used)]

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// A tixd that answers call by call, the last answer to all later ones, until tixctl hangs up; the
/// methods that were called.
fn peer(listener: UnixListener, answers: Vec<Value>) -> JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let (mut reader, mut methods) = (BufReader::new(&stream), Vec::new());
        loop {
            let mut call = Vec::new();
            if reader.read_until(0, &mut call).is_err() || call.pop() != Some(0) {
                return methods;
            }
            let call: Value = serde_json::from_slice(&call).unwrap();
            methods.push(call["method"].as_str().unwrap().replace("org.tix.Tix.", ""));
            let answer = answers.get(methods.len() - 1).or(answers.last()).unwrap();
            let message = [answer.to_string().as_bytes(), &[0]].concat();
            // Whoever has hung up does not want it any more.
            let _ = (&stream).write_all(&message);
        }
    })
}

struct Session {
    child: Child,
    terminal: File,
    peer: JoinHandle<Vec<String>>,
    socket: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Session {
    /// tixctl on a terminal of 80 columns and 10 lines, where `less` is a program that says that it
    /// is there.
    fn new(arguments: &[&str], answers: &[Value]) -> Session {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("tixd.sock");
        let peer = peer(UnixListener::bind(&socket).unwrap(), answers.to_vec());
        let less = folder.path().join("less");
        std::fs::write(
            &less,
            "#!/bin/sh\necho paged, secure: $LESSSECURE\nexec cat\n",
        )
        .unwrap();
        Command::new("chmod")
            .args(["+x", less.to_str().unwrap()])
            .status()
            .unwrap();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let slave = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize {
            ws_row: 10,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&slave, size).unwrap();
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let child = Command::new(env!("CARGO_BIN_EXE_tixctl"))
            .args(["--socket", socket.to_str().unwrap()])
            .args(arguments)
            .env("PATH", path)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("PAGER")
            .env_remove("TIX_SOCKET")
            .stdin(slave.try_clone().unwrap())
            .stdout(slave.try_clone().unwrap())
            .stderr(slave)
            .spawn()
            .unwrap();
        Session {
            child,
            terminal: File::from(master),
            peer,
            socket,
            _folder: folder,
        }
    }

    /// Reads what is shown until it has `what`.
    fn wait_for(&mut self, what: &str) -> String {
        let (mut shown, mut part) = (Vec::new(), [0; 4096]);
        loop {
            let count = self.terminal.read(&mut part).unwrap_or(0);
            assert!(
                count > 0,
                "no {what:?} in {:?}",
                String::from_utf8_lossy(&shown)
            );
            shown.extend(&part[..count]);
            let text = String::from_utf8_lossy(&shown);
            if text.contains(what) {
                return text.into_owned();
            }
        }
    }

    fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// The rest of what is shown, the exit status, and what was asked.
    fn end(mut self) -> (String, Option<i32>, Vec<String>) {
        let mut shown = Vec::new();
        // A terminal that nobody has open any more fails to be read: that is its end.
        let _ = self.terminal.read_to_end(&mut shown);
        let code = self.child.wait().unwrap().code();
        drop(UnixStream::connect(&self.socket));
        let text = String::from_utf8_lossy(&shown).into_owned();
        (text, code, self.peer.join().unwrap())
    }
}

fn exchange() -> Value {
    let gives = json!({ "resource": "cpu", "amount": 1.5 });
    let party = json!({ "principal": "alice", "gives": gives, "gets": null });
    let all = json!({ "id": 7, "state": "active", "why": null, "parties": [party] });
    json!({ "parameters": { "exchange": all } })
}

#[test]
fn whoever_ends_an_exchange_is_asked() {
    let done = json!({ "parameters": { "exchange": true } });
    let mut session = Session::new(&["exchange", "end", "7"], &[exchange(), done.clone()]);
    let asked = session.wait_for("[y/N]");
    assert!(asked.contains("alice gives 1.5 cpu tickets"), "{asked}");
    session.types("y\n");
    let (shown, code, methods) = session.end();
    assert_eq!(
        (code, methods.join(" ")),
        (Some(0), "ShowExchange Cancel".to_owned())
    );
    assert!(shown.contains("exchange 7 is revoked"), "{shown}");

    let mut session = Session::new(&["cancel", "7"], &[exchange(), done]);
    session.wait_for("[y/N]");
    session.types("\n");
    let (shown, code, methods) = session.end();
    assert_eq!(
        (code, methods.join(" ")),
        (Some(1), "ShowExchange".to_owned())
    );
    assert!(shown.contains("goes on"), "{shown}");
}

/// A tree of so many currencies.
fn tree(count: u64) -> Value {
    let share = json!({ "entitlement": 0.1, "share": 0.1, "used_usec": 0 });
    let currency = |cid: u64| {
        json!({
            "cid": cid, "name": if cid == 0 { "base".to_owned() } else { format!("c{cid}") },
            "cgroup": null, "owner": 0, "group": 0, "mode": 448, "mode_text": "fci------",
            "active": true, "transient": false, "funding": [], "exchanges": [], "limits": [],
            "cpu": share, "disk": share, "memory": share, "net": share
        })
    };
    let all: Vec<Value> = (0..count).map(currency).collect();
    json!({ "parameters": { "currencies": all } })
}

#[test]
fn what_is_longer_than_the_terminal_is_paged() {
    let (shown, code, _) = Session::new(&["tree"], &[tree(20)]).end();
    assert_eq!(code, Some(0));
    assert!(shown.contains("paged") && shown.contains("c19"), "{shown}");
    assert!(shown.contains("\u{1b}["), "{shown}");
    let secure = is_root();
    assert_eq!(shown.contains("secure: 1"), secure, "{shown}");
    for (arguments, count) in [(&["tree", "--no-pager"][..], 20), (&["tree"], 5)] {
        let (shown, code, _) = Session::new(arguments, &[tree(count)]).end();
        assert_eq!(code, Some(0));
        assert!(!shown.contains("paged") && shown.contains("c4"), "{shown}");
    }
    let (shown, ..) = Session::new(&["tree", "--color", "never"], &[tree(20)]).end();
    assert!(
        shown.contains("paged") && !shown.contains('\u{1b}'),
        "{shown}"
    );
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn the_tree_is_watched_until_it_is_enough() {
    let mut session = Session::new(&["tree", "--watch", "0.2"], &[tree(3), tree(4)]);
    session.wait_for("c2");
    session.wait_for("c3");
    session.types("q");
    let (_, code, methods) = session.end();
    assert_eq!(code, Some(0));
    assert!(
        methods.len() >= 2 && methods.iter().all(|m| m == "Tree"),
        "{methods:?}"
    );
}
