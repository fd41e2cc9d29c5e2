// SPDX-License-Identifier: GPL-2.0-only
//! vtrr.h as this machine's kernel compiles it: a BPF program that it runs for whoever may load one (`BPF_PROG_TEST_RUN`).

use std::mem::MaybeUninit;

use anyhow::{Context, Result, ensure};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{OpenObject, ProgramInput, ProgramMut};

use super::queue::Queue;
use crate::lab::rules::grouped::{QUANTUM, START};

#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    dead_code
)]
mod skel {
    include!(concat!(env!("OUT_DIR"), "/queue_skel.rs"));
}

/// `ProgramInput` wants bytes that the program may write to.
fn call(program: &ProgramMut<'_>, words: &[u64]) -> Result<u32> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let input = ProgramInput {
        context_in: Some(&mut bytes),
        ..ProgramInput::default()
    };
    Ok(program.test_run(input)?.return_value)
}

const PAGE: u64 = 4096;
/// Bytes at most that vtrr.h keeps of a client, and that it leaves to its caller.
const CLIENT: u64 = 64;
const OF: u64 = 16;

/// The arena's pages come to be when they are touched.
fn touch(at: u64, bytes: u64) {
    for page in (at..at + bytes).step_by(PAGE as usize) {
        // SAFETY: libbpf has mapped the arena where the program says that it lies, and nobody else reads or writes it now.
        unsafe { std::ptr::write_volatile(page as *mut u8, 0) };
    }
}

pub struct Jit {
    skel: skel::QueueSkel<'static>,
}

impl Jit {
    /// Clients by period and first tag, virtual ns.
    ///
    /// # Errors
    /// The kernel does not let this process load BPF programs, or has no arenas (before 6.9).
    pub fn of(clients: &[(u64, u64)]) -> Result<Jit> {
        // Libbpf would say on stderr what the error says.
        libbpf_rs::set_print(None);
        // As long as the program: a few of these are made in a run.
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = skel::QueueSkelBuilder::default().open(object)?;
        // Of the headers, for schedulers.
        open.progs.scx_lib_init_probe.set_autoload(false);
        let rodata = open.maps.rodata_data.as_mut().context("no constants")?;
        rodata.quantum = QUANTUM;
        let bss = open.maps.bss_data.as_mut().context("no variables")?;
        bss.now = START;
        let skel = open.load().context("load a BPF program")?;
        let at = skel.maps.rodata_data.context("no constants")?;
        let (begin, clients_at, of_at) = (at.begin, at.of_clients, at.of_of);
        touch(begin, clients_at + CLIENT * clients.len() as u64);
        touch(begin + of_at, OF * clients.len() as u64);
        for (client, (period, tag)) in (0..).zip(clients) {
            ensure!(
                call(&skel.progs.file, &[*period, *tag, client])? == 0,
                "client {client}"
            );
        }
        Ok(Jit { skel })
    }
}

/// What one call may do: the kernel ends a loop after 8 million rounds.
const AT_ONCE: u64 = 1 << 20;

impl Queue for Jit {
    fn run(&mut self, decisions: u64) -> u32 {
        let (mut left, mut last) = (decisions, u32::MAX);
        while left > 0 {
            let n = left.min(AT_ONCE);
            last = call(&self.skel.progs.decide, &[n]).unwrap_or(u32::MAX);
            left -= n;
        }
        last
    }
}
