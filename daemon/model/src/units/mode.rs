// SPDX-License-Identifier: GPL-2.0-only
//! A currency's mode: who may fund it, change it, issue its tickets (Sullivan §2.3), written as
//! chmod(1) writes a file's.
//!
//! Nine bits, `fci` for the owner, the group and others, from 0o400 (the owner may fund) down to
//! 0o001 (others may issue).

const LETTERS: [char; 3] = ['f', 'c', 'i'];
/// Every bit that a mode has.
pub const ALL: u16 = 0o777;

/// Why something is no mode, and what one looks like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMode {
    #[error(
        "{0:?} is no mode: write nine characters \"fcifcifci\" with - for what is not allowed \
         (\"fci------\"), or octal (\"700\")"
    )]
    Absolute(String),
    #[error(
        "{clause:?} changes no mode: write who (u, g, o, a), then +, - or =, then what (f, c, i), \
         as in \"g+f\" or \"u=fci,go-c\"; or octal (\"700\")"
    )]
    Symbolic { clause: String },
}

/// `fci---f--`, or octal with up to four digits.
pub fn parse_absolute(text: &str) -> Result<u16, BadMode> {
    octal(text)
        .or_else(|| nine(text))
        .ok_or_else(|| BadMode::Absolute(text.to_owned()))
}

/// `current` after a change as chmod(1) takes it: `g+f`, `u=fci,go-c`, `u+f-c`; or an absolute
/// mode. Without a who it is for all.
pub fn apply(current: u16, text: &str) -> Result<u16, BadMode> {
    if let Ok(mode) = parse_absolute(text) {
        return Ok(mode);
    }
    text.split(',').try_fold(current & ALL, |mode, clause| {
        symbolic(mode, clause).ok_or_else(|| BadMode::Symbolic {
            clause: clause.to_owned(),
        })
    })
}

/// The nine characters.
pub fn show(mode: u16) -> String {
    (0..9)
        .map(|i| match mode >> (8 - i) & 1 {
            1 => LETTERS[i % 3],
            _ => '-',
        })
        .collect()
}

fn octal(text: &str) -> Option<u16> {
    ((1..=4).contains(&text.len()) && text.bytes().all(|b| (b'0'..=b'7').contains(&b)))
        .then(|| u16::from_str_radix(text, 8).ok())
        .flatten()
        .filter(|m| *m <= ALL)
}

fn nine(text: &str) -> Option<u16> {
    let mut mode = 0;
    let mut count = 0;
    for (i, c) in text.chars().enumerate() {
        count = i + 1;
        let bit = match c {
            '-' => 0,
            c if c == LETTERS[i % 3] => 1,
            _ => return None,
        };
        if count > 9 {
            return None;
        }
        mode = mode << 1 | bit;
    }
    (count == 9).then_some(mode)
}

/// One clause: who*, then one or more of an operator and permissions.
fn symbolic(mut mode: u16, clause: &str) -> Option<u16> {
    let start = clause.find(['+', '-', '='])?;
    let (who, mut rest) = clause.split_at(start);
    let mut whom = 0;
    for c in who.chars() {
        whom |= match c {
            'u' => 0o700,
            'g' => 0o070,
            'o' => 0o007,
            'a' => ALL,
            _ => return None,
        };
    }
    if who.is_empty() {
        whom = ALL;
    }
    while let Some(op) = rest.chars().next() {
        let after = &rest[op.len_utf8()..];
        let end = after.find(['+', '-', '=']).unwrap_or(after.len());
        let mut bits = 0;
        for c in after[..end].chars() {
            let i = LETTERS.iter().position(|l| *l == c)?;
            bits |= 0o444 >> i;
        }
        match op {
            '+' => mode |= bits & whom,
            '-' => mode &= !(bits & whom),
            _ => mode = mode & !whom | bits & whom,
        }
        rest = &after[end..];
    }
    Some(mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn absolute() {
        for (text, mode) in [
            ("fci------", 0o700),
            ("fcifcifci", 0o777),
            ("---------", 0),
            ("fci---f--", 0o704),
            ("-c-f----i", 0o241),
            ("700", 0o700),
            ("0750", 0o750),
            ("7", 0o007),
        ] {
            assert_eq!(parse_absolute(text), Ok(mode), "{text}");
        }
        for text in [
            "",
            "fci",
            "rwx------",
            "fci-------",
            "8",
            "1000",
            "00700",
            "+7",
            "ifc------",
            "fci---r..",
        ] {
            assert!(parse_absolute(text).is_err(), "{text}");
        }
    }

    #[test]
    fn symbolic_as_chmod_has_it() {
        for (from, text, to) in [
            (0o700, "g+f", 0o740),
            (0o757, "u=fci,go-c", 0o755),
            (0o000, "+f", 0o444),
            (0o777, "o=", 0o770),
            (0o700, "u-c+i,g=fi", 0o550),
            (0o777, "a-i", 0o666),
            (0o123, "750", 0o750),
            (0o123, "fci------", 0o700),
            (0o700, "g+", 0o700),
        ] {
            assert_eq!(apply(from, text), Ok(to), "{from:o} {text}");
        }
        for text in ["", "g", "g+r", "x+f", "g+f,", "g f", "+é", "u=fci;g+f"] {
            assert!(apply(0, text).is_err(), "{text}");
        }
        assert_eq!(
            apply(0, "g+f,o+x").map_err(|e| e.to_string()),
            Err("\"o+x\" changes no mode: write who (u, g, o, a), then +, - or =, then what (f, c, \
                 i), as in \"g+f\" or \"u=fci,go-c\"; or octal (\"700\")"
                .to_owned())
        );
    }

    proptest! {
        #[test]
        fn round_trip(mode in 0u16..=ALL) {
            prop_assert_eq!(parse_absolute(&show(mode)), Ok(mode));
            prop_assert_eq!(parse_absolute(&format!("{mode:o}")), Ok(mode));
        }

        #[test]
        fn symbolic_is_octal(current in 0u16..=ALL, mode in 0u16..=ALL) {
            let part = |shift: u16| -> String {
                show(mode)[(2 - shift as usize) * 3..][..3].replace('-', "")
            };
            let text = format!("u={},g={},o={}", part(2), part(1), part(0));
            prop_assert_eq!(apply(current, &text), apply(current, &format!("{mode:o}")));
            let add = format!("u+{},g+{},o+{}", part(2), part(1), part(0));
            prop_assert_eq!(apply(current, &add), Ok(current | mode));
            let less = format!("u-{},g-{},o-{}", part(2), part(1), part(0));
            prop_assert_eq!(apply(current, &less), Ok(current & !mode));
        }

        #[test]
        fn anything_is_a_mode_or_refused(current: u16, text in "[ugoafci+=,0-9é-]{0,16}") {
            if let Ok(mode) = apply(current, &text) {
                prop_assert!(mode <= ALL);
            }
        }
    }
}
