// SPDX-License-Identifier: GPL-2.0-only
//! The connection to tixd.

use crate::failure::Failure;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// How long tixd may take to answer before it counts as not reachable.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection, and the socket to name in errors.
pub struct Client {
    pub connection: zlink::tokio::unix::Connection,
    socket: PathBuf,
}

impl Client {
    pub async fn connect() -> Result<Client, Failure> {
        let socket = tix_api::socket_path();
        match timeout(PATIENCE, zlink::tokio::unix::connect(&socket)).await {
            Ok(Ok(connection)) => Ok(Client { connection, socket }),
            Ok(Err(err)) => Err(Failure::unreachable(&socket, reason(&err))),
            Err(_) => Err(Failure::unreachable(
                &socket,
                "it does not accept the connection",
            )),
        }
    }

    /// Calls a method and waits for its answer, for a bounded time.
    pub async fn call<'a, T, F>(
        &'a mut self,
        method: impl FnOnce(&'a mut zlink::tokio::unix::Connection) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = zlink::Result<Result<T, tix_api::Error>>>,
    {
        let Client { connection, socket } = self;
        match timeout(PATIENCE, method(connection)).await {
            Ok(Ok(answer)) => answer.map_err(Failure::from),
            Ok(Err(err)) => Err(wire(socket, &err)),
            Err(_) => Err(Failure::unreachable(
                socket,
                format!("no answer within {} s", PATIENCE.as_secs()),
            )),
        }
    }

    /// What an error of the connection itself means.
    pub fn lost(socket: &std::path::Path, err: &zlink::Error) -> Failure {
        wire(socket, err)
    }

    /// Gives up the connection with its socket's path, for a stream that outlives a call.
    pub fn into_parts(self) -> (zlink::tokio::unix::Connection, PathBuf) {
        (self.connection, self.socket)
    }
}

/// tixd's answer was an error that is not one of its own refusals.
fn wire(socket: &std::path::Path, err: &zlink::Error) -> Failure {
    match err {
        zlink::Error::VarlinkService(err) => Failure::refused(
            format!("tixd did not understand the request: {err:?}"),
            "are tixctl and tixd of the same version? `tixctl status` shows both",
        ),
        zlink::Error::UnknownErrorReply(name) => Failure::refused(
            format!("tixd refused with an error that this tixctl does not know: {name}"),
            "are tixctl and tixd of the same version? `tixctl status` shows both",
        ),
        err => Failure::unreachable(socket, reason(err)),
    }
}

fn reason(err: &zlink::Error) -> String {
    match err {
        zlink::Error::Io(err) => match err.kind() {
            std::io::ErrorKind::NotFound => "there is no such socket".into(),
            std::io::ErrorKind::ConnectionRefused => "nobody listens on that socket".into(),
            std::io::ErrorKind::PermissionDenied => "no permission to connect".into(),
            _ => err.to_string(),
        },
        zlink::Error::UnexpectedEof => "it closed the connection".into(),
        err => err.to_string(),
    }
}
