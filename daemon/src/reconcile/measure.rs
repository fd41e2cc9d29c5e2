// SPDX-License-Identifier: GPL-2.0-only
//! How fast a disk is, for iocost's model of it: iocost shares out the time that requests take by
//! the model. With a model faster than the device it never holds anybody back, and shares nothing;
//! so what is measured is made a little slower.
//!
//! Only reading is tried, past the page cache, on the device itself: writing would destroy what is
//! there.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A request as small as the model knows, and a large one.
const SMALL: u64 = 4096;
const LARGE: u64 = 128 * 1024;
/// What O_DIRECT wants buffers to begin at, on every device.
const ALIGNED: usize = 4096;
/// Requests outstanding: enough for a fast device, and what one disk can order well.
const DEPTH: u64 = 32;
/// First a while that does not count: what a throttle or a cache had saved up.
const WARM_UP: Duration = Duration::from_millis(1000);
const MEASURED: Duration = Duration::from_millis(2000);
/// Per cent of what was measured. The nearer to it, the longer requests queue in the device, where
/// there are no shares.
const PART: u64 = 94;

/// What a device did, in each second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// Reads of 4 KiB anywhere.
    pub random: u64,
    /// Reads of 4 KiB one after the other.
    pub sequential: u64,
    /// Bytes, in large reads one after the other.
    pub bytes: u64,
}

impl Speed {
    /// `io.cost.model` of a device with that speed, less six per cent. Writing is taken to cost
    /// what reading does.
    pub fn model(&self, number: &str) -> String {
        let part = |n: u64| (n * PART / 100).max(1);
        let (random, sequential) = (part(self.random), part(self.sequential));
        let bytes = part(self.bytes).max(SMALL * sequential);
        let side = |s: &str| format!("{s}bps={bytes} {s}seqiops={sequential} {s}randiops={random}");
        format!(
            "{number} ctrl=user model=linear {} {}",
            side("r"),
            side("w")
        )
    }
}

/// `io.cost.qos` with which the model is the rate: no latency changes it, as on a busy machine any
/// would.
pub fn qos(number: &str, on: bool) -> String {
    let enable = u8::from(on);
    format!(
        "{number} enable={enable} ctrl=user rpct=0 rlat=50000 wpct=0 wlat=50000 min=100 max=100"
    )
}

/// Reads from `device` as fast as it can for some nine seconds; returns how many requests that
/// took, too.
///
/// # Errors
/// When it cannot be opened or read, has less than 1 MiB, or did nothing for two seconds.
pub fn measure(device: &Path) -> Result<(Speed, u64), Error> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(device)?;
    let size = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0))?;
    if size < 1 << 20 {
        let what = format!("it has {size} bytes only");
        return Err(Error::new(ErrorKind::InvalidInput, what));
    }
    let mut all = 0;
    let mut in_a_second = |request: u64, random: bool| -> Result<u64, Error> {
        let (counted, done) = reads(&file, size, request, random)?;
        all += done;
        match counted {
            0 => Err(Error::new(
                ErrorKind::TimedOut,
                "it did not read anything for two seconds",
            )),
            n => Ok((n * 1000 / u64::try_from(MEASURED.as_millis()).unwrap_or(1)).max(1)),
        }
    };
    let speed = Speed {
        random: in_a_second(SMALL, true)?,
        sequential: in_a_second(SMALL, false)?,
        bytes: in_a_second(LARGE, false)? * LARGE,
    };
    Ok((speed, all))
}

/// Requests of that size in the time that counts, and in all.
fn reads(file: &File, size: u64, request: u64, random: bool) -> Result<(u64, u64), Error> {
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let begin = Instant::now() + WARM_UP;
    let end = begin + MEASURED;
    let places = size / request;
    std::thread::scope(|scope| {
        let reader = || -> Result<(), Error> {
            let mut room = vec![0_u8; usize::try_from(request).unwrap_or(0) + ALIGNED];
            let start = room.as_ptr().align_offset(ALIGNED);
            let buffer = room
                .get_mut(start..start + usize::try_from(request).unwrap_or(0))
                .ok_or_else(|| Error::from(ErrorKind::OutOfMemory))?;
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let place = if random { scattered(n) } else { n };
                file.read_exact_at(buffer, place % places * request)?;
                let now = Instant::now();
                if now >= end {
                    return Ok(());
                }
                if now >= begin {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let readers: Vec<_> = (0..DEPTH).map(|_| scope.spawn(reader)).collect();
        readers.into_iter().try_for_each(|r| {
            let ended = r.join();
            ended.unwrap_or_else(|_| Err(Error::other("a reader panicked")))
        })
    })?;
    // Every request taken is done by now.
    Ok((done.load(Ordering::Relaxed), next.load(Ordering::Relaxed)))
}

/// Numbers without a pattern that a disk would know (splitmix64).
fn scattered(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_a_little_slower() {
        let speed = Speed {
            random: 400,
            sequential: 500,
            bytes: 100_000_000,
        };
        assert_eq!(
            speed.model("254:0"),
            "254:0 ctrl=user model=linear rbps=94000000 rseqiops=470 rrandiops=376 wbps=94000000 \
             wseqiops=470 wrandiops=376"
        );
        // The kernel takes no model by which many small requests move more than large ones.
        let odd = Speed { bytes: 1, ..speed };
        assert!(odd.model("254:0").contains("rbps=1925120 "));
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let small = dir.path().join("small");
        std::fs::write(&small, "too small").unwrap();
        assert!(measure(&small).is_err());
        assert!(measure(&dir.path().join("none")).is_err());
    }
}
