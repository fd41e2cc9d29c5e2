// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as people write them.

/// 12345 as 12,345.
pub fn grouped(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn numbers_as_people_write_them() {
        let of = |n: f64| grouped(n);
        assert_eq!([of(0.4), of(999.0), of(1_177.5)], ["0", "999", "1,178"]);
        assert_eq!(of(1_234_567.0), "1,234,567");
    }
}
