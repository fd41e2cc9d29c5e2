// SPDX-License-Identifier: GPL-2.0-only
//! Two that hand a byte to and fro over pipes: one of them runs at any time, and now and then both could.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::Result;

use super::crew::{Crew, Me};
use super::sys;

/// Both start in the cgroup `dir`, at gate 0. Each works for up to `most` ns before it gives the byte away, and again before it waits for
/// it; 0: not at all. Their numbers in the crew.
pub fn pair(crew: &mut Crew, dir: &File, most: u64) -> Result<[usize; 2]> {
    let (ping_r, ping_w) = sys::pipe()?;
    let (pong_r, pong_w) = sys::pipe()?;
    let (a_in, a_out) = (pong_r.as_raw_fd(), ping_w.as_raw_fd());
    let (b_in, b_out) = (ping_r.as_raw_fd(), pong_w.as_raw_fd());
    let seed = crew.len() as u64;
    let works = move |me: &Me, random: &mut fastrand::Rng| {
        if most > 0 {
            me.spin_for(random.u64(0..most));
        }
    };
    let first = crew.spawn(Some(dir), 0, move |me| {
        let mut random = fastrand::Rng::with_seed(seed);
        loop {
            works(me, &mut random);
            let given = sys::give(a_out);
            works(me, &mut random);
            if !given || !sys::take(a_in) {
                return;
            }
        }
    })?;
    let second = crew.spawn(Some(dir), 0, move |me| {
        let mut random = fastrand::Rng::with_seed(seed + 1);
        while sys::take(b_in) {
            works(me, &mut random);
            if !sys::give(b_out) {
                return;
            }
            works(me, &mut random);
        }
    })?;
    Ok([first, second])
}
