// SPDX-License-Identifier: GPL-2.0-only
//! A socket that bounds what a peer can make the daemon hold: the length of a message, and how long a reply may wait to be read.

use std::os::fd::AsFd;
use std::time::Duration;
use tokio::net::UnixStream;
use zlink::connection::PassedCredentials;
use zlink::connection::socket::{ReadHalf, ReadResult, Socket, WriteHalf};
use zlink::tokio::unix::Stream;

/// The longest message that is taken, bytes.
pub const LONGEST: usize = 64 * 1024;
/// How long a peer may leave a reply unread.
pub const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Guarded(Stream);

#[derive(Debug)]
pub struct Reader {
    inner: <Stream as Socket>::ReadHalf,
    /// Bytes since the last message ended.
    pending: usize,
}

#[derive(Debug)]
pub struct Writer(<Stream as Socket>::WriteHalf);

impl Guarded {
    pub fn new(stream: UnixStream) -> zlink::Result<Guarded> {
        Stream::try_from(stream).map(Guarded)
    }
}

impl Socket for Guarded {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> (Reader, Writer) {
        let (read, write) = self.0.split();
        (
            Reader {
                inner: read,
                pending: 0,
            },
            Writer(write),
        )
    }
}

fn refused(kind: std::io::ErrorKind, why: &str) -> zlink::Error {
    std::io::Error::new(kind, why).into()
}

impl ReadHalf for Reader {
    async fn read(&mut self, buf: &mut [u8]) -> zlink::Result<ReadResult> {
        let result = self.inner.read(buf).await?;
        let n = result.bytes_read();
        // Descriptors that come along are closed here: no method takes any.
        self.pending = match buf[..n].iter().rposition(|b| *b == 0) {
            Some(end) => n - end - 1,
            None => self.pending + n,
        };
        if self.pending > LONGEST {
            return Err(refused(std::io::ErrorKind::InvalidData, "message too long"));
        }
        Ok(ReadResult::new(n))
    }
}

impl WriteHalf for Writer {
    async fn write(
        &mut self,
        buf: &[u8],
        fds: &[impl AsFd],
        credentials: Option<&PassedCredentials>,
    ) -> zlink::Result<()> {
        match tokio::time::timeout(PATIENCE, self.0.write(buf, fds, credentials)).await {
            Ok(done) => done,
            Err(_) => Err(refused(
                std::io::ErrorKind::TimedOut,
                "the peer does not read",
            )),
        }
    }
}
