// SPDX-License-Identifier: GPL-2.0-only
//! Where systemd owns the tree: ask it, over D-Bus, instead of writing behind its back.

use std::path::Path;

/// Is systemd PID 1 here?
pub fn is_running() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Manager {
    fn get_unit(&self, name: &str) -> zbus::Result<zbus::OwnedObjectPath>;
    fn set_unit_properties(
        &self,
        name: &str,
        runtime: bool,
        properties: &[(&str, zbus::Variant<'_>)],
    ) -> zbus::Result<()>;
}

#[derive(Debug, thiserror::Error)]
#[error("systemd, about {unit}: {source}")]
pub struct Error {
    unit: String,
    source: zbus::Error,
}

/// The control group of a loaded unit, `None` if there is no such unit or it has none.
pub async fn cgroup_of(unit: &str) -> Result<Option<String>, Error> {
    let at = |source| Error {
        unit: unit.to_owned(),
        source,
    };
    let bus = zbus::Connection::system().await.map_err(at)?;
    let manager = ManagerProxy::new(&bus).await.map_err(at)?;
    let Ok(path) = manager.get_unit(unit).await else {
        return Ok(None);
    };
    let interface = match unit.rsplit_once('.').map(|(_, suffix)| suffix) {
        Some("slice") => "org.freedesktop.systemd1.Slice",
        Some("scope") => "org.freedesktop.systemd1.Scope",
        Some("socket") => "org.freedesktop.systemd1.Socket",
        _ => "org.freedesktop.systemd1.Service",
    };
    let proxy = zbus::Proxy::new(&bus, "org.freedesktop.systemd1", path, interface)
        .await
        .map_err(at)?;
    let group: String = proxy.get_property("ControlGroup").await.map_err(at)?;
    Ok(Some(group).filter(|g| !g.is_empty()))
}

/// Has systemd enable the cpu controller for `unit` and everything above it, until the next boot. Setting a weight, even the default one, is how systemd is asked.
pub async fn enable_cpu(unit: &str) -> Result<(), Error> {
    let at = |source| Error {
        unit: unit.to_owned(),
        source,
    };
    let bus = zbus::Connection::system().await.map_err(at)?;
    let manager = ManagerProxy::new(&bus).await.map_err(at)?;
    let weight = zbus::Variant::from(100u64);
    manager
        .set_unit_properties(unit, true, &[("CPUWeight", weight)])
        .await
        .map_err(at)
}
