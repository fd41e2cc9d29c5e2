// SPDX-License-Identifier: GPL-2.0-only
//! A user who has logged in and types.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::daemon::{Said, currency, wait};
use crate::daemon_load::used;

/// What no command prints.
const MARK: &str = "-tix-that-was-all-";
/// Sessions and scopes take their time under emulation, the more on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A login shell of `user`, in a session of its own, until dropped; root's is in no session. What it
/// started in scopes goes on.
pub struct Shell {
    user: String,
    child: Child,
    input: ChildStdin,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Shell {
    pub fn login(user: &str) -> Result<Shell> {
        let words: &[&str] = match user {
            "root" => &["bash", "--login"],
            user => &["su", "-", user],
        };
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {}", words[0]))?;
        let (Some(input), Some(out), Some(err)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            anyhow::bail!("a shell without its pipes");
        };
        let mut shell = Shell {
            user: user.into(),
            child,
            input,
            out: BufReader::new(out),
            err: BufReader::new(err),
        };
        let said = shell.types("id -un")?.ok()?;
        ensure!(said.out.trim() == user, "{user} is {}", said.out);
        Ok(shell)
    }

    /// Types a line, and waits until it is done.
    pub fn types(&mut self, line: &str) -> Result<Said> {
        let mark = format!("s=$?; printf '\\n{MARK} %s\\n' $s; printf '\\n{MARK} %s\\n' $s >&2");
        // The line may not read what is typed next.
        let all = format!("{{ {line}\n}} </dev/null; {mark}\n");
        self.input.write_all(all.as_bytes())?;
        let (out, status) = until_mark(&mut self.out).context(self.user.clone())?;
        let (err, _) = until_mark(&mut self.err).context(self.user.clone())?;
        Ok(Said {
            command: format!("{}$ {line}", self.user),
            status,
            out,
            err,
        })
    }

    /// Types a command that makes the currency `name` for itself and goes on in the background, and waits until it runs.
    pub fn starts(&mut self, name: &str, line: &str) -> Result<Job> {
        self.types(&format!("{line} & {name}=$!"))?.ok()?;
        let cgroup = wait(&format!("{line} runs"), PATIENCE, || {
            let cgroup =
                currency(&self.own(name))?.and_then(|c| c["cgroup"].as_str().map(str::to_owned));
            Ok(cgroup.filter(|path| used(path).is_ok_and(|n| n > 20_000)))
        })?;
        Ok(Job {
            name: name.into(),
            cgroup,
        })
    }

    /// What everybody else calls what the user here has made as `name`.
    fn own(&self, name: &str) -> String {
        format!("{}/{name}", self.user)
    }

    /// Sends a signal to what it has started.
    pub fn signals(&mut self, signal: &str, job: &Job) -> Result<()> {
        let line = format!("kill -{signal} ${}", job.name);
        self.types(&line)?.ok()?;
        Ok(())
    }

    /// Ends what it has started, and waits until its currency is gone.
    pub fn ends(&mut self, job: Job) -> Result<()> {
        self.signals("KILL", &job)?;
        wait("the currency goes with its command", PATIENCE, || {
            Ok(currency(&self.own(&job.name))?.is_none().then_some(()))
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.input.write_all(b"exit\n");
        let _ = self.child.wait();
    }
}

/// A command that a user has started with tickets of its own.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its currency, as its maker says it.
    pub name: String,
    pub cgroup: String,
}

/// What was said before the mark, and the number after it.
fn until_mark(from: &mut impl BufRead) -> Result<(String, i32)> {
    let mut text = String::new();
    loop {
        let mut line = String::new();
        ensure!(from.read_line(&mut line)? > 0, "the shell has ended");
        if let Some(status) = line.strip_prefix(MARK) {
            // The line end that was put before the mark is not the command's.
            text.pop();
            return Ok((text, status.trim().parse()?));
        }
        text.push_str(&line);
    }
}
