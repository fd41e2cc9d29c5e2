// SPDX-License-Identifier: GPL-2.0-only
//! A tixd of a test's own, and a client that speaks to it in plain messages.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

pub struct Tixd {
    pub child: Child,
    pub dir: tempfile::TempDir,
}

/// Where this machine has cgroup v2.
fn cgroup2() -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let line = mounts
        .lines()
        .find(|l| l.split(' ').nth(2) == Some("cgroup2"));
    line.and_then(|l| l.split(' ').nth(1))
        .expect("no cgroup2 is mounted here")
        .into()
}

impl Tixd {
    pub fn start() -> Tixd {
        Self::start_in(tempfile::tempdir().unwrap())
    }

    pub fn command(dir: &tempfile::TempDir) -> Command {
        let mut tixd = Command::new(env!("CARGO_BIN_EXE_tixd"));
        tixd.arg("--observe")
            .arg("--state")
            .arg(dir.path().join("state"))
            .arg("--socket")
            .arg(dir.path().join("sock"))
            .arg("--cgroup-root")
            .arg(cgroup2());
        tixd
    }

    pub fn start_in(dir: tempfile::TempDir) -> Tixd {
        let child = Tixd::command(&dir)
            .stderr(File::create(dir.path().join("said")).unwrap())
            .spawn()
            .unwrap();
        let mut tixd = Tixd { child, dir };
        let end = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(tixd.dir.path().join("sock")).is_err() {
            assert!(tixd.child.try_wait().unwrap().is_none(), "tixd ended");
            assert!(Instant::now() < end, "tixd does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        tixd
    }

    pub fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.dir.path().join("sock")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
            .set_write_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Client(stream)
    }

    /// What it has written to stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("said")).unwrap()
    }

    pub fn end(mut self) -> tempfile::TempDir {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }
}

impl Drop for Tixd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Client(pub UnixStream);

impl Client {
    pub fn message(&mut self) -> Option<serde_json::Value> {
        let mut text = Vec::new();
        let mut byte = [0];
        loop {
            match self.0.read(&mut byte) {
                Ok(1) if byte[0] == 0 => return Some(serde_json::from_slice(&text).unwrap()),
                Ok(1) => text.push(byte[0]),
                Ok(_) => return None,
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(e) => panic!("no answer: {e}"),
            }
        }
    }

    pub fn call(&mut self, method: &str, parameters: serde_json::Value) -> serde_json::Value {
        self.raw(&format!("org.tix.Tix.{method}"), parameters)
    }

    pub fn raw(&mut self, method: &str, parameters: serde_json::Value) -> serde_json::Value {
        let call = serde_json::json!({ "method": method, "parameters": parameters });
        self.0.write_all(call.to_string().as_bytes()).unwrap();
        self.0.write_all(&[0]).unwrap();
        self.message()
            .unwrap_or_else(|| panic!("the connection was closed after {call}"))
    }

    pub fn error(&mut self, method: &str, parameters: serde_json::Value) -> String {
        let reply = self.call(method, parameters);
        let error = reply["error"]
            .as_str()
            .unwrap_or_else(|| panic!("not refused: {reply}"))
            .to_owned();
        if let Some(name) = error.strip_prefix("org.tix.Tix.") {
            assert!(
                !reply["parameters"]["message"].as_str().unwrap().is_empty(),
                "{reply}"
            );
            assert!(
                !reply["parameters"]["hint"].as_str().unwrap().is_empty(),
                "{reply}"
            );
            return name.to_owned();
        }
        error
    }
}

/// Is this root? If not, `what` is not looked at, which is said: `make check` lists it at its end.
pub fn is_root_for(what: &str) -> bool {
    let root = rustix::process::getuid().is_root();
    if !root {
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/skipped");
        let line = format!("{what}: only root may\n");
        eprint!("SKIPPED {line}");
        let mut file = std::fs::File::options();
        let mut file = file.create(true).append(true).open(target).unwrap();
        std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
    }
    root
}
