// SPDX-License-Identifier: GPL-2.0-only
//! Clients that write raw Varlink messages and wait for the answers.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::event::{PollFd, PollFlags, poll};

use super::fill::{Ends, Random, name};
use super::server::{Tixd, answer, good};

/// Threads of the client process.
const THREADS: usize = 2;

fn fund((holder, issuer): Ends) -> Vec<u8> {
    let (holder, issuer) = (name(holder), name(issuer));
    let text = format!(
        "{{\"method\":\"org.tix.Tix.Fund\",\"parameters\":{{\"holder\":\"{holder}\",\"issuer\":\"{issuer}\",\"resource\":\"cpu\",\"amount\":1}}}}\0"
    );
    text.into_bytes()
}

fn any(random: &mut Random, tickets: &[Ends]) -> Ends {
    let n = random.below(tickets.len() as u64);
    tickets[usize::try_from(n).unwrap_or(0)]
}

/// How long each of `n` operations took, one after the other.
pub fn one(tixd: &Tixd, tickets: &[Ends], n: usize) -> Result<Vec<Duration>> {
    let mut stream = tixd.connect()?;
    let (mut random, mut rest) = (Random(2), Vec::new());
    let mut times = Vec::new();
    for _ in 0..n {
        let message = fund(any(&mut random, tickets));
        let start = Instant::now();
        stream.write_all(&message)?;
        answer(&mut stream, &mut rest)?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// What many did at the same time.
pub struct Crowd {
    pub took: Duration,
    /// How long each operation took.
    pub times: Vec<Duration>,
}

/// What a client asks next.
pub type Ask<'a> = &'a (dyn Fn(&mut Random) -> Vec<u8> + Sync);

/// `clients` connections, each with `depth` operations under way, for so long: funding of some of these tickets.
pub fn many(
    tixd: &Tixd,
    tickets: &[Ends],
    crowd: (usize, usize),
    length: Duration,
) -> Result<Crowd> {
    asking(tixd, &|random| fund(any(random, tickets)), crowd, length)
}

/// The same, whatever they ask.
pub fn asking(
    tixd: &Tixd,
    ask: Ask<'_>,
    (clients, depth): (usize, usize),
    length: Duration,
) -> Result<Crowd> {
    let mut groups: Vec<Vec<Client>> = (0..THREADS).map(|_| Vec::new()).collect();
    for n in 0..clients {
        groups[n % THREADS].push(Client {
            stream: tixd.connect()?,
            random: Random(3 + n as u64),
            sent: VecDeque::new(),
            rest: Vec::new(),
        });
    }
    let start = Instant::now();
    let end = start + length;
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = (groups.into_iter())
            .map(|group| scope.spawn(move || drive(group, ask, depth, end)))
            .collect();
        let mut times = Vec::new();
        for thread in threads {
            match thread.join() {
                Ok(its) => times.extend(its?),
                Err(_) => bail!("a client has panicked"),
            }
        }
        Ok(times)
    })?;
    Ok(Crowd {
        took: start.elapsed(),
        times,
    })
}

struct Client {
    stream: UnixStream,
    random: Random,
    /// When each of those was that are not answered.
    sent: VecDeque<Instant>,
    rest: Vec<u8>,
}

impl Client {
    fn send(&mut self, ask: Ask<'_>, n: usize) -> Result<()> {
        let mut messages = Vec::new();
        for _ in 0..n {
            messages.extend(ask(&mut self.random));
            self.sent.push_back(Instant::now());
        }
        Ok(self.stream.write_all(&messages)?)
    }

    /// Reads what is there; how many answers that were.
    fn take(&mut self, times: &mut Vec<Duration>) -> Result<usize> {
        let mut more = [0; 4096];
        let n = self.stream.read(&mut more)?;
        if n == 0 {
            bail!("tixd has closed a connection");
        }
        self.rest.extend_from_slice(&more[..n]);
        let (mut from, mut answers) = (0, 0);
        while let Some(n) = self.rest[from..].iter().position(|b| *b == 0) {
            good(&self.rest[from..from + n])?;
            from += n + 1;
            answers += 1;
            times.extend(self.sent.pop_front().map(|at| at.elapsed()));
        }
        self.rest.drain(..from);
        Ok(answers)
    }
}

fn drive(
    mut clients: Vec<Client>,
    ask: Ask<'_>,
    depth: usize,
    end: Instant,
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for client in &mut clients {
        client.send(ask, depth)?;
    }
    while !clients.is_empty() {
        let mut polled: Vec<PollFd<'_>> = (clients.iter())
            .map(|c| PollFd::new(&c.stream, PollFlags::IN))
            .collect();
        poll(&mut polled, None)?;
        let ready: Vec<bool> = (polled.iter()).map(|p| !p.revents().is_empty()).collect();
        let over = Instant::now() >= end;
        for (client, _) in clients.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            let answers = client.take(&mut times)?;
            if !over {
                client.send(ask, answers)?;
            }
        }
        // What has been asked is waited for.
        clients.retain(|c| !c.sent.is_empty());
    }
    Ok(times)
}
