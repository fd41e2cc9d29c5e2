// SPDX-License-Identifier: GPL-2.0-only
//! Files of cgroups that are missing, may not be written, or say no: `status` says it, the rest is in force, and what was wanted comes
//! when it can.

use std::fs;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tix_tests::daemon::{Checks, sh, tixctl, until};

use tix_tests::alone::{ROOT, cgroups, file, problems, tixd as start, write};

const SOON: Duration = Duration::from_secs(60);
const M: u64 = 1 << 20;

pub fn all(c: &mut Checks) {
    let mut tixd = None;
    c.check("setup: install and start", || {
        tixd = Some(start()?);
        cgroups(&["/in", "/away"])?;
        write("/in", "cgroup.subtree_control", "+cpu +memory +io")?;
        cgroups(&["/in/x", "/in/y"])?;
        for name in ["x", "y"] {
            tixctl(&format!("create {name}"))?.ok()?;
            tixctl(&format!("bind {name} /in/{name}"))?.ok()?;
        }
        ensure!(problems()? == "[]", "{}", problems()?);
        Ok(())
    });
    c.check("read-only", || {
        let over = Over::mount("/in/x/memory.min", &format!("{ROOT}/in/x/memory.min"))?;
        sh(&format!("mount -o remount,bind,ro {ROOT}/in/x/memory.min"))?.ok()?;
        refused(over, "Read-only file system")
    });
    c.check("EINVAL", || {
        refused(
            Over::mount("/in/x/memory.min", &format!("{ROOT}/in/y/cgroup.type"))?,
            "cgroup",
        )
    });
    c.check("ENODEV", || {
        write("/", "cgroup.subtree_control", "+memory")?;
        let over = Over::mount("/in/x/memory.min", &format!("{ROOT}/away/memory.min"))?;
        fs::remove_dir(format!("{ROOT}/away"))?;
        refused(over, "No such device")
    });
    // No file of a cgroup answers a number so; the size of the trace's buffers does, while somebody reads them.
    c.check("EBUSY", || {
        let _reader = fs::File::open("/sys/kernel/tracing/trace")?;
        refused(
            Over::mount("/in/x/memory.min", "/sys/kernel/tracing/buffer_size_kb")?,
            "busy",
        )
    });
    c.check("missing", || {
        fs::create_dir_all("/run/nothing")?;
        refused(Over::mount("/in/x", "/run/nothing")?, "/in/x")
    });
    c.check("a weight for the disk", || {
        let over = Over::mount("/in/x/io.weight", &format!("{ROOT}/in/x/io.weight"))?;
        sh(&format!("mount -o remount,bind,ro {ROOT}/in/x/io.weight"))?.ok()?;
        tixctl("fund x --from base disk 300")?.ok()?;
        tixctl("fund y --from base disk 100")?.ok()?;
        until("status says it", SOON, || {
            Ok(problems()?.contains("/in/x/io.weight"))
        })?;
        // With a problem it is no success, and says all it can.
        ensure!(tixctl("tree -r disk")?.status == 0);
        drop(over);
        until("it comes when it can", SOON, || {
            Ok(problems()? == "[]" && file("/in/x", "io.weight")? == "default 1000")
        })?;
        ensure!(file("/in/y", "io.weight")? == "default 333");
        Ok(())
    });
    c.check("a controller that cannot be enabled", || {
        cgroups(&["/threads"])?;
        write("/threads", "cgroup.subtree_control", "+cpu")?;
        cgroups(&["/threads/z"])?;
        tixctl("create z")?.ok()?;
        tixctl("bind z /threads/z")?.ok()?;
        let sleeper = Sleeper(Command::new("sleep").arg("infinity").spawn()?);
        write("/threads", "cgroup.procs", &sleeper.0.id().to_string())?;
        tixctl("reserve z --from base memory 8M")?.ok()?;
        until("status says it", SOON, || {
            Ok(problems()?.contains("the memory controller cannot be enabled"))
        })?;
        drop(sleeper);
        until("it comes when it can", SOON, || {
            Ok(problems()? == "[]" && file("/threads/z", "memory.min")? == (8 * M).to_string())
        })
    });
}

/// With `over` in the way of x's guarantee: status says it with that word, y has its own, and x's comes when nothing is in the way.
fn refused(over: Over, word: &str) -> Result<()> {
    tixctl("reserve x --from base memory 8M")?.ok()?;
    tixctl("reserve y --from base memory 4M")?.ok()?;
    until("status says it", SOON, || {
        let said = problems()?;
        Ok(said.contains("/in/x") && said.contains(word))
    })
    .with_context(|| format!("{:?}", problems()))?;
    ensure!(file("/in/y", "memory.min")? == (4 * M).to_string());
    ensure!(file("/in", "memory.min")? == (12 * M).to_string());
    drop(over);
    until("it comes when it can", SOON, || {
        Ok(problems()? == "[]" && file("/in/x", "memory.min")? == (8 * M).to_string())
    })?;
    for name in ["x", "y"] {
        tixctl(&format!("unreserve {name} --from base memory"))?.ok()?;
        until("nothing is left of it", SOON, || {
            Ok(file(&format!("/in/{name}"), "memory.min")? == "0")
        })?;
    }
    Ok(())
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Another file in the place of a cgroup's.
struct Over(String);

impl Over {
    fn mount(file: &str, other: &str) -> Result<Over> {
        let at = format!("{ROOT}{file}");
        sh(&format!("mount --bind {other} {at}"))?.ok()?;
        Ok(Over(at))
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        let done = sh(&format!("umount {}", self.0));
        assert!(done.is_ok_and(|d| d.status == 0), "umount {}", self.0);
    }
}
