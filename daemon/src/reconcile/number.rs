// SPDX-License-Identifier: GPL-2.0-only
//! Writes and reads the files of cgroups that have one number.

use super::{Error, disk, memory};
use tix_cgroupfs::Root;
use tix_model::{DEFAULT_CGROUP_WEIGHT, File};

/// Writes `number` into `file` of the cgroup `path`.
pub fn put(file: File, root: &Root, path: &str, number: u64) -> Result<(), Error> {
    match file {
        File::CpuWeight => {
            let cgroup = root.cgroup(path)?;
            Ok(cgroup.write(file.name(), &number.to_string())?)
        }
        File::IoWeight => disk::put(root, path, number),
        File::MemoryMin | File::MemoryLow => memory::put(root, path, file.name(), number),
    }
}

/// What stands in `file` of the cgroup `path`.
pub fn read(file: File, root: &Root, path: &str) -> Result<u64, Error> {
    let cgroup = root.cgroup(path)?;
    match file {
        File::CpuWeight => Ok(cgroup.weight()?.unwrap_or(DEFAULT_CGROUP_WEIGHT)),
        File::IoWeight => Ok(cgroup.disk_weight()?.unwrap_or(DEFAULT_CGROUP_WEIGHT)),
        File::MemoryMin | File::MemoryLow => memory::read(&cgroup, file.name()),
    }
}

/// Will systemd set it again when the cgroup `path` comes back?
pub fn lasts(file: File, path: &str) -> bool {
    let property = file.property();
    property.is_some_and(|p| tix_systemd::is_set(path, p))
}
