// SPDX-License-Identifier: GPL-2.0-only
//! Has the kernel share a disk by weights: by iocost, with a model of the device as it is measured
//! now, or by BFQ. One of them at a time; and when it does not work out, what was there before.

use super::disk::{Device, Mechanism};
use super::measure::{self, Speed};
use std::path::{Path, PathBuf};
use tix_cgroupfs::{self as cgroups, Root};

/// Per cent of the requests while it was measured that may have been others'.
const OTHERS: u64 = 10;

/// Why nothing holds shares of it now.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Iocost(#[from] cgroups::Error),
    #[error("{path}: {source}")]
    Bfq {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} cannot be measured: {source}")]
    Measure {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{others} of {all} requests while {path} was measured were others'")]
    Busy {
        path: PathBuf,
        others: u64,
        all: u64,
    },
}

/// What iocost was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub speed: Speed,
    pub model: String,
    pub qos: String,
}

/// Where the kernel has its files.
pub struct Places<'a> {
    pub cgroups: &'a Root,
    /// /sys
    pub sys: &'a Path,
    /// /dev
    pub dev: &'a Path,
}

impl Places<'_> {
    fn cost(&self, file: &str, line: &str) -> Result<(), Error> {
        let top = self.cgroups.cgroup("/")?;
        Ok(top.write(file, line)?)
    }

    fn queue(&self, device: &Device) -> PathBuf {
        self.sys.join("block").join(&device.name).join("queue")
    }

    /// Requests that the device has done so far.
    fn done(&self, device: &Device) -> Option<u64> {
        let path = self.sys.join("block").join(&device.name).join("stat");
        let text = std::fs::read_to_string(path).ok()?;
        let fields: Vec<u64> = text
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        Some(fields.first()? + fields.get(4)?)
    }

    /// Measures the device for some nine seconds, and turns on iocost with that.
    ///
    /// # Errors
    /// When the kernel has none, or when it cannot be measured or others use it meanwhile; then all
    /// is as before.
    pub fn iocost(&self, device: &Device) -> Result<Model, Error> {
        // It would be measured as slow as it is allowed to be.
        self.cost("io.cost.qos", &measure::qos(&device.number, false))?;
        let done = self.measured(device).and_then(|model| {
            self.cost("io.cost.model", &model.model)?;
            self.cost("io.cost.qos", &model.qos)?;
            Ok(model)
        });
        match &done {
            Ok(_) => {
                if let Err(e) = self.without_bfq(device) {
                    tracing::warn!("{e}");
                }
            }
            Err(_) => {
                if let Some(qos) = &device.qos {
                    let line = format!("{} {qos}", device.number);
                    // What went wrong first is what is said.
                    let _ = self.cost("io.cost.qos", &line);
                }
            }
        }
        done
    }

    fn measured(&self, device: &Device) -> Result<Model, Error> {
        let path = self.dev.join(&device.name);
        let before = self.done(device);
        let (speed, own) = measure::measure(&path).map_err(|source| Error::Measure {
            path: path.clone(),
            source,
        })?;
        let all = before.zip(self.done(device)).map_or(0, |(a, b)| b - a);
        let others = all.saturating_sub(own);
        if others * 100 > all * OTHERS {
            return Err(Error::Busy { path, others, all });
        }
        Ok(Model {
            speed,
            model: speed.model(&device.number),
            qos: measure::qos(&device.number, true),
        })
    }

    /// Turns off what holds shares of the device.
    ///
    /// # Errors
    /// When the kernel does not let go of it.
    pub fn off(&self, device: &Device) -> Result<(), Error> {
        match device.mechanism {
            Mechanism::Iocost => self.cost("io.cost.qos", &measure::qos(&device.number, false)),
            Mechanism::Bfq => self.without_bfq(device),
            Mechanism::None => Ok(()),
        }
    }

    /// Both would hold back who has had its part by either.
    fn without_bfq(&self, device: &Device) -> Result<(), Error> {
        let path = self.queue(device).join("scheduler");
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        if known.contains("[bfq]") {
            let other = ["mq-deadline", "none"]
                .into_iter()
                .find(|s| known.contains(s));
            let written = std::fs::write(&path, other.unwrap_or("none"));
            written.map_err(|source| Error::Bfq { path, source })?;
        }
        Ok(())
    }

    /// Chooses BFQ, by its weights alone.
    ///
    /// # Errors
    /// When the kernel lacks it; then all is as before.
    pub fn bfq(&self, device: &Device) -> Result<(), Error> {
        let queue = self.queue(device);
        let write = |file: &str, text: &str| {
            let path = queue.join(file);
            std::fs::write(&path, text).map_err(|source| Error::Bfq { path, source })
        };
        let known = std::fs::read_to_string(queue.join("scheduler")).unwrap_or_default();
        let before = known.split_once('[').and_then(|(_, s)| s.split_once(']'));
        write("scheduler", "bfq")?;
        // Latency for who does little costs shares; and without the last its queue may be filled by
        // one.
        let shares = write("iosched/low_latency", "0")
            .and_then(|()| write("iosched/strict_guarantees", "1"));
        if let (Err(_), Some((before, _))) = (&shares, before) {
            write("scheduler", before)?;
        }
        shares?;
        if device.mechanism == Mechanism::Iocost {
            self.cost("io.cost.qos", &measure::qos(&device.number, false))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, read_to_string, write};

    fn device(qos: Option<&str>) -> Device {
        Device {
            name: "vda".into(),
            number: "254:0".into(),
            mechanism: Mechanism::Iocost,
            rate: None,
            has_bfq: true,
            qos: qos.map(str::to_owned),
        }
    }

    #[test]
    fn what_does_not_work_out_leaves_what_was() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        create_dir_all(&tree).unwrap();
        write(tree.join("io.cost.qos"), "").unwrap();
        let root = Root::open_any(&tree).unwrap();
        let places = Places {
            cgroups: &root,
            sys: dir.path(),
            dev: dir.path(),
        };
        let missing = places.iocost(&device(Some("enable=1 ctrl=user min=50.00")));
        assert!(matches!(missing, Err(Error::Measure { .. })), "{missing:?}");
        let qos = || read_to_string(tree.join("io.cost.qos")).unwrap();
        assert!(qos().starts_with("254:0 enable=1 ctrl=user min=50.00"));
        // Without BFQ iocost goes on.
        assert!(places.bfq(&device(None)).is_err());
        assert!(qos().starts_with("254:0 enable=1 ctrl=user min=50.00"));
        create_dir_all(dir.path().join("block/vda/queue/iosched")).unwrap();
        places.bfq(&device(None)).unwrap();
        assert!(qos().starts_with("254:0 enable=0 "));
    }

    #[test]
    fn what_holds_shares_is_turned_off() {
        let dir = tempfile::tempdir().unwrap();
        let queue = dir.path().join("block/vda/queue");
        create_dir_all(&queue).unwrap();
        let files = [dir.path().join("io.cost.qos"), queue.join("scheduler")];
        let root = Root::open_any(dir.path()).unwrap();
        let places = Places {
            cgroups: &root,
            sys: dir.path(),
            dev: dir.path(),
        };
        for (mechanism, said) in [
            (Mechanism::None, ["", "none mq-deadline [bfq]"]),
            (Mechanism::Bfq, ["", "mq-deadline"]),
            (
                Mechanism::Iocost,
                ["254:0 enable=0 ", "none mq-deadline [bfq]"],
            ),
        ] {
            write(&files[0], "").unwrap();
            write(&files[1], "none mq-deadline [bfq]").unwrap();
            let device = Device {
                mechanism,
                ..device(None)
            };
            places.off(&device).unwrap();
            let [qos, scheduler] = files.each_ref().map(|f| read_to_string(f).unwrap());
            assert!(qos.starts_with(said[0]), "{mechanism:?}: {qos}");
            assert_eq!(qos.is_empty(), said[0].is_empty(), "{mechanism:?}");
            assert_eq!(scheduler, said[1], "{mechanism:?}");
        }
    }
}
