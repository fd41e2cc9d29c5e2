// SPDX-License-Identifier: GPL-2.0-only
//! The ledger as a document, one line for each durable row, in names rather than numbers: for a backup, another machine, or version
//! control. What belongs to jobs that run now is not in it.

use crate::core::Core;
use crate::ledger::{BASE, Caller, Cid, End, Key, Kind, Ledger, Resource, Row, Withdrawn};
use crate::units;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use tix_api::{Error, ImportReply};

/// The first line.
const HEAD: &str = r#"{"format":"tix ledger","version":1}"#;
/// The longest document that is taken, bytes.
const LONGEST: usize = 256 << 20;
/// Bytes of a part of an exported document.
const PART: usize = 16 << 10;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Line {
    Currency {
        name: String,
        owner: u32,
        group: u32,
        mode: String,
        by: u32,
    },
    Broker {
        path: String,
        owner: Option<u32>,
        group: Option<u32>,
        mode: Option<String>,
        by: u32,
    },
    Ticket {
        from: String,
        to: String,
        resource: Resource,
        kind: Kind,
        amount: u64,
        bytes: bool,
        by: u32,
    },
    Binding {
        path: String,
        currency: String,
        by: u32,
        /// Of the CPU.
        withdrawn: bool,
        #[serde(default)]
        disk_withdrawn: bool,
    },
    Lapsed {
        name: String,
        resource: Resource,
        amount: u64,
    },
    Limit {
        name: String,
        resource: Resource,
        /// Thousandths of one CPU.
        milli: u64,
        by: u32,
    },
}

fn line(name: &dyn Fn(Cid) -> String, key: Key, row: Row) -> Option<Line> {
    let end = |e: End| match e {
        End::Cid(c) => name(c),
        End::Path(p) => p,
    };
    Some(match (key, row) {
        (
            Key::Currency(_),
            Row::Currency {
                name,
                owner,
                group,
                mode,
                by,
                ..
            },
        ) => Line::Currency {
            name,
            owner,
            group,
            mode: units::mode::show(mode),
            by,
        },
        (
            Key::Broker(path),
            Row::Broker {
                owner,
                group,
                mode,
                by,
            },
        ) => Line::Broker {
            path,
            owner,
            group,
            mode: mode.map(units::mode::show),
            by,
        },
        (
            Key::Ticket {
                issuer,
                holder,
                resource,
                kind,
            },
            Row::Ticket { amount, bytes, by },
        ) => Line::Ticket {
            from: end(issuer),
            to: end(holder),
            resource,
            kind,
            amount,
            bytes,
            by,
        },
        (Key::Binding(path), Row::Binding { cid, by, withdrawn }) => Line::Binding {
            path,
            currency: name(cid),
            by,
            withdrawn: withdrawn.of(Resource::Cpu),
            disk_withdrawn: withdrawn.of(Resource::Disk),
        },
        (Key::Lapsed(name, resource), Row::Lapsed { amount }) => Line::Lapsed {
            name,
            resource,
            amount,
        },
        (Key::Limit(of, resource), Row::Limit { milli, by }) => Line::Limit {
            name: end(of),
            resource,
            milli,
            by,
        },
        _ => return None,
    })
}

/// All of it.
pub fn document(l: &Ledger) -> String {
    let lasting = l.rows().into_iter().filter(|(k, _)| !l.is_passing(k));
    let lines = lasting.filter_map(|(k, row)| line(&|c| l.name(c), k, row));
    let mut text: Vec<String> = lines
        .filter_map(|x| serde_json::to_string(&x).ok())
        .collect();
    text.sort();
    text.insert(0, HEAD.to_owned());
    text.join("\n") + "\n"
}

/// Parts of it that fit a message each.
pub fn parts(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    for line in text.split_inclusive('\n') {
        match out.last_mut() {
            Some(part) if part.len() + line.len() <= PART => part.push_str(line),
            _ => out.push(line.to_owned()),
        }
    }
    out
}

/// A document that is being handed in.
#[derive(Default)]
pub struct Import(String);

fn bad(message: String, hint: &str) -> Error {
    Error::BadParameter {
        message,
        hint: hint.to_owned(),
    }
}

impl Import {
    pub fn add(&mut self, chunk: &str) -> Result<(), Error> {
        if self.0.len() + chunk.len() > LONGEST {
            let what = format!(
                "a document of more than {}",
                units::show_bytes(LONGEST as u64)
            );
            return Err(bad(what, "a ledger is not that large"));
        }
        self.0.push_str(chunk);
        Ok(())
    }
}

