// SPDX-License-Identifier: GPL-2.0-only
//! Parts of a currency on the command line: `25%`, `12.5%`, thousandths, or, of memory, a size such as `256M`.

/// How much of its issuer a hard ticket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hard {
    /// Thousandths: 1 … 999.
    Milli(i64),
    /// Bytes, 1 and more.
    Bytes(i64),
}

/// Parses the amount of a hard ticket.
pub fn hard(text: &str) -> Result<Hard, String> {
    let wrong = || {
        "a guarantee is 0.1% to 99.9% of the issuer, 1 to 999 thousandths of it (a plain number), or a size of memory such as \
         256M or 1.5G"
            .to_owned()
    };
    let milli = match text.strip_suffix('%') {
        Some(number) => decimal(number, 1).map(Hard::Milli),
        None => match text.parse() {
            Ok(number) => Some(Hard::Milli(number)),
            Err(_) => bytes(text).map(Hard::Bytes),
        },
    };
    match milli {
        Some(Hard::Milli(1..=999) | Hard::Bytes(1..)) => milli.ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// Parses per cent with at most one decimal, `10%` or `12.5%`, into thousandths: 1 … 1,000.
pub fn percent(text: &str) -> Option<i64> {
    decimal(text.strip_suffix('%')?, 1).filter(|milli| (1..=1_000).contains(milli))
}

/// Bytes of `256M`, `1.5G`, `64KiB`, `4096B`: powers of 1,024.
fn bytes(text: &str) -> Option<i64> {
    let unit = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit);
    let power = match unit.to_ascii_uppercase().as_str() {
        "B" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        _ => return None,
    };
    let thousandths = i128::from(decimal(number, 3)?);
    let bytes = thousandths * (1 << (10 * power)) / 1000;
    i64::try_from(bytes).ok()
}

/// A number without sign and with at most so many decimals, times ten to their power.
fn decimal(text: &str, decimals: u32) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let length = u32::try_from(fraction.len()).ok()?;
    if !digits(whole) || !digits(fraction) || length > decimals {
        return None;
    }
    let fraction = fraction.parse::<i64>().ok()? * 10_i64.pow(decimals - length);
    let whole = whole.parse::<i64>().ok()?;
    whole
        .checked_mul(10_i64.pow(decimals))?
        .checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guarantees() {
        for (text, amount) in [
            ("25%", Hard::Milli(250)),
            ("12.5%", Hard::Milli(125)),
            ("0.1%", Hard::Milli(1)),
            ("99.9%", Hard::Milli(999)),
            ("250", Hard::Milli(250)),
            ("1", Hard::Milli(1)),
            ("256M", Hard::Bytes(256 << 20)),
            ("256MiB", Hard::Bytes(256 << 20)),
            ("256mb", Hard::Bytes(256 << 20)),
            ("1.5G", Hard::Bytes(3 << 29)),
            ("4096B", Hard::Bytes(4096)),
            ("64k", Hard::Bytes(65_536)),
            ("2T", Hard::Bytes(2 << 40)),
        ] {
            assert_eq!(hard(text), Ok(amount), "{text}");
        }
        for wrong in [
            "0",
            "0%",
            "100%",
            "1000",
            "-5",
            "-5%",
            "12.55%",
            "0.05%",
            "%",
            "",
            "M",
            "0M",
            "-1M",
            "5X",
            "1e3",
            "1 G",
            "ten",
            ".5%",
            "5.%",
            "256MM",
            "99999999999999T",
            "9223372036854775807G",
            "1e400M",
            "٣%",
        ] {
            assert!(hard(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn parts_of_ones_own() {
        assert_eq!(percent("10%"), Some(100));
        assert_eq!(percent("100%"), Some(1_000));
        for wrong in ["0%", "100.1%", "10", "%", "-1%"] {
            assert_eq!(percent(wrong), None, "{wrong:?}");
        }
    }
}
