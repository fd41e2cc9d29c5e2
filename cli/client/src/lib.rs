// SPDX-License-Identifier: GPL-2.0-only
//! The connection to tixd, for tixctl and for what trades on a principal's behalf.

#![forbid(unsafe_code)]

pub mod place;
mod trust;

use std::future::Future;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;
use zlink::tokio::unix::{Connection, Stream};

/// The socket that this process was told to use.
static SOCKET: OnceLock<PathBuf> = OnceLock::new();

/// Has this process speak to the tixd that listens at `socket`, whatever its environment says. It
/// counts the first time, for connections that are made later.
pub fn use_socket(socket: PathBuf) {
    // Whoever was first has said it.
    let _ = SOCKET.set(socket);
}

/// The socket that this process speaks to: what [`use_socket`] said, or [`tix_api::socket_path`].
pub fn socket() -> PathBuf {
    SOCKET.get().cloned().unwrap_or_else(tix_api::socket_path)
}

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
    #[error("tixd {}", .cause.says(socket))]
    Unreachable { socket: PathBuf, cause: Cause },
}

/// Why there is nobody to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// tixd does not listen, or has ended: why it seems so.
    Absent(String),
    /// It is there, and has not answered for so long.
    Slow(Duration),
    /// The socket is not for the caller.
    NotPermitted,
    /// Another uid's program listens there.
    Stranger(u32),
}

impl Cause {
    fn says(&self, socket: &Path) -> String {
        let at = socket.display();
        match self {
            Cause::Absent(why) => format!("cannot be reached at {at}: {why}"),
            Cause::Slow(time) => format!("has not answered at {at} within {} s", time.as_secs()),
            Cause::NotPermitted => {
                format!("cannot be reached at {at}: no permission to connect")
            }
            Cause::Stranger(uid) => format!(
                "cannot be reached at {at}: it is uid {uid} who listens there, neither root nor you"
            ),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Cause::Absent(_) => {
                "start it with `systemctl start tixd`, or as root with `tixd &` where there is no \
                 systemd; if it listens elsewhere, name its socket with --socket or TIX_SOCKET"
            }
            Cause::Slow(_) => {
                "it is there, and busy: try again; if it stays so, `journalctl -u tixd` says what \
                 keeps it, and `systemctl restart tixd` starts it anew (shares stay in force)"
            }
            Cause::NotPermitted => {
                "`ls -l` of the socket shows who may connect; is it tixd's own, as without \
                 --socket and TIX_SOCKET?"
            }
            Cause::Stranger(_) => {
                "leave out --socket and TIX_SOCKET, so that tixd's own socket is taken"
            }
        }
    }
}

impl Error {
    pub fn unreachable(socket: &Path, why: impl std::fmt::Display) -> Error {
        Error::because(socket, Cause::Absent(why.to_string()))
    }

    /// tixd has not answered for that long.
    pub fn slow(socket: &Path, time: Duration) -> Error {
        Error::because(socket, Cause::Slow(time))
    }

    fn because(socket: &Path, cause: Cause) -> Error {
        Error::Unreachable {
            socket: socket.to_owned(),
            cause,
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
            Error::Unreachable { cause, .. } => cause.hint(),
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
    /// To [`socket`].
    pub async fn connect() -> Result<Client, Error> {
        let socket = socket();
        let stream = match timeout(PATIENCE, UnixStream::connect(&socket)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(err)) if err.kind() == ErrorKind::PermissionDenied => {
                return Err(Error::because(&socket, Cause::NotPermitted));
            }
            Ok(Err(err)) => return Err(Error::unreachable(&socket, reason(&err.into()))),
            Err(_) => return Err(Error::slow(&socket, PATIENCE)),
        };
        let failed = |err: &zlink::Error| Error::unreachable(&socket, reason(err));
        let peer = stream.peer_cred().map_err(|err| failed(&err.into()))?;
        let server = peer.uid();
        if !trust::is_ours(server) {
            return Err(Error::because(&socket, Cause::Stranger(server)));
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
            Err(_) => Err(Error::slow(socket, PATIENCE)),
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
            ErrorKind::NotFound => "there is no such socket".into(),
            ErrorKind::ConnectionRefused => "nobody listens on that socket".into(),
            _ => err.to_string(),
        },
        zlink::Error::UnexpectedEof => "it closed the connection".into(),
        err => err.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_slow_is_not_told_to_start() {
        let socket = Path::new("/run/tix/tixd.sock");
        let slow = Error::slow(socket, PATIENCE);
        assert_eq!(
            slow.message(),
            "tixd has not answered at /run/tix/tixd.sock within 20 s"
        );
        assert!(!slow.hint().contains("systemctl start"), "{}", slow.hint());
        let absent = Error::unreachable(socket, "nobody listens on that socket");
        assert_eq!(
            absent.message(),
            "tixd cannot be reached at /run/tix/tixd.sock: nobody listens on that socket"
        );
        assert!(absent.hint().contains("systemctl start tixd"));
    }
}
