// SPDX-License-Identifier: GPL-2.0-only
//! Notices that come again and again: what others do as often as they like, or a disk that stays
//! full, is not to fill the journal, nor the ledger's log. The first notices of a kind about a
//! subject are told at once; those after them in the same minute are counted, and told as one, the
//! last, with how many there were. What a kind tells of many subjects is bounded likewise.
//!
//! At most `SUBJECTS * BURST + 1` notices of a kind in a minute, and as many afterwards of those
//! held back: one for each subject. Operations are no notices: each has its record in the log.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Notices are held back for so long.
pub const EACH: Duration = Duration::from_secs(60);
/// Subjects of one kind that are told apart; what is more of them is counted together.
pub const SUBJECTS: usize = 32;

/// Of one subject, or of all that are not told apart.
#[derive(Debug)]
struct Window<T> {
    since: Instant,
    told: u32,
    held: u64,
    last: Option<T>,
}

impl<T> Window<T> {
    fn new(now: Instant) -> Window<T> {
        Window {
            since: now,
            told: 0,
            held: 0,
            last: None,
        }
    }

    /// The notice, if it is to be told now.
    fn admit(&mut self, notice: T, burst: u32) -> Option<T> {
        if self.told < burst {
            self.told += 1;
            return Some(notice);
        }
        self.held += 1;
        self.last = Some(notice);
        None
    }

    /// What was held back, when the window is over; telling it begins the next one.
    fn due(&mut self, now: Instant) -> Option<(T, u64)> {
        let last = self.last.take()?;
        let held = std::mem::replace(&mut self.held, 0);
        (self.since, self.told) = (now, 1);
        Some((last, held))
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= EACH
    }
}

#[derive(Debug)]
struct Kind<T> {
    subjects: HashMap<u64, Window<T>>,
    others: Option<Window<T>>,
}

/// What has been told of late, by kind.
#[derive(Debug)]
pub struct Repeats<K, T> {
    /// So many alike are told at once.
    burst: u32,
    kinds: HashMap<K, Kind<T>>,
}

impl<K: Hash + Eq + Clone, T> Repeats<K, T> {
    pub fn new(burst: u32) -> Repeats<K, T> {
        Repeats {
            burst,
            kinds: HashMap::new(),
        }
    }

    /// `notice` again if it is to be told now; it is counted otherwise, and is among what
    /// [`Repeats::due`] returns in the end.
    pub fn admit(&mut self, kind: K, subject: &str, notice: T, now: Instant) -> Option<T> {
        let kind = self.kinds.entry(kind).or_insert_with(|| Kind {
            subjects: HashMap::new(),
            others: None,
        });
        let mut hash = DefaultHasher::new();
        subject.hash(&mut hash);
        let many = kind.subjects.len() >= SUBJECTS;
        match kind.subjects.entry(hash.finish()) {
            Entry::Vacant(_) if many => {
                let others = kind.others.get_or_insert_with(|| Window::new(now));
                others.admit(notice, 1)
            }
            entry => {
                let window = entry.or_insert_with(|| Window::new(now));
                window.admit(notice, self.burst)
            }
        }
    }

    /// Of what was held back, what is to be told now: the last of each subject, and how many there
    /// were of it. To be called now and then.
    pub fn due(&mut self, now: Instant) -> Vec<(T, u64)> {
        let mut due = Vec::new();
        self.kinds.retain(|_, kind| {
            kind.subjects.retain(|_, window| {
                let over = window.is_over(now);
                let told = over.then(|| window.due(now)).flatten();
                let stays = !over || told.is_some();
                due.extend(told);
                stays
            });
            if kind.others.as_ref().is_some_and(|w| w.is_over(now)) {
                let told = kind.others.as_mut().and_then(|w| w.due(now));
                if told.is_none() {
                    kind.others = None;
                }
                due.extend(told);
            }
            !kind.subjects.is_empty() || kind.others.is_some()
        });
        due
    }
}

/// What is added to the last of `held` notices that were held back.
pub fn count(held: u64) -> String {
    match held {
        0 | 1 => String::new(),
        n => format!(" (and {} times more in the last minute)", n - 1),
    }
}

