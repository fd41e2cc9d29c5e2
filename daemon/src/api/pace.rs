// SPDX-License-Identifier: GPL-2.0-only
//! How fast each user may ask.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests a second of one user (root: as many as there are), and how many at once after a pause.
pub const RATE: f64 = 500.0;
pub const BURST: f64 = 1000.0;
/// The part of its time, as the clock on the wall has it, that tixd has for one user's requests. On a machine that is busy it takes
/// longer for each, so there are fewer.
const PART: f64 = 0.1;

/// Who connects, root apart, counts together: who it is shows only when the connection is there. No user has this uid.
pub const EVERYBODY: u32 = u32::MAX;

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
    /// Time that requests took, nanoseconds, and how much of it has been taken off.
    spent: Arc<AtomicU64>,
    counted: u64,
}

impl Bucket {
    fn full(now: Instant) -> Bucket {
        Bucket {
            left: BURST,
            at: now,
            spent: Arc::default(),
            counted: 0,
        }
    }
}

/// How much each user has asked lately. Whoever asks too fast waits: no other user's request does.
#[derive(Debug, Default)]
pub struct Pace(RefCell<HashMap<u32, Bucket>>);

impl Pace {
    /// How long a request of this `cost` must wait for its turn.
    fn take(&self, uid: u32, cost: f64, now: Instant) -> Duration {
        let mut users = self.0.borrow_mut();
        if users.len() > 1024 {
            let full = |b: &Bucket| (now - b.at).as_secs_f64() * RATE + b.left >= BURST;
            // Where somebody holds the counter a connection is open.
            users.retain(|_, b| !full(b) || Arc::strong_count(&b.spent) > 1);
        }
        let b = users.entry(uid).or_insert_with(|| Bucket::full(now));
        let spent = b.spent.load(Ordering::Relaxed);
        let time = Duration::from_nanos(spent - b.counted).as_secs_f64();
        b.counted = spent;
        let cost = cost + time * RATE / PART;
        b.left = (b.left + now.duration_since(b.at).as_secs_f64() * RATE).min(BURST) - cost;
        b.at = now;
        Duration::from_secs_f64((-b.left / RATE).max(0.0))
    }

    /// Where the time that this user's requests take is counted.
    pub fn spent(&self, uid: u32) -> Arc<AtomicU64> {
        let mut users = self.0.borrow_mut();
        let bucket = users
            .entry(uid)
            .or_insert_with(|| Bucket::full(Instant::now()));
        Arc::clone(&bucket.spent)
    }

    /// When the turn of a request is. Root's is now.
    pub fn turn(&self, uid: u32, cost: f64) -> Instant {
        let now = Instant::now();
        match uid {
            0 => now,
            uid => now + self.take(uid, cost, now),
        }
    }

    /// Waits for the turn of a request. Root's turn is now.
    pub async fn wait(&self, uid: u32, cost: f64) {
        if uid == 0 {
            return;
        }
        let pause = self.take(uid, cost, Instant::now());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_then_it_is_a_rate() {
        let (pace, now) = (Pace::default(), Instant::now());
        let waits: Vec<Duration> = (0..2000).map(|_| pace.take(1000, 1.0, now)).collect();
        assert!(waits[..1000].iter().all(Duration::is_zero));
        assert_eq!(waits[1999], Duration::from_secs(2));
        assert!(pace.take(1001, 1.0, now).is_zero(), "another user waits");
        let later = now + Duration::from_secs(4);
        assert!(pace.take(1000, 1.0, later).is_zero());
    }

    #[test]
    fn whose_requests_take_long_waits_longer() {
        let (pace, now) = (Pace::default(), Instant::now());
        let spent = pace.spent(1000);
        assert!(pace.take(1000, 1.0, now).is_zero());
        spent.fetch_add(1_000_000_000, Ordering::Relaxed);
        let wait = pace.take(1000, 1.0, now).as_secs_f64();
        let due = 1.0 / PART - (BURST - 2.0) / RATE;
        assert!((wait - due).abs() < 1e-6, "{wait}, due {due}");
        assert!(pace.take(1001, 1.0, now).is_zero(), "another user waits");
    }
}
