// SPDX-License-Identifier: GPL-2.0-only
//! A transient scope from systemd: the caller's own manager, or the system's for root.

use crate::failure::Failure;
use crate::{host, runtime};
use futures_util::StreamExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use zbus::Connection;
use zbus::connection::Builder;

/// How long systemd may take to make a scope.
const PATIENCE: Duration = Duration::from_secs(30);

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1"
)]
trait Manager {
    #[allow(clippy::type_complexity)]
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[(&str, zbus::Variant<'_>)],
        aux: &[(&str, Vec<(&str, zbus::Variant<'_>)>)],
    ) -> zbus::Result<zbus::OwnedObjectPath>;

    #[zbus(signal)]
    fn job_removed(
        &self,
        id: u32,
        job: zbus::ObjectPath<'_>,
        unit: &str,
        result: &str,
    ) -> zbus::Result<()>;
}

/// Makes a scope with this process in it; its cgroup, relative to the cgroup root.
pub fn enter(name: Option<&str>) -> Result<String, Failure> {
    // Of `alice/web` what is behind the /: no unit has one in its name.
    let name = name.and_then(|n| n.rsplit('/').next()).unwrap_or("run");
    let unit = format!("tix-{name}-{}.scope", std::process::id());
    let made = runtime::wait(async {
        match timeout(PATIENCE, start(&unit)).await {
            Ok(made) => made,
            Err(_) => Err(refused(format!(
                "no answer within {} s",
                PATIENCE.as_secs()
            ))),
        }
    });
    made?;
    match host::own_cgroup(Path::new("/")) {
        Some(cgroup) if cgroup.ends_with(&format!("/{unit}")) => Ok(cgroup),
        other => Err(refused(format!(
            "it says {unit} is made, but this process is in {}",
            other.unwrap_or_default()
        ))),
    }
}

async fn start(unit: &str) -> Result<(), Failure> {
    let bus = connect().await?;
    let failed = |err: zbus::Error| refused(reason(&err));
    let manager = ManagerProxy::new(&bus).await.map_err(failed)?;
    let mut removed = manager.receive_job_removed().await.map_err(failed)?;
    let properties = [
        (
            "Description",
            zbus::Variant::from("A command run by tixctl"),
        ),
        // Whoever asks: our number is another process's where systemd is in another PID namespace.
        ("PIDs", zbus::Variant::from(vec![0u32])),
        // A currency of its own needs the cpu controller; and the command may make cgroups of its
        // own.
        ("Delegate", zbus::Variant::from(true)),
        ("CollectMode", zbus::Variant::from("inactive-or-failed")),
    ];
    let job = manager
        .start_transient_unit(unit, "fail", &properties, &[])
        .await
        .map_err(failed)?;
    while let Some(signal) = removed.next().await {
        let signal = signal.args().map_err(failed)?;
        if signal.job.as_str() == job.as_str() {
            return match signal.result {
                "done" => Ok(()),
                result => Err(refused(format!("its job for {unit} ended as {result}"))),
            };
        }
    }
    Err(refused("it closed the connection".into()))
}

/// The caller's systemd over its user bus, the system's over the system bus, or directly where
/// there is no bus.
async fn connect() -> Result<Connection, Failure> {
    let uid = rustix::process::geteuid();
    let (bus, private) = match uid.is_root() {
        true => (
            "/run/dbus/system_bus_socket".to_owned(),
            "/run/systemd/private".to_owned(),
        ),
        false => {
            let directory = format!("/run/user/{}", uid.as_raw());
            (
                format!("{directory}/bus"),
                format!("{directory}/systemd/private"),
            )
        }
    };
    let failed = |err: zbus::Error| refused(reason(&err));
    if Path::new(&bus).exists() {
        let address = format!("unix:path={bus}");
        return Builder::address(address.as_str())
            .build()
            .await
            .map_err(failed);
    }
    if Path::new(&private).exists() {
        let address = format!("unix:path={private}");
        return Builder::address(address.as_str())
            .p2p()
            .build()
            .await
            .map_err(failed);
    }
    Err(match uid.is_root() {
        true => refused(format!("there is neither {bus} nor {private}")),
        false => Failure::refused(
            format!(
                "no systemd of your own runs (there is no {bus}), and the cgroup tree gives you \
                 no place to make a cgroup"
            ),
            "log in properly instead of through su (`machinectl shell`, ssh), install \
             dbus-user-session, or have root run `loginctl enable-linger` for you",
        ),
    })
}

fn reason(err: &zbus::Error) -> String {
    match err {
        zbus::Error::MethodError(name, Some(text), _) => format!("{text} ({name})"),
        err => err.to_string(),
    }
}

fn refused(why: String) -> Failure {
    Failure::refused(
        format!("systemd did not make a scope for the command: {why}"),
        "does `systemd-run --scope true` work (with --user, unless you are root)? `tixctl doctor` \
         may know more",
    )
}