/// A line of the journal.
type Line = (Level, String);
type Lines = Repeats<Identifier, Line>;

static LINES: Mutex<Option<Lines>> = Mutex::new(None);
/// A few lines that are alike may be what somebody has asked for, as by reading policies again.
const BURST: u32 = 4;
/// Of lines that were held back.
const TARGET: &str = "tixd::repeats";

fn lines() -> MutexGuard<'static, Option<Lines>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has journal and stderr told no more than that of any line. Kinds are the places in the program,
/// subjects their messages.
pub struct Journal;

impl<S: Subscriber> Layer<S> for Journal {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let data = event.metadata();
        // A filter that asks for more wants all of it.
        if *data.level() > Level::INFO || data.target() == TARGET {
            return true;
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        let Message(text) = message;
        let mut lines = lines();
        let lines = lines.get_or_insert_with(|| Repeats::new(BURST));
        let line = (*data.level(), text.clone());
        lines
            .admit(data.callsite(), &text, line, Instant::now())
            .is_some()
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a string cannot fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

/// Tells the journal what was held back and is due.
pub fn tell_due() {
    let due = lines().as_mut().map(|lines| lines.due(Instant::now()));
    for ((level, text), held) in due.unwrap_or_default() {
        let count = count(held);
        match level {
            Level::ERROR => tracing::error!(target: TARGET, "{text}{count}"),
            Level::WARN => tracing::warn!(target: TARGET, "{text}{count}"),
            _ => tracing::info!(target: TARGET, "{text}{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing_subscriber::prelude::*;

    #[test]
    fn the_first_at_once_the_rest_as_one_with_their_number() {
        let (mut all, start) = (Repeats::new(1), Instant::now());
        let mut told = Vec::new();
        for n in 0..30 {
            told.extend(all.admit("guarantee", "/a", n, start));
        }
        told.extend(all.admit("guarantee", "/b", 100, start));
        told.extend(all.admit("store", "/a", 200, start));
        assert_eq!(told, [0, 100, 200]);
        let soon = start + EACH / 2;
        assert_eq!(all.due(soon), []);
        let later = start + EACH;
        assert_eq!(all.due(later), [(29, 29)]);
        assert_eq!(count(29), " (and 28 times more in the last minute)");
        // That was one, and the next minute begins with it.
        assert_eq!(all.admit("guarantee", "/a", 30, later), None);
        assert_eq!(all.due(later + EACH), [(30, 1)]);
        assert_eq!(count(1), "");
        // Then nothing is left of it.
        assert_eq!(all.due(later + 2 * EACH), []);
        assert!(all.kinds.is_empty());
        assert_eq!(all.admit("guarantee", "/a", 31, later + 2 * EACH), Some(31));
    }

    #[test]
    fn many_subjects_are_few_notices_and_none_is_uncounted() {
        const MANY: u64 = 10_000;
        let (mut all, start) = (Repeats::new(2), Instant::now());
        let mut told = 0;
        for n in 0..MANY {
            for _ in 0..2 {
                told += u64::from(all.admit("k", &format!("/{n}"), (), start).is_some());
            }
        }
        assert_eq!(told, 2 * SUBJECTS as u64 + 1);
        let held: u64 = all.due(start + EACH).iter().map(|(_, held)| held).sum();
        assert_eq!(told + held, 2 * MANY);
    }

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Buffer {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_journal_gets_a_line_a_few_times() {
        let buffer = Buffer::default();
        let copy = buffer.clone();
        let format = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || copy.clone());
        let subscriber = tracing_subscriber::registry().with(format).with(Journal);
        tracing::subscriber::with_default(subscriber, || {
            for n in 0..100 {
                tracing::warn!("the disk is {}", "full");
                tracing::warn!("line {n}");
                tracing::debug!("all of it");
            }
        });
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        let lines = |what: &str| text.lines().filter(|l| l.contains(what)).count();
        assert_eq!(lines("the disk is full"), BURST as usize);
        assert_eq!(lines(": line "), SUBJECTS + 1);
        assert_eq!(lines("all of it"), 100);
    }
}
