// SPDX-License-Identifier: GPL-2.0-only
//! Amounts as people write them: soft tickets, parts of an issuer, sizes of memory. Modes are in
//! [`mode`], lengths of time in [`duration`].
//!
//! What cannot be kept exactly is refused, never rounded: a guarantee of "33.33%" would be one of
//! something else.

pub mod duration;
pub mod mode;
pub mod rights;

use crate::{HARD_WHOLE, MAX_AMOUNT, MAX_LIMIT};

/// Why something is no amount, and what one looks like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAmount {
    #[error("{0:?} is no number of tickets: write 1 to 2147483648")]
    Soft(String),
    #[error("{0:?} is no part of the issuer: write per cent (\"25%\") or thousandths (250)")]
    Part(String),
    #[error("{0:?} is no whole number of thousandths: write at most one decimal (\"12.5%\")")]
    Finer(String),
    #[error("{0:?} is out of range: an issuer gives away 0.1% to 99.9% (1 to 999 thousandths)")]
    Range(String),
    #[error(
        "{0:?} is no limit: write per cent of one CPU, 0.1% to 102400% (\"30%\", \"150%\" is one \
         and a half)"
    )]
    Limit(String),
    #[error("{0:?} is no size: write a number and K, M, G or T (\"256M\"; K is 1024)")]
    Size(String),
    #[error(
        "{0:?} is no amount to trade: write base tickets (100, 12.5), per cent of the machine \
         (25%), or of memory a size (256M)"
    )]
    Rights(String),
    #[error(
        "{0:?} is no resource with an amount: write cpu:100, disk:12.5, cpu:10% or memory:256M"
    )]
    Side(String),
    #[error("{0:?} is no duration: write a number and s, min, h, d or w (10min, 2h, 1h30min)")]
    Duration(String),
    #[error("{0:?} is ambiguous: write K, M, G or T, without B; K is 1024")]
    Decimal(String),
}

/// A guaranteed amount: a part of the issuer, or a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hard {
    Thousandths(u64),
    Bytes(u64),
}

/// Soft tickets: 1 … 2^31.
pub fn soft(text: &str) -> Result<u64, BadAmount> {
    digits(text)
        .filter(|n| (1..=MAX_AMOUNT).contains(n))
        .ok_or_else(|| BadAmount::Soft(text.to_owned()))
}

/// A part of an issuer in thousandths, 1 … 999: `25%`, `12.5%`, or `250`.
pub fn thousandths(text: &str) -> Result<u64, BadAmount> {
    let no = || BadAmount::Part(text.to_owned());
    let n = match text.strip_suffix('%') {
        None => digits(text).ok_or_else(no)?,
        Some(cent) => per_cent(cent, text, &no)?,
    };
    if (1..HARD_WHOLE).contains(&n) {
        Ok(n)
    } else {
        Err(BadAmount::Range(text.to_owned()))
    }
}

/// A limit, of one CPU as systemd's CPUQuota=, in thousandths of it: `30%`, `0.5%`, `150%`.
pub fn limit(text: &str) -> Result<u64, BadAmount> {
    let no = || BadAmount::Limit(text.to_owned());
    let cent = text.strip_suffix('%').ok_or_else(no)?;
    let milli = per_cent(cent, text, &no)?;
    match (1..=MAX_LIMIT).contains(&milli) {
        true => Ok(milli),
        false => Err(no()),
    }
}

/// Thousandths, from what stands before the sign in `text`; else what `no` says.
fn per_cent(cent: &str, text: &str, no: &dyn Fn() -> BadAmount) -> Result<u64, BadAmount> {
    let cent = cent.trim_end();
    let (whole, part) = cent.split_once('.').unwrap_or((cent, "0"));
    let whole = digits(whole).ok_or_else(no)?;
    let part = match part.trim_end_matches('0') {
        // `12.%` is a slip of the pen.
        "" if part.is_empty() => return Err(no()),
        "" => 0,
        one if one.len() == 1 => digits(one).ok_or_else(no)?,
        finer if digits(finer).is_some() => {
            return Err(BadAmount::Finer(text.to_owned()));
        }
        _ => return Err(no()),
    };
    Ok(whole.saturating_mul(10).saturating_add(part))
}

/// A size in bytes, at least 1: `256M`, `2G`, `2GiB`, `4096`. Units are binary.
pub fn bytes(text: &str) -> Result<u64, BadAmount> {
    let no = || BadAmount::Size(text.to_owned());
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let power = match unit.trim_start() {
        "" => 0,
        "K" | "k" | "KiB" => 1,
        "M" | "m" | "MiB" => 2,
        "G" | "g" | "GiB" => 3,
        "T" | "t" | "TiB" => 4,
        // 1000 to some, 1024 to others.
        "KB" | "kB" | "MB" | "GB" | "TB" => return Err(BadAmount::Decimal(text.to_owned())),
        _ => return Err(no()),
    };
    digits(number)
        .and_then(|n| n.checked_mul(1 << (10 * power)))
        .filter(|n| *n > 0)
        .ok_or_else(no)
}

/// What `reserve` takes: a size where there is a unit, a part of the issuer otherwise. Only memory
/// is measured in bytes.
pub fn hard(text: &str, memory: bool) -> Result<Hard, BadAmount> {
    if memory && !text.ends_with('%') && digits(text).is_none() {
        bytes(text).map(Hard::Bytes)
    } else {
        thousandths(text).map(Hard::Thousandths)
    }
}

