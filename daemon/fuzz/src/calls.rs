// SPDX-License-Identifier: GPL-2.0-only
//! An input of the API's fuzzer as text, so that the corpus can be read and written by people. A
//! line is one of
//!
//! - `a Fund x alice cpu 10`: alice (`b`: bob, `r`: root; in capitals on another connection) calls a method with these parameters, in the
//!   order of the interface's description. A word is JSON if it can be, else text; `_` leaves a parameter out. `Watch+` asks for more
//!   than one answer, `Fund-` for none.
//! - `a !TEXT`: sends this as it is, with a NUL behind it.
//! - `+a /path`, `-a /path`: a cgroup of alice's appears, or goes.
//!
//! Every other line is nothing. Most of what a fuzzer makes of a line is a line still.

use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::LazyLock;
use zlink::idl::Interface;

const TEXT: &str = include_str!("../../api/org.tix.Tix.varlink");

/// The parameters of each method, in order.
static METHODS: LazyLock<HashMap<String, Vec<String>>> = LazyLock::new(|| {
    let interface = Interface::try_from(TEXT).expect("the description parses");
    let of = |m: &zlink::idl::Method<'_>| m.inputs().map(|p| p.name().to_string()).collect();
    interface
        .methods()
        .map(|m| (m.name().to_string(), of(m)))
        .collect()
});

/// Who does something, and on which of two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    pub uid: u32,
    pub second: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Send(Who, Vec<u8>),
    Appears(Who, &'a str),
    Goes(Who, &'a str),
}

fn who(letter: u8) -> Option<Who> {
    let uid = match letter.to_ascii_lowercase() {
        b'r' => 0,
        b'a' => crate::world::ALICE,
        b'b' => crate::world::BOB,
        _ => return None,
    };
    let second = letter.is_ascii_uppercase();
    Some(Who { uid, second })
}

/// What a line says.
pub fn step(line: &[u8]) -> Option<Step<'_>> {
    match line {
        [sign @ (b'+' | b'-'), letter, b' ', path @ ..] => {
            let (who, path) = (who(*letter)?, std::str::from_utf8(path).ok()?);
            Some(match sign {
                b'+' => Step::Appears(who, path),
                _ => Step::Goes(who, path),
            })
        }
        [letter, b' ', b'!', text @ ..] => Some(Step::Send(who(*letter)?, [text, &[0]].concat())),
        [letter, b' ', words @ ..] => {
            let words = String::from_utf8_lossy(words);
            Some(Step::Send(who(*letter)?, call(&words)?))
        }
        _ => None,
    }
}

fn call(words: &str) -> Option<Vec<u8>> {
    let mut words = words.split_ascii_whitespace();
    let method = words.next()?;
    let name = method.trim_end_matches(['+', '-']);
    let names = METHODS.get(name).map(Vec::as_slice).unwrap_or_default();
    let given = names.iter().zip(words).filter(|(_, word)| *word != "_");
    let parameters: Map<String, Value> = given
        .map(|(name, word)| {
            let text = || Value::String(word.to_owned());
            (
                name.clone(),
                serde_json::from_str(word).unwrap_or_else(|_| text()),
            )
        })
        .collect();
    let mut call = json!({"method": format!("org.tix.Tix.{name}"), "parameters": parameters});
    for (sign, key) in [('+', "more"), ('-', "oneway")] {
        if method.ends_with(sign) {
            call[key] = Value::Bool(true);
        }
    }
    Some([call.to_string().as_bytes(), &[0]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let alice = Who {
            uid: 1000,
            second: false,
        };
        let said = |line: &str| match step(line.as_bytes()) {
            Some(Step::Send(who, bytes)) => {
                assert_eq!(who, alice);
                String::from_utf8(bytes).unwrap()
            }
            other => panic!("{other:?}"),
        };
        let fund = said("a Fund- x _ cpu 10");
        let (end, call) = (
            fund.len() - 1,
            serde_json::from_str::<Value>(fund.trim_end_matches('\0')),
        );
        assert_eq!(fund.as_bytes()[end], 0);
        let parameters = json!({"holder": "x", "resource": "cpu", "amount": 10});
        let method = "org.tix.Tix.Fund";
        assert_eq!(
            call.unwrap(),
            json!({"method": method, "parameters": parameters, "oneway": true})
        );
        assert_eq!(said("a !{"), "{\0");
        assert_eq!(step(b"+a /x"), Some(Step::Appears(alice, "/x")));
        for nothing in ["", "a", "x Status", "# a comment", "+x /", "a "] {
            assert_eq!(step(nothing.as_bytes()), None, "{nothing:?}");
        }
    }
}
