// SPDX-License-Identifier: GPL-2.0-only
//! Weights for the disk (Sullivan §4.5), as [`super::weight`] wants them, and what in the kernel
//! makes them shares: iocost or BFQ, device by device. Without either a weight is a number in a
//! file.

use super::Error;
use super::files::{enable, set};
use super::weight::MOST;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tix_cgroupfs::{DISK_WEIGHTS, Root};

/// The largest weight that BFQ takes.
const MOST_OF_BFQ: u64 = 1_000;

/// What shares a device among cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Iocost,
    Bfq,
    None,
}

/// A block device.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// As in /dev and in /sys/block: `vda`.
    pub name: String,
    /// `254:0`
    pub number: String,
    pub mechanism: Mechanism,
    /// iocost's present rate, per cent of what its model says.
    pub rate: Option<f64>,
    /// Can BFQ be chosen for it?
    pub has_bfq: bool,
    /// What is in io.cost.qos about it.
    pub qos: Option<String>,
}

/// What is known of the machine's disks.
#[derive(Debug, Default)]
pub struct Disk {
    sys: PathBuf,
    devices: Vec<Device>,
    /// The kernel has iocost.
    pub has_iocost: bool,
    seen: Option<Instant>,
}

/// Others than tixd may have changed it meanwhile.
const STALE: Duration = Duration::from_secs(10);

impl Disk {
    pub fn is_stale(&self) -> bool {
        self.seen.is_none_or(|at| at.elapsed() > STALE)
    }

    /// `sys`: /sys.
    pub fn new(sys: &Path) -> Disk {
        Disk {
            sys: sys.to_owned(),
            ..Disk::default()
        }
    }

    /// Reads which devices there are and what is in force for each. What cannot be read is not in
    /// force.
    pub fn look(&mut self, root: &Root) {
        let top = root.cgroup("/");
        let read = |file: &str| {
            let text = top.as_ref().map(|c| c.read(file));
            text.ok().and_then(Result::ok)
        };
        let (qos, stat) = (read("io.cost.qos"), read("io.stat"));
        self.has_iocost = qos.is_some();
        let entries = std::fs::read_dir(self.sys.join("block")).into_iter();
        let names = (entries.flatten().flatten())
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|n| {
                !["loop", "ram", "zram", "sr", "fd"]
                    .iter()
                    .any(|p| is_of(n, p))
            });
        let mut devices: Vec<Device> = names
            .filter_map(|name| {
                let dir = self.sys.join("block").join(&name);
                // What is made of other devices is shared where those are.
                if dir.join("dm").exists() || dir.join("md").exists() {
                    return None;
                }
                let text = |file: &str| std::fs::read_to_string(dir.join(file));
                let number = text("dev").ok()?.trim().to_owned();
                let scheduler = text("queue/scheduler").unwrap_or_default();
                let of_device = |all: &Option<String>| {
                    let all = all.as_deref().unwrap_or_default();
                    let its = all.lines().find_map(|l| {
                        let rest = l.strip_prefix(number.as_str())?;
                        rest.strip_prefix(' ').map(str::to_owned)
                    });
                    its.unwrap_or_default()
                };
                let its_qos = of_device(&qos);
                let mechanism = if value(&its_qos, "enable") == Some("1") {
                    Mechanism::Iocost
                } else if scheduler.contains("[bfq]") {
                    Mechanism::Bfq
                } else {
                    Mechanism::None
                };
                Some(Device {
                    name,
                    mechanism,
                    rate: value(&of_device(&stat), "cost.vrate").and_then(|r| r.parse().ok()),
                    has_bfq: scheduler.contains("bfq"),
                    qos: Some(its_qos).filter(|q| !q.is_empty()),
                    number,
                })
            })
            .collect();
        self.seen = Some(Instant::now());
        devices.sort_by(|a, b| a.name.cmp(&b.name));
        self.devices = devices;
    }

    /// What a cgroup's file says when `weight` has been written, by tixd.
    pub fn shown(&self, weight: u64) -> u64 {
        match self.has_iocost {
            true => clamped(DISK_WEIGHTS[0], weight),
            false => clamped(DISK_WEIGHTS[1], weight),
        }
    }

    /// The same, by systemd when it is told `IOWeight=`: for BFQ it maps what is above 100 in a way
    /// of its own, 300 to 118.
    pub fn shown_by_systemd(&self, weight: u64) -> u64 {
        match self.has_iocost || weight <= 100 {
            true => self.shown(weight),
            false => 100 + (weight.min(MOST) - 100) * (MOST_OF_BFQ - 100) / (MOST - 100),
        }
    }

    /// What systemd is to be told so that a cgroup's file says `shown`.
    pub fn for_systemd(&self, shown: u64) -> u64 {
        match self.has_iocost || shown <= 100 {
            true => shown,
            false => 100 + (shown.min(MOST_OF_BFQ) - 100) * (MOST - 100) / (MOST_OF_BFQ - 100),
        }
    }

    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The largest weight that all of what is in force takes.
    pub fn most(&self) -> u64 {
        let by_bfq = |d: &Device| d.mechanism == Mechanism::Bfq;
        match !self.has_iocost || self.devices.iter().any(by_bfq) {
            true => MOST_OF_BFQ,
            false => MOST,
        }
    }
}

/// `vda` is of `vd`, `loop0` of `loop`, `srv` not of `sr`.
fn is_of(name: &str, prefix: &str) -> bool {
    let number = name.strip_prefix(prefix);
    number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}

/// The value of `key` among `key=value …`.
pub(crate) fn value<'a>(pairs: &'a str, key: &str) -> Option<&'a str> {
    pairs.split_whitespace().find_map(|pair| {
        let (k, v) = pair.split_once('=')?;
        (k == key).then_some(v)
    })
}

