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
/// The part of its time, as the clock on the wall has it, that tixd has for one user's requests. On
/// a machine that is busy it takes longer for each, so there are fewer.
const PART: f64 = 0.1;

/// Bytes a second of the log, and how many at once after a pause: whoever has all that they do
/// logged pushes others' records out of a log of 256 MiB in 18 hours, not in a minute.
const LOG_RATE: f64 = 4096.0;
const LOG_BURST: f64 = (1 << 20) as f64;

/// Who connects, root apart, counts together: who it is shows only when the connection is there. No
/// user has this uid.
pub const EVERYBODY: u32 = u32::MAX;

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
    /// What is known afterwards: time that requests took, nanoseconds, or what they had logged,
    /// bytes; and how much of it has been taken off.
    spent: Arc<AtomicU64>,
    counted: u64,
}

impl Bucket {
    fn full(burst: f64, now: Instant) -> Bucket {
        Bucket {
            left: burst,
            at: now,
            spent: Arc::default(),
            counted: 0,
        }
    }
}

/// How much each user has asked lately. Whoever asks too fast waits: no other user's request does.
#[derive(Debug)]
pub struct Pace {
    /// A second, and at once after a pause.
    rate: f64,
    burst: f64,
    /// Of a unit of what is known afterwards.
    price: f64,
    users: RefCell<HashMap<u32, Bucket>>,
}

impl Default for Pace {
    /// Of requests.
    fn default() -> Pace {
        Pace::new(RATE, BURST, RATE / PART / 1e9)
    }
}

impl Pace {
    /// Of bytes of the log.
    pub fn of_log() -> Pace {
        Pace::new(LOG_RATE, LOG_BURST, 1.0)
    }

    fn new(rate: f64, burst: f64, price: f64) -> Pace {
        Pace {
            rate,
            burst,
            price,
            users: RefCell::default(),
        }
    }

    /// How long a request of this `cost` must wait for its turn.
    fn take(&self, uid: u32, cost: f64, now: Instant) -> Duration {
        let (rate, burst) = (self.rate, self.burst);
        let mut users = self.users.borrow_mut();
        if users.len() > 1024 {
            let full = |b: &Bucket| {
                let all_counted = b.spent.load(Ordering::Relaxed) == b.counted;
                all_counted && (now - b.at).as_secs_f64() * rate + b.left >= burst
            };
            // Where somebody holds the counter a connection is open.
            users.retain(|_, b| !full(b) || Arc::strong_count(&b.spent) > 1);
        }
        let b = users.entry(uid).or_insert_with(|| Bucket::full(burst, now));
        let spent = b.spent.load(Ordering::Relaxed);
        let cost = cost + (spent - b.counted) as f64 * self.price;
        b.counted = spent;
        b.left = (b.left + now.duration_since(b.at).as_secs_f64() * rate).min(burst) - cost;
        b.at = now;
        Duration::from_secs_f64((-b.left / rate).max(0.0))
    }

    /// Where the time that this user's requests take is counted.
    pub fn spent(&self, uid: u32) -> Arc<AtomicU64> {
        let mut users = self.users.borrow_mut();
        let bucket = users
            .entry(uid)
            .or_insert_with(|| Bucket::full(self.burst, Instant::now()));
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

    /// What has been counted is paid, or how long that takes if it is more than `patience`: then
    /// it is not waited for.
    ///
    /// # Errors
    /// How long it takes.
    pub async fn settle(&self, uid: u32, patience: Duration) -> Result<(), Duration> {
        if uid == 0 {
            return Ok(());
        }
        let pause = self.take(uid, 0.0, Instant::now());
        if pause > patience {
            return Err(pause);
        }
        tokio::time::sleep(pause).await;
        Ok(())
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

    #[tokio::test(start_paused = true)]
    async fn what_is_logged_is_paid_or_refused() {
        let (pace, patience) = (Pace::of_log(), Duration::from_secs(30));
        let logged = pace.spent(1000);
        logged.fetch_add(LOG_BURST as u64, Ordering::Relaxed);
        assert_eq!(pace.settle(1000, patience).await, Ok(()));
        logged.fetch_add(100 * LOG_RATE as u64, Ordering::Relaxed);
        let due = pace.settle(1000, patience).await.unwrap_err();
        assert!((95..=100).contains(&due.as_secs()), "{due:?}");
        assert_eq!(pace.settle(1001, patience).await, Ok(()));
        assert_eq!(pace.settle(0, patience).await, Ok(()));
    }
}
