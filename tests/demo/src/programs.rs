// SPDX-License-Identifier: GPL-2.0-only
//! The people of the demo and the programs they run: each a systemd unit in its user's slice.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// What the programs read, again and again: bytes, and a C program in one piece.
const FOLDER: &str = "/run/tix-demo";
const DATA: &str = "/run/tix-demo/data";
const SOURCE: &str = "/run/tix-demo/core.i";
const DATA_BYTES: usize = 8 << 20;

pub struct Person {
    pub name: String,
    pub tickets: u32,
    /// The slice all of this user's processes are in, and its cgroup path.
    pub slice: String,
    pub cgroup: String,
    account: Account,
    pub programs: Vec<Program>,
}

enum Account {
    /// An account of the guest, made for the demo.
    Uid(u32),
    /// A user that systemd makes up and forgets with the unit: nothing is left on a real machine.
    Dynamic,
}

pub struct Program {
    pub name: String,
    /// How many run side by side.
    pub copies: usize,
    pub unit: String,
}

impl Person {
    /// A user with an account and the slice that systemd gives it.
    pub fn with_account(name: &str, tickets: u32) -> Result<Person> {
        if !output(Command::new("id").args(["-u", name]))?
            .status
            .success()
        {
            run(Command::new("useradd").args(["--create-home", name]))?;
        }
        let uid = run(Command::new("id").args(["-u", name]))?;
        let uid: u32 = uid
            .trim()
            .parse()
            .with_context(|| format!("id -u {name} printed {uid:?}"))?;
        let slice = format!("user-{uid}.slice");
        Ok(Person::new(
            name,
            tickets,
            &slice,
            &format!("/user.slice/{slice}"),
            Account::Uid(uid),
        ))
    }

    /// The same without an account, in a slice of the demo's own.
    pub fn without_account(name: &str, tickets: u32) -> Person {
        let slice = format!("tixdemo-{name}.slice");
        Person::new(
            name,
            tickets,
            &slice,
            &format!("/tixdemo.slice/{slice}"),
            Account::Dynamic,
        )
    }

    fn new(name: &str, tickets: u32, slice: &str, cgroup: &str, account: Account) -> Person {
        Person {
            name: name.into(),
            tickets,
            slice: slice.into(),
            cgroup: cgroup.into(),
            account,
            programs: Vec::new(),
        }
    }

    /// Start `copies` loops of `again` as this user, in this user's slice.
    pub fn start(&mut self, name: &str, again: &str, copies: usize) -> Result<()> {
        let unit = format!("tixdemo-{}-{name}.service", self.name);
        let mut command = Command::new("systemd-run");
        command.args(["--quiet", "--collect"]);
        command
            .arg(format!("--unit={unit}"))
            .arg(format!("--slice={}", self.slice));
        match self.account {
            Account::Uid(uid) => command.arg(format!("--uid={uid}")),
            Account::Dynamic => command
                .arg("--property=DynamicUser=yes")
                .arg(format!("--uid=tixdemo-{}", self.name)),
        };
        let again_and_again = format!("while :; do {again}; done >/dev/null");
        run(command.args(["sh", "-c"]).arg(format!(
            "for copy in $(seq {copies}); do ({again_and_again}) & done; wait"
        )))?;
        self.programs.push(Program {
            name: name.into(),
            copies,
            unit,
        });
        Ok(())
    }

    /// Stop all programs in their tracks, or let them go on.
    pub fn pause(&self, pause: bool) -> Result<()> {
        let mut command = Command::new("systemctl");
        command.arg("kill").arg(if pause {
            "--signal=STOP"
        } else {
            "--signal=CONT"
        });
        run(command.args(self.programs.iter().map(|program| &program.unit)))?;
        Ok(())
    }

    /// End all programs. What is gone already is no error.
    pub fn end(&mut self) -> Result<()> {
        self.pause(false)?;
        let mut command = Command::new("systemctl");
        run(command
            .arg("stop")
            .args(self.programs.iter().map(|program| &program.unit)))?;
        self.programs.clear();
        Ok(())
    }
}

/// Is there everything on this machine that the programs of the demo need?
pub fn check(commands: &[(&str, &str)]) -> Result<()> {
    for (_, command) in commands {
        let program = command.split(' ').next().unwrap_or(command);
        let found = output(
            Command::new("sh")
                .arg("-c")
                .arg(format!("command -v {program}")),
        )?;
        if !found.status.success() {
            bail!("the demo runs {program}, and this machine has none: install it and try again");
        }
    }
    Ok(())
}

/// Collect some megabytes of this machine's own programs for compressing and hashing, and `source` with all that it
/// includes for compiling.
pub fn make_data(source: &Path) -> Result<()> {
    fs::create_dir_all(FOLDER).with_context(|| format!("cannot create {FOLDER}"))?;
    run(Command::new("cc").args(["-E", "-o", SOURCE]).arg(source))?;
    let mut out = fs::File::create(DATA).with_context(|| format!("cannot write {DATA}"))?;
    let mut names: Vec<_> = fs::read_dir("/usr/bin")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    names.sort();
    let mut left = DATA_BYTES;
    for name in names.iter().filter(|name| name.is_file()) {
        let Ok(bytes) = fs::read(name) else { continue };
        let part = &bytes[..bytes.len().min(left)];
        out.write_all(part)
            .with_context(|| format!("cannot write {DATA}"))?;
        left -= part.len();
        if left == 0 {
            return Ok(());
        }
    }
    bail!("/usr/bin holds less than {DATA_BYTES} bytes")
}

pub fn remove_data() {
    // Left-over bytes in /run harm nobody, so failing to remove them is not worth a message.
    let _ = fs::remove_dir_all(FOLDER);
}

/// Run a command to its end and return what it printed; its failure is an error that says what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let out = output(command)?;
    if !out.status.success() {
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let error = String::from_utf8_lossy(&out.stderr);
        bail!(
            "`{}` failed ({}): {}",
            words.join(" "),
            out.status,
            error.trim()
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

pub fn output(command: &mut Command) -> Result<Output> {
    command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))
}
