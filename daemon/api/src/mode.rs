// SPDX-License-Identifier: GPL-2.0-only
//! Modes: who may do what with a currency. Nine bits, `fci` (fund it, change it, issue its tickets) for its owner, its group, others.

/// All nine bits.
pub const ALL: u32 = 0o777;

/// A mode as nine characters: `fci-c----`.
pub fn text(mode: u32) -> String {
    (0..9)
        .map(|at| match mode >> (8 - at) & 1 {
            1 => char::from(b"fci"[at % 3]),
            _ => '-',
        })
        .collect()
}

/// What a mode as people write it makes of the mode `now`; `None`: that is no mode.
///
/// Nine characters (`fci-c----`) and octal (`740`, one to four digits up to 0777) replace it. Symbolic is as of chmod(1): clauses with
/// commas between, each any of `ugoa` (nobody named: all), then one or more times `+`, `-` or `=` and any of `fci`.
pub fn evaluate(written: &str, now: u32) -> Option<u32> {
    if let Some(mode) = nine(written) {
        return Some(mode);
    }
    if written.starts_with(|c: char| c.is_ascii_digit()) {
        let octal = written.len() <= 4 && written.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let mode = u32::from_str_radix(written, 8).ok()?;
        return (octal && mode <= ALL).then_some(mode);
    }
    written
        .split(',')
        .try_fold(now & ALL, |mode, clause| symbolic(clause, mode))
}

fn nine(written: &str) -> Option<u32> {
    let bytes: &[u8; 9] = written.as_bytes().try_into().ok()?;
    bytes.iter().enumerate().try_fold(0, |mode, (at, byte)| {
        let bit = match byte {
            b'-' => 0,
            byte if *byte == b"fci"[at % 3] => 1,
            _ => return None,
        };
        Some(mode << 1 | bit)
    })
}

fn symbolic(clause: &str, mut mode: u32) -> Option<u32> {
    let start = clause.find(['+', '-', '='])?;
    let (who, mut rest) = clause.split_at(start);
    let mut whose = who.chars().try_fold(0, |bits, who| {
        Some(
            bits | match who {
                'u' => 0o700,
                'g' => 0o070,
                'o' => 0o007,
                'a' => ALL,
                _ => return None,
            },
        )
    })?;
    if who.is_empty() {
        whose = ALL;
    }
    while let Some(sign) = rest.chars().next() {
        let what = &rest[1..];
        let end = what.find(['+', '-', '=']).unwrap_or(what.len());
        let bits = what[..end].chars().try_fold(0, |bits, what| {
            Some(
                bits | match what {
                    'f' => 0o444,
                    'c' => 0o222,
                    'i' => 0o111,
                    _ => return None,
                },
            )
        })? & whose;
        mode = match sign {
            '+' => mode | bits,
            '-' => mode & !bits,
            _ => mode & !whose | bits,
        };
        rest = &what[end..];
    }
    Some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_shown_and_read_back() {
        assert_eq!(text(0o700), "fci------");
        assert_eq!(text(0o542), "f-if---c-");
        for mode in 0..=ALL {
            assert_eq!(evaluate(&text(mode), 0), Some(mode));
            assert_eq!(evaluate(&format!("{mode:o}"), 0), Some(mode));
            assert_eq!(evaluate(&format!("{mode:04o}"), 0), Some(mode));
        }
    }

    #[test]
    fn symbolic_modes_change_what_is_there() {
        for (written, now, then) in [
            ("g+f", 0o700, 0o740),
            ("g-f", 0o740, 0o700),
            ("-f", 0o777, 0o333),
            ("+c", 0, 0o222),
            ("u=fci,go-c", 0o026, 0o704),
            ("a=", 0o777, 0),
            ("go=i", 0o777, 0o711),
            ("g+f-i", 0o710, 0o740),
            ("ug+fi,o=f", 0, 0o554),
        ] {
            assert_eq!(evaluate(written, now), Some(then), "{written}");
        }
    }

    #[test]
    fn what_is_no_mode_is_none() {
        for wrong in [
            "",
            "g",
            "f",
            "x+f",
            "g+r",
            "g+f,",
            ",g+f",
            "8",
            "1000",
            "00700",
            "7 0",
            "fci-----",
            "fci-------",
            "icf------",
            "+-=x",
            "é+f",
            "g+é",
            "-1",
            "0o7",
            "u=rwx",
        ] {
            assert_eq!(evaluate(wrong, 0), None, "{wrong:?}");
        }
    }
}