/// Thousandths as people write them: `25%`, `12.5%`.
pub fn show_thousandths(n: u64) -> String {
    match n % 10 {
        0 => format!("{}%", n / 10),
        tenth => format!("{}.{tenth}%", n / 10),
    }
}

/// A size in the largest binary unit that is exact.
pub fn show_bytes(n: u64) -> String {
    let unit = |power: u32| (n > 0 && n.is_multiple_of(1 << (10 * power))).then_some(power);
    match (1..=4).rev().find_map(unit) {
        Some(p) => format!("{}{}", n >> (10 * p), ["", "K", "M", "G", "T"][p as usize]),
        None => n.to_string(),
    }
}

/// Thousandths in per cent, in a sentence: `25 %`, `12.5 %`.
pub fn display_thousandths(n: u64) -> String {
    match (n / 10, n % 10) {
        (whole, 0) => format!("{whole} %"),
        (whole, tenth) => format!("{whole}.{tenth} %"),
    }
}

/// A size in a sentence, in the largest unit that leaves at least 1 of it, with at most one
/// decimal: `256 MiB`, `1.5 GiB`.
pub fn display_bytes(n: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(power, _)| n >> power > 0) {
        None => format!("{n} B"),
        Some((power, unit)) => {
            let number = format!("{:.1}", n as f64 / (1_u64 << power) as f64);
            format!("{} {unit}", number.trim_end_matches(".0"))
        }
    }
}

/// Decimal digits and nothing else: no sign, no spaces.
pub(crate) fn digits(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_numbers_with_units() {
        assert_eq!(display_bytes(0), "0 B");
        assert_eq!(display_bytes(1023), "1023 B");
        assert_eq!(display_bytes(256 << 20), "256 MiB");
        assert_eq!(display_bytes((256 << 20) + 1), "256 MiB");
        assert_eq!(display_bytes(3 << 29), "1.5 GiB");
        assert_eq!(display_bytes(u64::MAX), "16777216 TiB");
        assert_eq!(display_thousandths(250), "25 %");
        assert_eq!(display_thousandths(5), "0.5 %");
        assert_eq!(display_thousandths(1505), "150.5 %");
    }

    #[test]
    fn parts_are_exact_or_refused() {
        for (text, n) in [
            ("25%", 250),
            ("12.5%", 125),
            ("12.50%", 125),
            ("0.1%", 1),
            ("99.9%", 999),
            ("25 %", 250),
            ("250", 250),
        ] {
            assert_eq!(thousandths(text), Ok(n), "{text}");
        }
        for text in ["33.33%", "0.05%", "12.51%"] {
            assert_eq!(
                thousandths(text),
                Err(BadAmount::Finer(text.into())),
                "{text}"
            );
        }
        for text in ["100%", "0%", "0", "1000", "99999999999999999999%"] {
            assert!(thousandths(text).is_err(), "{text}");
        }
        for text in ["", "%", "+5%", "-5%", "5.%", ".5%", "1.a%", "1e2", "½%"] {
            assert_eq!(
                thousandths(text),
                Err(BadAmount::Part(text.into())),
                "{text}"
            );
        }
    }

    #[test]
    fn limits_are_of_one_cpu() {
        for (text, n) in [
            ("30%", 300),
            ("0.1%", 1),
            ("100%", 1000),
            ("150.5%", 1505),
            ("102400%", MAX_LIMIT),
        ] {
            assert_eq!(limit(text), Ok(n), "{text}");
        }
        for text in ["30", "0%", "102400.1%", "-5%", "", "1.5", "none", "9e9%"] {
            assert_eq!(limit(text), Err(BadAmount::Limit(text.into())), "{text}");
        }
        assert_eq!(limit("0.05%"), Err(BadAmount::Finer("0.05%".into())));
    }

    #[test]
    fn sizes_are_binary() {
        for (text, n) in [
            ("1", 1),
            ("4K", 4096),
            ("256M", 256 << 20),
            ("2G", 2 << 30),
            ("2GiB", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(n), "{text}");
        }
        assert_eq!(bytes("2GB"), Err(BadAmount::Decimal("2GB".into())));
        for text in ["", "G", "0", "0G", "1.5G", "-1G", "2X", "99999999999T"] {
            assert_eq!(bytes(text), Err(BadAmount::Size(text.into())), "{text}");
        }
    }

    #[test]
    fn hard_is_a_part_or_for_memory_a_size() {
        assert_eq!(hard("2G", true), Ok(Hard::Bytes(2 << 30)));
        assert_eq!(hard("25%", true), Ok(Hard::Thousandths(250)));
        assert_eq!(hard("250", true), Ok(Hard::Thousandths(250)));
        assert_eq!(hard("2G", false), Err(BadAmount::Part("2G".into())));
    }

    #[test]
    fn soft_is_a_count() {
        assert_eq!(soft("1"), Ok(1));
        assert_eq!(soft("2147483648"), Ok(1 << 31));
        for text in ["0", "2147483649", "", "+1", "1.0", "99999999999999999999"] {
            assert!(soft(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_as_it_is_written() {
        for text in ["25%", "12.5%", "0.1%"] {
            assert_eq!(thousandths(text).map(show_thousandths).as_deref(), Ok(text));
        }
        for text in ["1", "1025", "4K", "256M", "3G", "1T"] {
            assert_eq!(bytes(text).map(show_bytes).as_deref(), Ok(text));
        }
        assert_eq!(show_bytes(0), "0");
    }
}
