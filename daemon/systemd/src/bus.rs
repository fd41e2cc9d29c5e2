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

/// A connection to systemd.
pub struct Bus(zbus::Connection);

impl Bus {
    /// # Errors
    /// When D-Bus cannot be reached.
    pub async fn connect() -> Result<Bus, Error> {
        let bus = zbus::Connection::system().await;
        bus.map(Bus).map_err(|e| about("D-Bus", e))
    }

    /// Sets these properties of the unit whose cgroup `path` is, until the next boot. If there is
    /// no such unit nothing is done.
    ///
    /// # Errors
    /// What systemd says to it.
    pub async fn set(&self, path: &str, properties: &[(&str, u64)]) -> Result<(), Error> {
        let Some(unit) = unit_at(path) else {
            return Ok(());
        };
        // A cgroup below a delegated one may be called anything.
        if self.cgroup_of(unit).await?.as_deref() != Some(path) {
            return Ok(());
        }
        let properties: Vec<(&str, zbus::Variant<'_>)> = properties
            .iter()
            .map(|(name, n)| (*name, zbus::Variant::from(*n)))
            .collect();
        let at = |e| about(unit, e);
        let manager = ManagerProxy::new(&self.0).await.map_err(at)?;
        let set = manager.set_unit_properties(unit, true, &properties);
        set.await.map_err(at)
    }

    async fn cgroup_of(&self, unit: &str) -> Result<Option<String>, Error> {
        let at = |e| about(unit, e);
        let manager = ManagerProxy::new(&self.0).await.map_err(at)?;
        let Ok(path) = manager.get_unit(unit).await else {
            return Ok(None);
        };
        let interface = match unit.rsplit_once('.').map(|(_, suffix)| suffix) {
            Some("slice") => "org.freedesktop.systemd1.Slice",
            Some("scope") => "org.freedesktop.systemd1.Scope",
            Some("socket") => "org.freedesktop.systemd1.Socket",
            Some("mount") => "org.freedesktop.systemd1.Mount",
            Some("swap") => "org.freedesktop.systemd1.Swap",
            _ => "org.freedesktop.systemd1.Service",
        };
        let proxy = zbus::Proxy::new(&self.0, "org.freedesktop.systemd1", path, interface)
            .await
            .map_err(at)?;
        let group: String = proxy.get_property("ControlGroup").await.map_err(at)?;
        Ok(Some(group).filter(|g| !g.is_empty()))
    }
}

fn about(unit: &str, source: zbus::Error) -> Error {
    Error {
        unit: unit.to_owned(),
        source,
    }
}

/// The unit that a cgroup is called after, where the system's own systemd makes the cgroups: those
/// are in slices. A user's, and a container's, is another systemd.
pub fn unit_at(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    if !above
        .split('/')
        .all(|dir| dir.is_empty() || dir.ends_with(".slice"))
    {
        return None;
    }
    let (stem, kind) = name.rsplit_once('.')?;
    let kinds = ["service", "slice", "scope", "socket", "mount", "swap"];
    let known = !stem.is_empty() && kinds.contains(&kind);
    (known && !name.starts_with("user@")).then_some(name)
}

/// Was systemd told to set `property` whenever it makes the cgroup `path`?
pub fn is_set(path: &str, property: &str) -> bool {
    let dirs = ["/run/systemd/system.control", "/run/systemd/transient"];
    unit_at(path).is_some_and(|unit| {
        dirs.iter()
            .any(|dir| Path::new(&format!("{dir}/{unit}.d/50-{property}.conf")).exists())
    })
}

/// The control group of a loaded unit, `None` if there is no such unit or it has none.
pub async fn cgroup_of(unit: &str) -> Result<Option<String>, Error> {
    Bus::connect().await?.cgroup_of(unit).await
}

/// Has systemd enable the cpu controller for `unit` and everything above it, until the next boot.
/// Setting a weight, even the default one, is how systemd is asked.
pub async fn enable_cpu(unit: &str) -> Result<(), Error> {
    let at = |e| about(unit, e);
    let bus = Bus::connect().await?;
    let manager = ManagerProxy::new(&bus.0).await.map_err(at)?;
    let weight = zbus::Variant::from(tix_model::DEFAULT_CGROUP_WEIGHT);
    manager
        .set_unit_properties(unit, true, &[("CPUWeight", weight)])
        .await
        .map_err(at)
}

#[cfg(test)]
mod tests {
    use super::unit_at;

    #[test]
    fn cgroups_are_called_after_units_but_not_all_of_them() {
        for (path, unit) in [
            ("/system.slice/a.service", Some("a.service")),
            ("/user.slice", Some("user.slice")),
            ("/user.slice/user-1000.slice/user@1000.service", None),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice",
                None,
            ),
            (
                "/user.slice/user-1000.slice/session-3.scope",
                Some("session-3.scope"),
            ),
            ("/system.slice/a.service/inner", None),
            ("/system.slice/box.service/system.slice", None),
            ("/.slice", None),
            ("/", None),
        ] {
            assert_eq!(unit_at(path), unit, "{path}");
        }
    }
}