/// A weight for all devices that a file names no other for.
fn parse(text: &str) -> Option<u64> {
    let first = text.lines().next()?;
    let number = first.strip_prefix("default ").unwrap_or(first);
    number.trim().parse().ok()
}

fn clamped(file: &str, weight: u64) -> u64 {
    match file {
        "io.weight" => weight.clamp(1, MOST),
        _ => weight.clamp(1, MOST_OF_BFQ),
    }
}

/// Sets the weight of the cgroup `path` for every device, 1 … 10,000, of iocost and of BFQ,
/// whichever the kernel has; enables the io controller where it is off.
///
/// # Errors
/// When it is not so afterwards; what was written stays.
pub fn put(root: &Root, path: &str, weight: u64) -> Result<(), Error> {
    match put_all(root, path, weight)? {
        0 => {}
        _ => return Ok(()),
    }
    enable(root, path, "io")?;
    match put_all(root, path, weight)? {
        0 => Err(Error::Missing {
            path: root
                .path()
                .join(path.trim_start_matches('/'))
                .join("io.weight"),
            config: "CONFIG_BLK_CGROUP_IOCOST",
        }),
        _ => Ok(()),
    }
}

/// How many files there were for it.
fn put_all(root: &Root, path: &str, weight: u64) -> Result<usize, Error> {
    let cgroup = root.cgroup(path)?;
    let mut there = 0;
    for file in DISK_WEIGHTS {
        let weight = clamped(file, weight);
        match set(&cgroup, file, (weight, &format!("default {weight}")), parse) {
            Ok(()) => there += 1,
            Err(Error::File(e)) if e.is_gone() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(there)
}

/// Does BFQ's file say the same? systemd maps weights to it in a way of its own, by which 300 to
/// 100 is 118 to 100.
pub fn agrees(root: &Root, path: &str, weight: u64) -> bool {
    let file = DISK_WEIGHTS[1];
    let text = root.cgroup(path).and_then(|c| c.read(file));
    text.map_or(true, |t| parse(&t) == Some(clamped(file, weight)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, read_to_string, write};

    #[test]
    fn which_mechanism_holds_which_device() {
        let dir = tempfile::tempdir().unwrap();
        let (sys, tree) = (dir.path().join("sys"), dir.path().join("tree"));
        for (name, number, scheduler) in [
            ("vda", "254:0", "[none] mq-deadline bfq"),
            ("vdb", "254:16", "none [bfq]"),
            ("sdc", "8:32", "[none] mq-deadline"),
            ("loop0", "7:0", "[none]"),
        ] {
            let at = sys.join("block").join(name);
            create_dir_all(at.join("queue")).unwrap();
            write(at.join("dev"), format!("{number}\n")).unwrap();
            write(at.join("queue/scheduler"), format!("{scheduler}\n")).unwrap();
        }
        create_dir_all(&tree).unwrap();
        let root = Root::open_any(&tree).unwrap();
        let mut disk = Disk::new(&sys);
        disk.look(&root);
        assert!(!disk.has_iocost);
        let qos =
            "254:0 enable=1 ctrl=user rpct=0.00 min=100.00 max=100.00\n8:32 enable=0 ctrl=auto\n";
        write(tree.join("io.cost.qos"), qos).unwrap();
        write(
            tree.join("io.stat"),
            "254:0 rbytes=1 cost.vrate=97.50 cost.usage=3\n",
        )
        .unwrap();
        disk.look(&root);
        let found: Vec<_> = (disk.devices().iter())
            .map(|d| (d.name.as_str(), d.mechanism, d.rate, d.has_bfq))
            .collect();
        let wanted = [
            ("sdc", Mechanism::None, None, false),
            ("vda", Mechanism::Iocost, Some(97.5), true),
            ("vdb", Mechanism::Bfq, None, true),
        ];
        assert_eq!(found, wanted);
        assert!(disk.has_iocost);
        assert_eq!((disk.most(), disk.shown(5_000)), (1_000, 5_000));
        disk.has_iocost = false;
        let shown = [50, 300, 10_000].map(|n| (disk.shown(n), disk.shown_by_systemd(n)));
        assert_eq!(shown, [(50, 50), (300, 118), (1_000, 1_000)]);
    }

    #[test]
    fn a_weight_goes_into_every_file_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open_any(dir.path()).unwrap();
        let file = |name: &str| dir.path().join("a").join(name);
        create_dir_all(dir.path().join("a")).unwrap();
        write(dir.path().join("cgroup.subtree_control"), "cpu io\n").unwrap();
        let missing = put(&root, "/a", 300).unwrap_err();
        assert!(matches!(missing, Error::Missing { .. }), "{missing}");
        write(file("io.weight"), "default 300\n8:0 20\n").unwrap();
        // Right as it is.
        put(&root, "/a", 300).unwrap();
        assert_eq!(
            read_to_string(file("io.weight")).unwrap(),
            "default 300\n8:0 20\n"
        );
        assert!(agrees(&root, "/a", 300));
        write(file("io.bfq.weight"), "118\n").unwrap();
        assert!(!agrees(&root, "/a", 300));
        put(&root, "/a", 300).unwrap();
        assert_eq!(
            read_to_string(file("io.bfq.weight")).unwrap(),
            "default 300"
        );
        write(file("io.weight"), "default 300\n").unwrap();
        put(&root, "/a", 5_000).unwrap();
        assert_eq!(read_to_string(file("io.weight")).unwrap(), "default 5000");
        assert_eq!(
            read_to_string(file("io.bfq.weight")).unwrap(),
            "default 1000"
        );
        assert!(put(&root, "/b", 1).is_err());
    }
}
