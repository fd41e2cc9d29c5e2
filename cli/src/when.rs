// SPDX-License-Identifier: GPL-2.0-only
//! Moments, and how often: microseconds since 1970 on the wire, this host's time on the screen and
//! on the command line.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use std::time::Duration;
use tix_api::units::duration;

/// `2026-11-21 15:04:05`, in `zone`.
pub fn shown(usec: u64, zone: &TimeZone) -> String {
    let stamp = i64::try_from(usec)
        .ok()
        .and_then(|usec| Timestamp::from_microsecond(usec).ok())
        .unwrap_or(Timestamp::MAX);
    stamp
        .to_zoned(zone.clone())
        .strftime("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// The zone of this host, or `TZ`'s.
pub fn here() -> TimeZone {
    TimeZone::system()
}

/// Parses what `--since` takes, as of now.
pub fn since(text: &str) -> Result<u64, String> {
    parse(text, &Zoned::now()).ok_or_else(|| {
        "a duration (30s, 10min, 2h, 3d, 1h30min), today, yesterday, a time (15:04, 2026-11-21, \
         \"2026-11-21 15:04:05\"), or seconds since 1970 (@1795273445)"
            .to_owned()
    })
}

/// Parses how long is waited between two looks.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.2..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("seconds are a number from 0.2 to 60".into()),
    }
}

/// Microseconds since 1970.
fn parse(text: &str, now: &Zoned) -> Option<u64> {
    let zone = now.time_zone().clone();
    let local = |civil: DateTime| civil.to_zoned(zone.clone()).ok().map(|z| z.timestamp());
    let text = text.trim();
    let stamp = if let Some(seconds) = text.strip_prefix('@') {
        Timestamp::from_second(seconds.parse().ok()?).ok()?
    } else if let Some(duration) = duration::parse(text) {
        now.timestamp().checked_sub(duration).ok()?
    } else if text == "now" {
        now.timestamp()
    } else if text == "today" {
        local(now.date().to_datetime(Time::midnight()))?
    } else if text == "yesterday" {
        let day = now.date().checked_sub(1.day()).ok()?;
        local(day.to_datetime(Time::midnight()))?
    } else if let Ok(stamp) = text.parse::<Timestamp>() {
        stamp
    } else if let Ok(civil) = text.parse::<DateTime>() {
        local(civil)?
    } else if let Ok(date) = text.parse::<Date>() {
        local(date.to_datetime(Time::midnight()))?
    } else {
        local(now.date().to_datetime(text.parse::<Time>().ok()?))?
    };
    u64::try_from(stamp.as_microsecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        let now = Timestamp::from_second(1_795_273_445)
            .unwrap()
            .to_zoned(zone.clone());
        assert_eq!(
            shown(1_795_273_445_000_000, &zone),
            now.strftime("%F %T").to_string()
        );
        let midnight = now.start_of_day().unwrap().timestamp().as_second();
        for (text, second) in [
            ("now", 1_795_273_445),
            ("30s", 1_795_273_415),
            ("10min", 1_795_272_845),
            ("1h30min", 1_795_268_045),
            ("1h 30min", 1_795_268_045),
            ("2d", 1_795_100_645),
            ("@17", 17),
            ("today", midnight),
            ("yesterday", midnight - 86_400),
            ("00:01", midnight + 60),
            ("00:01:02", midnight + 62),
            ("1970-01-02", 82_800),
            ("1970-01-02 00:00:01", 82_801),
            ("1970-01-02T00:00:01", 82_801),
            ("1970-01-02T00:00:01Z", 86_401),
        ] {
            assert_eq!(parse(text, &now), Some(second as u64 * 1_000_000), "{text}");
        }
        for wrong in [
            "",
            "5",
            "h",
            "5y",
            "-5s",
            "@",
            "@x",
            "1h30",
            "tomorrow",
            "25:00",
            "2026-13-01",
            "1969-01-01",
            "99999999999999999999d",
            "3w!",
        ] {
            assert_eq!(parse(wrong, &now), None, "{wrong:?}");
        }
        shown(u64::MAX, &zone);
    }
}
