// SPDX-License-Identifier: GPL-2.0-only
//! Lengths of time: whole numbers, each with a unit.

use super::BadAmount;
use std::time::Duration;

/// `30s`, `10min`, `1h30min`, `2h`, `3d`, `1w`; zero, too.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds: u64 = 0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = rest.split_at(digits);
        let length = unit
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(unit.len());
        let factor = match &unit[..length] {
            "s" | "sec" => 1,
            "m" | "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 604_800,
            _ => return None,
        };
        let part = number.parse::<u64>().ok()?.checked_mul(factor)?;
        seconds = seconds.checked_add(part)?;
        rest = unit[length..].trim_start();
        if rest.is_empty() {
            return Some(Duration::from_secs(seconds));
        }
    }
}

/// The same, at least a second.
pub fn lasting(text: &str) -> Result<Duration, BadAmount> {
    let length = parse(text).filter(|d| !d.is_zero());
    length.ok_or_else(|| BadAmount::Duration(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, seconds) in [
            ("30s", 30),
            ("10min", 600),
            ("1h30min", 5_400),
            ("1h 30min", 5_400),
            ("2d", 172_800),
            ("1w", 604_800),
        ] {
            assert_eq!(lasting(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("0s"), Some(Duration::ZERO));
        for text in [
            "",
            "0s",
            "5",
            "-5s",
            "h",
            "5y",
            "1h30",
            "tomorrow",
            "99999999999999999999d",
        ] {
            assert_eq!(
                lasting(text),
                Err(BadAmount::Duration(text.into())),
                "{text}"
            );
        }
    }
}
