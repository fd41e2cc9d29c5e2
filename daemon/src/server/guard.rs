// SPDX-License-Identifier: GPL-2.0-only
//! A socket that stands between a peer and zlink. It bounds what a peer can make the daemon hold
//! (the length of a message, and how long a reply may wait to be read), and answers calls that the
//! interface does not have.
//!
//! Messages are handed on one at a time: zlink asks for more when it has answered the last one, so
//! the answers to good calls and to bad ones come in the order of the calls.
//!
//! It reads and writes the socket itself, by way of tokio: with that a message costs one system
//! call for each direction, and descriptors that come along are closed by the kernel, as no method
//! takes any.

use super::check;
use super::pace::Pace;
use super::rehearse::Rehearsal;
use super::whole;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{Error, ErrorKind};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use zlink::connection::PassedCredentials;
use zlink::connection::socket::{ReadHalf, ReadResult, Socket, WriteHalf};

/// The longest message that is taken, bytes.
pub const LONGEST: usize = 64 * 1024;
/// How long a peer may leave a reply unread.
pub const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Guarded {
    stream: UnixStream,
    pace: Rc<Pace>,
    uid: u32,
    rehearsal: Rc<RefCell<Rehearsal>>,
}

/// Whatever it is waiting for when it is dropped, it goes on from there: `read` may be cancelled.
#[derive(Debug)]
pub struct Reader {
    inner: OwnedReadHalf,
    /// Read and not handed on.
    held: Vec<u8>,
    /// Of those, the bytes of a message that has been looked at.
    good: usize,
    /// What is to be answered before anything else happens.
    owed: Vec<u8>,
    pace: Rc<Pace>,
    uid: u32,
    /// What each call has to do with what is to be tried.
    rehearsal: Rc<RefCell<Rehearsal>>,
    /// When the next message may be looked at, once that is known.
    turn: Option<Instant>,
}

#[derive(Debug)]
pub struct Writer(OwnedWriteHalf);

impl Guarded {
    pub fn new(
        stream: UnixStream,
        uid: u32,
        pace: Rc<Pace>,
        rehearsal: Rc<RefCell<Rehearsal>>,
    ) -> Guarded {
        Guarded {
            stream,
            pace,
            uid,
            rehearsal,
        }
    }
}

impl Socket for Guarded {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> (Reader, Writer) {
        let (read, write) = self.stream.into_split();
        let reader = Reader {
            inner: read,
            held: Vec::new(),
            good: 0,
            owed: Vec::new(),
            pace: self.pace,
            uid: self.uid,
            rehearsal: self.rehearsal,
            turn: None,
        };
        (reader, Writer(write))
    }
}

fn refused(kind: ErrorKind, why: &str) -> zlink::Error {
    Error::new(kind, why).into()
}

impl Reader {
    /// Looks at the next message, if it is all here: hands it on, or answers it.
    fn look(&mut self) {
        let Some(end) = self.held.iter().position(|b| *b == 0) else {
            return;
        };
        self.rehearsal.borrow_mut().call(&self.held[..end]);
        match check::complaint(&self.held[..end]) {
            None => self.good = end + 1,
            Some(answer) => {
                let oneway = serde_json::from_slice(&self.held[..end])
                    .is_ok_and(|call: serde_json::Value| call["oneway"] == true);
                if !oneway {
                    self.owed = answer;
                }
                self.held.drain(..=end);
            }
        }
    }

    async fn answer(&mut self) -> zlink::Result<()> {
        while !self.owed.is_empty() {
            let socket: &UnixStream = self.inner.as_ref();
            match tokio::time::timeout(PATIENCE, socket.writable()).await {
                Ok(ready) => ready?,
                Err(_) => return Err(refused(ErrorKind::TimedOut, "the peer does not read")),
            }
            match socket.try_write(&self.owed) {
                Ok(n) => drop(self.owed.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}

impl ReadHalf for Reader {
    async fn read(&mut self, buf: &mut [u8]) -> zlink::Result<ReadResult> {
        loop {
            self.answer().await?;
            if self.good > 0 {
                let n = self.good.min(buf.len());
                buf[..n].copy_from_slice(&self.held[..n]);
                self.held.drain(..n);
                self.good -= n;
                return Ok(ReadResult::new(n));
            }
            if self.held.contains(&0) {
                // Also for what is refused at once: that is work, too.
                let (pace, uid) = (&self.pace, self.uid);
                let turn = *self.turn.get_or_insert_with(|| pace.turn(uid, 1.0));
                if turn > Instant::now() {
                    // Never for what is due: tokio's clock has whole milliseconds.
                    tokio::time::sleep_until(turn.into()).await;
                }
                self.turn = None;
                self.look();
                continue;
            }
            if self.held.len() > LONGEST {
                return Err(refused(ErrorKind::InvalidData, "message too long"));
            }
            let mut more = [0; 4096];
            let mut more = ReadBuf::new(&mut more);
            poll_fn(|cx| Pin::new(&mut self.inner).poll_read(cx, &mut more)).await?;
            if more.filled().is_empty() {
                return Ok(ReadResult::new(0));
            }
            self.held.extend_from_slice(more.filled());
        }
    }
}

impl Writer {
    async fn write_all(&mut self, mut buf: &[u8]) -> std::io::Result<()> {
        while !buf.is_empty() {
            let n = poll_fn(|cx| Pin::new(&mut self.0).poll_write(cx, buf)).await?;
            buf = &buf[n..];
        }
        Ok(())
    }
}

impl WriteHalf for Writer {
    /// No method sends descriptors or credentials.
    async fn write(
        &mut self,
        buf: &[u8],
        _: &[impl AsFd],
        _: Option<&PassedCredentials>,
    ) -> zlink::Result<()> {
        let whole = whole::fill(buf);
        let buf = whole.as_deref().unwrap_or(buf);
        match tokio::time::timeout(PATIENCE, self.write_all(buf)).await {
            Ok(done) => Ok(done?),
            Err(_) => Err(refused(ErrorKind::TimedOut, "the peer does not read")),
        }
    }
}
