// SPDX-License-Identifier: GPL-2.0-only
//! Rights that are traded: base tickets with up to three decimals, a part of the machine, or of
//! memory a size. A base ticket of memory is a byte.

use super::{BadAmount, bytes, digits, display_bytes, show_bytes};
use crate::{MAX_RIGHTS, Resource};

/// How much of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Thousandths of a base ticket.
    Milli(u64),
    /// Millionths of the machine.
    Millionths(u64),
}

/// `100`, `12.5`, `25%`; of memory also `256M`.
pub fn parse(text: &str, resource: Resource) -> Result<Amount, BadAmount> {
    let no = || BadAmount::Rights(text.to_owned());
    if let Some(cent) = text.strip_suffix('%') {
        let part = decimal(cent.trim_end(), 4).ok_or_else(no)?;
        return match part {
            1..=1_000_000 => Ok(Amount::Millionths(part)),
            _ => Err(no()),
        };
    }
    let milli = match decimal(text, 3) {
        Some(milli) => milli,
        None if resource == Resource::Memory => bytes(text)?.checked_mul(1000).ok_or_else(no)?,
        None => return Err(no()),
    };
    match milli {
        1..=MAX_RIGHTS => Ok(Amount::Milli(milli)),
        _ => Err(no()),
    }
}

/// `cpu:100`: a resource, and how much of it.
pub fn resource_and_amount(text: &str) -> Result<(Resource, Amount), BadAmount> {
    let no = || BadAmount::Side(text.to_owned());
    let (name, amount) = text.split_once(':').ok_or_else(no)?;
    let resource = Resource::ALL.into_iter().find(|r| r.name() == name);
    let resource = resource.ok_or_else(no)?;
    Ok((resource, parse(amount, resource)?))
}

impl Amount {
    /// In thousandths of base tickets, if `total` of those are the machine. Rounded down.
    pub fn milli(self, total: u64) -> u64 {
        match self {
            Amount::Milli(milli) => milli,
            Amount::Millionths(part) => {
                let milli = u128::from(part) * u128::from(total) / 1000;
                u64::try_from(milli).unwrap_or(u64::MAX)
            }
        }
    }
}

/// `12.5 cpu tickets`, `256M of memory`.
pub fn show(resource: Resource, milli: u64) -> String {
    if resource == Resource::Memory && milli.is_multiple_of(1000) {
        let (exact, bytes) = (show_bytes(milli / 1000), milli / 1000);
        // Of no unit, so that it would be bytes by the million.
        let odd = bytes >= 1024 && bytes % 1024 != 0;
        let size = if odd { display_bytes(bytes) } else { exact };
        return format!("{size} of memory");
    }
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    let number = text.trim_end_matches('0').trim_end_matches('.');
    let tickets = if number == "1" { "ticket" } else { "tickets" };
    format!("{number} {} {tickets}", resource.name())
}

/// The same without its unit, as JSON has it: base tickets.
pub fn number(milli: u64) -> f64 {
    milli as f64 / 1000.0
}

/// From such a number.
pub fn milli(number: f64) -> u64 {
    // At most 2^53, so that every one of them is a number.
    (number * 1000.0).round() as u64
}

/// A decimal number with at most so many places, in units of the last of them.
fn decimal(text: &str, places: u32) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let part = part.trim_end_matches('0');
    let length = u32::try_from(part.len()).ok().filter(|n| *n <= places)?;
    let part = if part.is_empty() { 0 } else { digits(part)? };
    let whole = digits(whole)?.checked_mul(10_u64.pow(places))?;
    whole.checked_add(part * 10_u64.pow(places - length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (text, resource, amount) in [
            ("100", Resource::Cpu, Amount::Milli(100_000)),
            ("12.5", Resource::Disk, Amount::Milli(12_500)),
            ("0.001", Resource::Net, Amount::Milli(1)),
            ("25%", Resource::Cpu, Amount::Millionths(250_000)),
            ("12.5 %", Resource::Cpu, Amount::Millionths(125_000)),
            ("100%", Resource::Cpu, Amount::Millionths(1_000_000)),
            ("1K", Resource::Memory, Amount::Milli(1_024_000)),
            ("4096", Resource::Memory, Amount::Milli(4_096_000)),
        ] {
            assert_eq!(parse(text, resource), Ok(amount), "{text}");
        }
        for text in [
            "",
            "0",
            "-1",
            "0%",
            "101%",
            "1.0001",
            "0.00001%",
            "1K",
            "x",
            "1e3",
            "%",
            "+1",
            "99999999999999999999",
        ] {
            assert!(parse(text, Resource::Cpu).is_err(), "{text}");
        }
        assert_eq!(Amount::Millionths(125_000).milli(1000), 125_000);
    }

    #[test]
    fn with_their_resource() {
        let got = resource_and_amount("disk:12.5");
        assert_eq!(got, Ok((Resource::Disk, Amount::Milli(12_500))));
        for text in ["disk", "12", "gold:1", "disk:", ":1", "cpu:1K"] {
            assert!(resource_and_amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_with_units() {
        assert_eq!(show(Resource::Cpu, 12_500), "12.5 cpu tickets");
        assert_eq!(show(Resource::Cpu, 1000), "1 cpu ticket");
        assert_eq!(show(Resource::Cpu, 100_000), "100 cpu tickets");
        assert_eq!(show(Resource::Memory, (256 << 20) * 1000), "256M of memory");
        assert_eq!(show(Resource::Memory, 1), "0.001 memory tickets");
    }
}
