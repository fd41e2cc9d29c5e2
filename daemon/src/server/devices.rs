// SPDX-License-Identifier: GPL-2.0-only
//! Has the kernel share a disk by weights. Only when root asks for it: it changes how fast the disk
//! is.

use super::decides;
use super::errors::bad;
use super::errors::internal;
use super::session::{Session, beside};
use super::view;
use crate::reconcile::disk::Device;
use crate::reconcile::enable::{self, Places};
use crate::writer::Core;
use std::path::Path;
use tix_api::{DiskDisableReply, DiskEnableReply, DiskMechanism, Error, shell};
use tix_cgroupfs::Root;

impl Session {
    /// Turns on iocost, with a model of the device as it is measured now, or BFQ.
    pub(super) async fn enable_disk(
        &self,
        name: String,
        bfq: bool,
    ) -> Result<DiskEnableReply, Error> {
        let typed = format!("tixctl disk enable {}", shell::word(&name));
        self.root_only("change how a disk is shared", &typed)?;
        let asked = move |core: &mut Core| {
            decides::may_write(core, "change how a disk is shared", "")?;
            device(core, &name).map(|found| (found, core.tree.root.path().to_owned()))
        };
        let (found, top) = self.ask(asked).await??;
        let what = match bfq {
            true => format!("BFQ holds shares of {} now", found.name),
            false => format!("iocost holds shares of {} now", found.name),
        };
        // A queue that changes its scheduler waits for what it has.
        let reply = beside(move || enable(&top, &found, bfq)).await??;
        self.handle
            .call(move |core| core.disk_changed(&what))
            .await
            .map_err(internal)?;
        Ok(reply)
    }

    /// Turns off whichever of the two is on.
    pub(super) async fn disable_disk(&self, name: String) -> Result<DiskDisableReply, Error> {
        let typed = format!("tixctl disk disable {}", shell::word(&name));
        self.root_only("change how a disk is shared", &typed)?;
        let asked = move |core: &mut Core| {
            decides::may_write(core, "change how a disk is shared", "")?;
            device(core, &name).map(|found| (found, core.tree.root.path().to_owned()))
        };
        let (found, top) = self.ask(asked).await??;
        let what = format!("nothing holds shares of {} any more", found.name);
        let reply = beside(move || disable(&top, &found)).await??;
        self.handle
            .call(move |core| core.disk_changed(&what))
            .await
            .map_err(internal)?;
        Ok(reply)
    }
}

fn disable(top: &Path, device: &Device) -> Result<DiskDisableReply, Error> {
    let root = Root::open_any(top).map_err(|e| refused(&e.into()))?;
    let places = Places {
        cgroups: &root,
        sys: Path::new("/sys"),
        dev: Path::new("/dev"),
    };
    places.off(device).map_err(|e| refused(&e))?;
    Ok(DiskDisableReply {
        was: view::mechanism(device.mechanism),
    })
}

fn enable(top: &Path, device: &Device, bfq: bool) -> Result<DiskEnableReply, Error> {
    let root = Root::open_any(top).map_err(|e| refused(&e.into()))?;
    let places = Places {
        cgroups: &root,
        sys: Path::new("/sys"),
        dev: Path::new("/dev"),
    };
    if bfq {
        places.bfq(device).map_err(|e| refused(&e))?;
        return Ok(DiskEnableReply {
            mechanism: DiskMechanism::Bfq,
            random_iops: None,
            sequential_iops: None,
            bytes_per_sec: None,
            model: None,
            qos: None,
        });
    }
    let done = places.iocost(device).map_err(|e| refused(&e))?;
    Ok(DiskEnableReply {
        mechanism: DiskMechanism::Iocost,
        random_iops: Some(done.speed.random),
        sequential_iops: Some(done.speed.sequential),
        bytes_per_sec: Some(done.speed.bytes),
        model: Some(done.model),
        qos: Some(done.qos),
    })
}

fn refused(e: &enable::Error) -> Error {
    let hint = match e {
        enable::Error::Iocost(_) => {
            "the kernel needs CONFIG_BLK_CGROUP_IOCOST; `tixctl disk enable DEVICE --bfq` does \
             without"
        }
        enable::Error::Bfq { .. } => "the kernel needs BFQ: modprobe bfq",
        enable::Error::Measure { .. } => "is it a disk, and is there a medium in it?",
        enable::Error::Busy { .. } => {
            "it would be taken for slower than it is: stop what uses it and ask again, or use \
             --bfq, which measures nothing"
        }
    };
    bad(e.to_string(), hint)
}

/// The device called `name`, as in /dev.
fn device(core: &mut Core, name: &str) -> Result<Device, Error> {
    core.disk.look(&core.tree.root);
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    let all = core.disk.devices();
    let found = all.iter().find(|d| d.name == short).cloned();
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|d| d.name.as_str()).collect();
        let hint = format!("there are whole disks only: {}", names.join(", "));
        bad(format!("there is no disk {name:?}"), &hint)
    })
}
