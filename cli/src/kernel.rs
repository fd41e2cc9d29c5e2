// SPDX-License-Identifier: GPL-2.0-only
//! Which scheduler is in force, as the kernel says: nothing here asks tixd.

use serde::Serialize;
use std::fs;
use std::path::Path;

/// The name of tix's scheduler in the kernel.
pub const OPS: &str = "tix";

/// The kernel's view of sched_ext.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchedExt {
    /// tix's scheduler is in force.
    pub in_force: bool,
    /// `enabled`, `enabling`, `disabled`, `disabling`, or `unsupported` without sched_ext.
    pub state: String,
    /// The name of the sched_ext scheduler that is loaded; null without one.
    pub ops: Option<String>,
    /// It has only those threads that ask for it (SCHED_EXT).
    pub partial: bool,
}

/// Reads `sys/kernel/sched_ext` below `root` (`/`, except in tests).
pub fn sched_ext(root: &Path) -> SchedExt {
    let dir = root.join("sys/kernel/sched_ext");
    let read = |file: &str| {
        let text = fs::read_to_string(dir.join(file)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let state = read("state").unwrap_or_else(|| "unsupported".into());
    let ops = read("root/ops");
    SchedExt {
        in_force: state == "enabled" && ops.as_deref() == Some(OPS),
        partial: state == "enabled" && read("switch_all").as_deref() == Some("0"),
        state,
        ops,
    }
}

impl SchedExt {
    /// The scheduler that is in force in tix's place.
    pub fn other(&self) -> Option<&str> {
        let enabled = self.state == "enabled" && !self.in_force;
        self.ops.as_deref().filter(|_| enabled)
    }

    /// One sentence.
    pub fn sentence(&self) -> String {
        match (self.state.as_str(), self.ops.as_deref()) {
            _ if self.in_force && self.partial => {
                "tix's scheduler is in force, for threads that ask for it (SCHED_EXT) alone".into()
            }
            _ if self.in_force => "tix's scheduler is in force".into(),
            ("unsupported", _) => {
                "the kernel has no sched_ext, so its own scheduler is in force".into()
            }
            ("enabled", Some(ops)) => format!("another sched_ext scheduler is in force: {ops}"),
            (state @ ("enabling" | "disabling"), Some(ops)) => {
                format!("the kernel is {state} the scheduler {ops}")
            }
            _ => "no sched_ext scheduler is loaded, so the kernel's own is in force".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(state: Option<&str>, ops: Option<&str>) -> SchedExt {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/kernel/sched_ext");
        if let Some(state) = state {
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("state"), format!("{state}\n")).unwrap();
        }
        if let Some(ops) = ops {
            fs::create_dir_all(dir.join("root")).unwrap();
            fs::write(dir.join("root/ops"), format!("{ops}\n")).unwrap();
        }
        sched_ext(root.path())
    }

    #[test]
    fn only_an_enabled_scheduler_called_tix_is_in_force() {
        assert!(host(Some("enabled"), Some("tix")).in_force);
        for (state, ops) in [
            (None, None),
            (Some("disabled"), None),
            (Some("enabling"), Some("tix")),
            (Some("disabling"), Some("tix")),
            (Some("enabled"), Some("flatcg")),
            (Some("enabled"), Some("tixy")),
            (Some("enabled"), None),
        ] {
            assert!(!host(state, ops).in_force, "{state:?} {ops:?}");
        }
    }

    #[test]
    fn who_has_only_some_threads_is_told_so() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/kernel/sched_ext");
        fs::create_dir_all(dir.join("root")).unwrap();
        for (file, text) in [
            ("state", "enabled"),
            ("root/ops", "tix"),
            ("switch_all", "0"),
        ] {
            fs::write(dir.join(file), text).unwrap();
        }
        let found = sched_ext(root.path());
        assert!(found.in_force && found.partial);
        assert!(found.sentence().contains("SCHED_EXT"));
    }

    #[test]
    fn the_sentence_names_the_other_scheduler() {
        assert_eq!(
            host(Some("enabled"), Some("flatcg")).sentence(),
            "another sched_ext scheduler is in force: flatcg"
        );
        assert!(host(None, None).sentence().contains("no sched_ext"));
    }
}
