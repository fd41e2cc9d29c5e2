// SPDX-License-Identifier: GPL-2.0-only
//! Reading what is known of a principal from its cgroup, and from the file to which its program writes its progress.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use tix_negotiate::{Reading, counter, pressure, refaults};

/// The largest part of a file that is looked at, bytes.
const MOST: u64 = 64 << 10;

/// Why there may be no such file.
const GONE: &str = " (has the cgroup gone, or was the kernel started without psi=1?)";

/// Where it is read.
pub struct Files {
    cgroup: PathBuf,
    progress: Option<PathBuf>,
}

impl Files {
    /// `cgroup` is a path relative to `root`, the root of the cgroup tree; `None` if it leads elsewhere.
    pub fn new(root: &Path, cgroup: &str, progress: Option<PathBuf>) -> Option<Files> {
        let relative = Path::new(cgroup.trim_start_matches('/'));
        let inside = |c: Component| matches!(c, Component::Normal(_));
        relative.components().all(inside).then(|| Files {
            cgroup: root.join(relative),
            progress,
        })
    }

    /// What they say at `at`. Only pressure must be there: a cgroup without the memory controller has no refaults, and a program may say
    /// nothing yet.
    ///
    /// # Errors
    /// A pressure file cannot be read; which, and why.
    pub fn read(&self, at: Duration) -> Result<Reading, String> {
        let of = |name: &str| {
            let path = self.cgroup.join(name);
            let text = text(&path);
            text.map_err(|err| format!("cannot read {}: {err}{GONE}", path.display()))
        };
        let [cpu, io, memory] = ["cpu.pressure", "io.pressure", "memory.pressure"].map(of);
        let progress = self.progress.as_deref().and_then(|p| text(p).ok());
        Ok(Reading {
            at,
            progress: progress.as_deref().and_then(counter),
            pressure: [pressure(&cpu?), pressure(&io?), pressure(&memory?)],
            refaults: of("memory.stat").map_or(0, |text| refaults(&text)),
        })
    }
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::write;

    #[test]
    fn what_a_cgroup_says() {
        let root = tempfile::tempdir().unwrap();
        let cgroup = root.path().join("kv");
        std::fs::create_dir(&cgroup).unwrap();
        let progress = root.path().join("progress");
        let files = Files::new(root.path(), "/kv", Some(progress.clone())).unwrap();
        let at = Duration::from_secs(1);
        assert!(
            files
                .read(at)
                .unwrap_err()
                .contains("cpu.pressure: No such file")
        );
        for name in ["cpu", "io", "memory"] {
            write(
                cgroup.join(format!("{name}.pressure")),
                "some avg10=0.00 total=7\n",
            )
            .unwrap();
        }
        let reading = files.read(at).unwrap();
        assert_eq!((reading.progress, reading.refaults), (None, 0));
        assert!(reading.pressure.iter().all(|p| p.some == 7));
        write(cgroup.join("memory.stat"), "workingset_refault_file 5\n").unwrap();
        write(&progress, "00000000000000000042\n").unwrap();
        let reading = files.read(at).unwrap();
        assert_eq!((reading.progress, reading.refaults), (Some(42), 5));
        // However much there is.
        write(&progress, vec![b'9'; 1 << 20]).unwrap();
        assert_eq!(files.read(at).unwrap().progress, Some(u64::MAX));
        write(&progress, [0xff, 0]).unwrap();
        assert_eq!(files.read(at).unwrap().progress, None);
    }

    #[test]
    fn a_path_stays_in_the_tree() {
        let root = Path::new("/sys/fs/cgroup");
        for path in ["/../../etc", "/a/../..", "a/.."] {
            assert!(Files::new(root, path, None).is_none(), "{path}");
        }
        let at = |path| Files::new(root, path, None).unwrap().cgroup;
        assert_eq!(at("//etc"), root.join("etc"));
        assert_eq!(at("/a/b.slice"), root.join("a/b.slice"));
    }
}