/// The rows that `text` says, with currencies numbered as `l` has them, new ones from its next number on.
fn rows(l: &Ledger, text: &str) -> Result<BTreeMap<Key, Row>, Error> {
    let hint = "hand in what `tixctl export` printed";
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, first)| first) != Some(HEAD) {
        let what = format!("line 1 is not {HEAD}");
        return Err(bad(
            what,
            "this is no ledger, or one of another version of tixd",
        ));
    }
    let mut parsed: Vec<(usize, Line)> = Vec::new();
    for (i, text) in lines.filter(|(_, t)| !t.trim().is_empty()) {
        let line =
            serde_json::from_str(text).map_err(|e| bad(format!("line {}: {e}", i + 1), hint))?;
        parsed.push((i + 1, line));
    }
    let mut numbers: HashMap<String, Cid> = HashMap::from([("base".to_owned(), BASE)]);
    let mut next = l.next_cid();
    for (_, line) in &parsed {
        if let Line::Currency { name, .. } = line {
            let known = l.find(name).filter(|_| !name.starts_with('/'));
            let cid = known.unwrap_or(next);
            next = next.max(cid + 1);
            numbers.insert(name.clone(), cid);
        }
    }
    let mut out = BTreeMap::new();
    for (at, line) in parsed {
        let (key, row) = row(&numbers, line).map_err(|e| bad(format!("line {at}: {e}"), hint))?;
        if out.insert(key, row).is_some() {
            return Err(bad(
                format!("line {at} says again what was said before"),
                hint,
            ));
        }
    }
    Ok(out)
}

fn row(numbers: &HashMap<String, Cid>, line: Line) -> Result<(Key, Row), String> {
    let number = |name: &String| {
        let known = numbers.get(name).copied();
        known.ok_or_else(|| format!("there is no currency {name:?} in it"))
    };
    let end = |name: String| match name.starts_with('/') {
        true => Ok(End::Path(name)),
        false => number(&name).map(End::Cid),
    };
    let mode_of = |m: String| units::mode::parse_absolute(&m).map_err(|e| e.to_string());
    Ok(match line {
        Line::Currency {
            name,
            owner,
            group,
            mode,
            by,
        } => {
            let row = Row::Currency {
                name: name.clone(),
                owner,
                group,
                mode: mode_of(mode)?,
                transient: None,
                by,
            };
            (Key::Currency(number(&name)?), row)
        }
        Line::Broker {
            path,
            owner,
            group,
            mode,
            by,
        } => {
            let row = Row::Broker {
                owner,
                group,
                mode: mode.map(mode_of).transpose()?,
                by,
            };
            (Key::Broker(path), row)
        }
        Line::Ticket {
            from,
            to,
            resource,
            kind,
            amount,
            bytes,
            by,
        } => {
            let key = Key::Ticket {
                issuer: end(from)?,
                holder: end(to)?,
                resource,
                kind,
            };
            (key, Row::Ticket { amount, bytes, by })
        }
        Line::Binding {
            path,
            currency,
            by,
            withdrawn,
            disk_withdrawn,
        } => {
            let cid = number(&currency)?;
            let withdrawn = match (withdrawn, disk_withdrawn) {
                (true, true) => Withdrawn::Both,
                (true, false) => Withdrawn::Cpu,
                (false, false) => Withdrawn::Nothing,
                (false, true) => {
                    return Err(format!(
                        "{path}: disk_withdrawn, but not withdrawn: no binding withdraws the ticket for the disk alone"
                    ));
                }
            };
            (Key::Binding(path), Row::Binding { cid, by, withdrawn })
        }
        Line::Lapsed {
            name,
            resource,
            amount,
        } => (Key::Lapsed(name, resource), Row::Lapsed { amount }),
        Line::Limit {
            name,
            resource,
            milli,
            by,
        } => (Key::Limit(end(name)?, resource), Row::Limit { milli, by }),
    })
}

/// Makes the ledger what the document says, or only says what that would change.
pub fn import(
    core: &mut Core,
    document: &Import,
    dry_run: bool,
    caller: &Caller,
) -> Result<ImportReply, Error> {
    let wanted = rows(&core.ledger, &document.0)?;
    let changes = core.ledger.difference(&wanted);
    let words = changes
        .iter()
        .map(|(key, row)| {
            let was = core.ledger.row(key);
            // A new currency's name is not in the ledger yet.
            let name = |c: Cid| match wanted.get(&Key::Currency(c)) {
                Some(Row::Currency { name, .. }) => name.clone(),
                _ => core.ledger.name(c),
            };
            let text = |row: Option<Row>| {
                row.and_then(|row| line(&name, key.clone(), row))
                    .and_then(|x| serde_json::to_string(&x).ok())
                    .unwrap_or_default()
            };
            match (was, row) {
                (None, now) => format!("+ {}", text(now.clone())),
                (was, None) => format!("- {}", text(was)),
                (was, now) => format!("~ {} -> {}", text(was), text(now.clone())),
            }
        })
        .collect();
    core.import(&changes, dry_run, caller)
        .map_err(super::names::internal)?;
    Ok(ImportReply {
        changes: words,
        applied: !dry_run,
    })
}
