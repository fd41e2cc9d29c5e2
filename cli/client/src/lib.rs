// SPDX-License-Identifier: GPL-2.0-only
//! The connection to tixd, for tixctl and for what trades on a principal's behalf.

#![forbid(unsafe_code)]

pub mod place;
mod trust;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;
use zlink::tokio::unix::{Connection, Stream};

/// How long tixd may take to answer before it counts as not reachable.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// tixd understood, and refused.
    #[error(transparent)]
    Refused(#[from] tix_api::Error),
    /// It and the client do not speak the same language.
    #[error("{0}")]
    Strange(String),
    /// Nobody to ask. Once it was said on a connection, that is of no use any more.
    #[error("tixd cannot be reached at {}: {why}", .socket.display())]
    Unreachable { socket: PathBuf, why: String },
}

impl Error {
    pub fn unreachable(socket: &Path, why: impl std::fmt::Display) -> Error {
        Error::Unreachable {
            socket: socket.to_owned(),
            why: why.to_string(),
        }
    }

    /// What happened, and to whom.
    pub fn message(&self) -> String {
        match self {
            Error::Refused(err) => err.message().to_owned(),
            other => other.to_string(),
        }
    }

    /// What to do about it; may be empty.
    pub fn hint(&self) -> &str {
        match self {
            Error::Refused(err) => err.hint(),
            Error::Strange(_) => {
                "are this program and tixd of the same version? `tixctl status` shows tixd's"
            }
            Error::Unreachable { .. } => {
                "start it with `systemctl start tixd`, or as root with `tixd &` where there is no systemd; if it listens elsewhere, \
                 set TIX_SOCKET"
            }
        }
    }
}

/// A connection, and the socket to name in errors.
pub struct Client {
    pub connection: Connection,
    /// tixd calls cgroups by other names than this process: see `place`.
    pub is_outside: bool,
    socket: PathBuf,
}

impl Client {
    /// To the socket that [`tix_api::socket_path`] says.
    pub async fn connect() -> Result<Client, Error> {
        let socket = tix_api::socket_path();
        let stream = match timeout(PATIENCE, UnixStream::connect(&socket)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(err)) => return Err(Error::unreachable(&socket, reason(&err.into()))),
            Err(_) => {
                let why = "it does not accept the connection";
                return Err(Error::unreachable(&socket, why));
            }
        };
        let failed = |err: &zlink::Error| Error::unreachable(&socket, reason(err));
        let peer = stream.peer_cred().map_err(|err| failed(&err.into()))?;
        let server = peer.uid();
        if !trust::is_ours(server) {
            let why = format!("it is uid {server} who listens there, neither root nor you");
            return Err(Error::unreachable(&socket, why));
        }
        let stream = Stream::try_from(stream).map_err(|err| failed(&err))?;
        let connection = Connection::new(stream);
        Ok(Client {
            connection,
            is_outside: place::is_outside(peer.pid().unwrap_or(0)),
            socket,
        })
    }

    /// Calls a method and waits for its answer, for a bounded time.
    pub async fn call<'a, T, F>(
        &'a mut self,
        method: impl FnOnce(&'a mut Connection) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = zlink::Result<Result<T, tix_api::Error>>>,
    {
        let Client {
            connection, socket, ..
        } = self;
        match timeout(PATIENCE, method(connection)).await {
            Ok(Ok(answer)) => answer.map_err(Error::from),
            Ok(Err(err)) => Err(Client::lost(socket, &err)),
            Err(_) => Err(Error::unreachable(
                socket,
                format!("no answer within {} s", PATIENCE.as_secs()),
            )),
        }
    }

    /// What an error of the connection itself means: tixd's answer was none of its own refusals.
    pub fn lost(socket: &Path, err: &zlink::Error) -> Error {
        match err {
            zlink::Error::VarlinkService(err) => {
                Error::Strange(format!("tixd did not understand the request: {err:?}"))
            }
            zlink::Error::UnknownErrorReply(name) => Error::Strange(format!(
                "tixd refused with an error that is not known here: {name}"
            )),
            err => Error::unreachable(socket, reason(err)),
        }
    }

    /// Gives up the connection with its socket's path, for a stream that outlives a call.
    pub fn into_parts(self) -> (Connection, PathBuf) {
        (self.connection, self.socket)
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
