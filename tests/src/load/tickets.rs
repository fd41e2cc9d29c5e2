// SPDX-License-Identifier: GPL-2.0-only
//! Funding an experiment's groups: by `cpu.weight`, or by named currencies through `tixctl`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::tree::{Node, Tree};

/// How shares are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// `cpu.weight` of the cgroups.
    Weight,
    /// Currencies of their own, bound to the cgroups. Needs tixd.
    Tickets,
}

/// Currencies of an experiment; dropping them destroys them.
pub struct Tickets {
    names: Vec<String>,
}

impl Tickets {
    /// Give every group of `tree` (made below `root`) a currency of its own, funded by its parent's,
    /// those at the top by the base currency, with `scale` tickets a share.
    pub fn fund(tree: &Tree, root: &Path, scale: u32) -> Result<Self> {
        let mount = Path::new("/sys/fs/cgroup");
        let below = root
            .strip_prefix(mount)
            .with_context(|| format!("{} is not below {}", root.display(), mount.display()))?;
        let mut tickets = Self { names: Vec::new() };
        for node in &tree.0 {
            tickets.node(node, "base", "exp", &Path::new("/").join(below), scale)?;
        }
        Ok(tickets)
    }

    fn node(
        &mut self,
        n: &Node,
        issuer: &str,
        prefix: &str,
        path: &Path,
        scale: u32,
    ) -> Result<()> {
        let name = format!("{prefix}-{}", n.name.to_lowercase());
        let path = path.join(&n.name);
        tixctl(&["create", &name])?;
        self.names.push(name.clone());
        let amount = (n.weight * scale).to_string();
        tixctl(&["fund", &name, "--from", issuer, "cpu", &amount])?;
        tixctl(&["bind", &name, &path.display().to_string()])?;
        for child in &n.children {
            self.node(child, &name, &name, &path, scale)?;
        }
        Ok(())
    }
}

impl Drop for Tickets {
    fn drop(&mut self) {
        for name in self.names.iter().rev() {
            for args in [["unbind", name], ["destroy", name]] {
                if let Err(e) = tixctl(&args) {
                    eprintln!("tix-load: {e:#}");
                }
            }
        }
    }
}

/// Run `tixctl` (`$TIXCTL` names another).
fn tixctl(args: &[&str]) -> Result<()> {
    let program = std::env::var("TIXCTL").unwrap_or_else(|_| "tixctl".into());
    let out = Command::new(&program)
        .args(args)
        .output()
        .with_context(|| format!("run {program}"))?;
    ensure!(
        out.status.success(),
        "{program} {}: {}: {}",
        args.join(" "),
        out.status,
        String::from_utf8_lossy(&out.stderr).trim()
    );
    Ok(())
}
