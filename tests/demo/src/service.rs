// SPDX-License-Identifier: GPL-2.0-only
//! tixd as a systemd service, and tixctl to talk to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::Run;
use crate::programs::{output, run};

const UNIT: &str = "tixd.service";
/// Units here are gone with the next boot.
const RUNTIME_UNITS: &str = "/run/systemd/system";

pub struct Service {
    bin: PathBuf,
    /// False if tixd was running before us: then it stays.
    ours: bool,
}

impl Service {
    /// Starts tixd from `--bin` unless the machine runs it already, and makes sure that its scheduler is in force.
    pub fn start(args: &Run) -> Result<Service> {
        if !Path::new("/run/systemd/system").is_dir() {
            bail!("systemd does not run this machine, and the demo starts its programs through it");
        }
        let mut service = Service {
            bin: args.bin.clone(),
            ours: false,
        };
        if !service.answers()? {
            service.ours = true;
            let unit = render(&args.unit, &args.bin.join("tixd"))?;
            fs::create_dir_all(RUNTIME_UNITS)?;
            let path = Path::new(RUNTIME_UNITS).join(UNIT);
            fs::write(&path, unit).with_context(|| format!("cannot write {}", path.display()))?;
            run(Command::new("systemctl").arg("daemon-reload"))?;
            if let Err(error) = run(Command::new("systemctl").args(["start", UNIT])) {
                let journal = output(Command::new("journalctl").args([
                    "-u",
                    UNIT,
                    "-n",
                    "40",
                    "--no-pager",
                    "-o",
                    "cat",
                ]))?;
                bail!(
                    "tixd did not start: {error:#}\n{}",
                    String::from_utf8_lossy(&journal.stdout).trim_end()
                );
            }
        }
        // `tixctl status` succeeds only while the kernel says that the scheduler is in force.
        service.tixctl(&["status"])?;
        Ok(service)
    }

    fn answers(&self) -> Result<bool> {
        Ok(output(Command::new(self.tixctl_path()).arg("status"))?
            .status
            .success())
    }

    pub fn tixctl_path(&self) -> PathBuf {
        self.bin.join("tixctl")
    }

    pub fn tixctl(&self, args: &[&str]) -> Result<String> {
        run(Command::new(self.tixctl_path()).args(args))
    }

    pub fn status(&self) -> Result<serde_json::Value> {
        let status = self.tixctl(&["status", "--json"])?;
        serde_json::from_str(&status).context("tixctl status --json printed something else")
    }

    /// Gives the machine back to the kernel's scheduler, if it was us who took it.
    pub fn stop(self) -> Result<()> {
        if !self.ours {
            return Ok(());
        }
        run(Command::new("systemctl").args(["stop", UNIT]))?;
        run(Command::new(self.bin.join("tixd")).arg("--stop-scheduler"))?;
        let path = Path::new(RUNTIME_UNITS).join(UNIT);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        run(Command::new("systemctl").arg("daemon-reload"))?;
        Ok(())
    }
}

/// The packaged unit with its ExecStart pointed at another binary, which the service sees wherever it lies: /tmp is its own.
fn render(unit: &Path, tixd: &Path) -> Result<String> {
    const INSTALLED: &str = "ExecStart=/usr/sbin/tixd";
    let text =
        fs::read_to_string(unit).with_context(|| format!("cannot read {}", unit.display()))?;
    if !text.contains(INSTALLED) {
        bail!("{} has no line {INSTALLED}", unit.display());
    }
    let tixd = tixd.display();
    Ok(text.replace(
        INSTALLED,
        &format!("ExecStart={tixd}\nBindReadOnlyPaths={tixd}"),
    ))
}
