// SPDX-License-Identifier: GPL-2.0-only
//! The ledger as a document, one line for each durable row, in names rather than numbers: for a
//! backup, another machine, or version control. What belongs to jobs that run now is not in it.

use super::errors::{self, bad};
use crate::writer::Core;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tix_api::{Error, ImportReply};
use tix_ledger::{
    BASE, Caller, Cid, End, Key, Kind, Ledger, POLICY, Resource, Row, Withdrawn, is_root,
};
use tix_model::units;

/// The first line.
const HEAD: &str = r#"{"format":"tix ledger","version":1}"#;
/// The longest document that is taken, bytes.
const LONGEST: usize = 256 << 20;
/// And lines: each is a row, which is looked at on the writer.
const MOST_LINES: usize = 1_000_000;
const HINT: &str = "hand in what `tixctl export` printed";
/// Bytes of a part of an exported document.
const PART: usize = 16 << 10;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Line {
    Space {
        uid: u32,
        label: String,
    },
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
        (Key::Space(uid), Row::Space { label }) => Line::Space { uid, label },
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

    /// Takes it apart. That takes long where it is long: to be done beside the writer.
    ///
    /// # Errors
    /// Where it is no ledger.
    pub fn parse(&self) -> Result<Document, Error> {
        if self.0.lines().count() > MOST_LINES {
            let what = format!("a document of more than {MOST_LINES} lines");
            return Err(bad(what, "a ledger is not that large"));
        }
        let mut lines = self.0.lines().enumerate();
        if lines.next().map(|(_, first)| first) != Some(HEAD) {
            let what = format!("line 1 is not {HEAD}");
            return Err(bad(
                what,
                "this is no ledger, or one of another version of tixd",
            ));
        }
        let mut parsed = Vec::new();
        for (i, text) in lines.filter(|(_, t)| !t.trim().is_empty()) {
            let line = serde_json::from_str(text)
                .map_err(|e| bad(format!("line {}: {e}", i + 1), HINT))?;
            parsed.push((i + 1, line));
        }
        Ok(Document(parsed))
    }
}

/// A document, line by line, with their numbers.
pub struct Document(Vec<(usize, Line)>);

impl Document {
    /// The users who have made a currency in it.
    pub fn makers(&self) -> BTreeSet<u32> {
        let made = self.0.iter().filter_map(|(_, line)| match line {
            Line::Currency { by, .. } => Some(*by),
            _ => None,
        });
        made.filter(|by| !is_root(*by)).collect()
    }
}

/// What the currencies of a document are called here. A user's are in that user's space, whatever
/// its label was where the document comes from; one that was written before there were spaces has
/// plain names alone.
struct Called<'a> {
    ledger: &'a Ledger,
    users: &'a BTreeMap<u32, String>,
    /// The uids that the labels in the document stand for.
    whose: HashMap<String, u32>,
    /// The labels of here.
    labels: BTreeMap<u32, String>,
    /// Names in the document, and here.
    names: HashMap<String, String>,
    /// Lines that are left out.
    astray: Vec<String>,
}

impl Called<'_> {
    fn label(&mut self, uid: u32) -> String {
        if let Some(label) = self.labels.get(&uid) {
            return label.clone();
        }
        let said = self.whose.iter().find(|(_, u)| **u == uid);
        let said = said.map(|(label, _)| label.as_str());
        let user = said.or_else(|| self.users.get(&uid).map(String::as_str));
        let mut label = self.ledger.label_for(uid, user);
        if self.labels.values().any(|taken| *taken == label) {
            label = uid.to_string();
        }
        self.labels.insert(uid, label.clone());
        label
    }

    fn currency(&mut self, name: &str, by: u32) -> Result<(), String> {
        let here = match name.split_once('/') {
            _ if is_root(by) => name.to_owned(),
            None => format!("{}/{name}", self.label(by)),
            Some((label, local)) if self.is_label_of(label, by) => {
                format!("{}/{local}", self.label(by))
            }
            Some((label, _)) => {
                return Err(format!(
                    "{name:?} was made by uid {by}, whose space is not {label:?}"
                ));
            }
        };
        self.names.insert(name.to_owned(), here);
        Ok(())
    }

    fn is_label_of(&self, label: &str, uid: u32) -> bool {
        let here = || self.ledger.labelled(label);
        let whose = self.whose.get(label).copied().or_else(here);
        whose == Some(uid) || label == uid.to_string()
    }

    /// It is of the policy's doing, for a currency that a user has made, by its name: meant for
    /// another.
    fn is_astray(&self, line: &Line) -> bool {
        let (name, by) = match line {
            Line::Ticket { to, by, .. } => (to, by),
            Line::Binding { currency, by, .. } => (currency, by),
            _ => return false,
        };
        let of_a_user = |name: &String| name.contains('/') && !name.starts_with('/');
        *by == POLICY && self.names.get(name).is_some_and(of_a_user)
    }

    /// Of what is not there, but has left tickets behind.
    fn gone(&mut self, name: &str) -> String {
        if let Some(here) = self.names.get(name) {
            return here.clone();
        }
        let space = name.split_once('/');
        let whose = space.and_then(|(label, local)| Some((*self.whose.get(label)?, local)));
        match whose {
            Some((uid, local)) => format!("{}/{local}", self.label(uid)),
            None => name.to_owned(),
        }
    }
}

/// The rows that it says, with currencies numbered as `l` has them, new ones from its next number
/// on.
fn rows<'a>(
    l: &'a Ledger,
    users: &'a BTreeMap<u32, String>,
    Document(parsed): Document,
) -> Result<(BTreeMap<Key, Row>, Called<'a>), Error> {
    let mut called = Called {
        ledger: l,
        users,
        whose: HashMap::new(),
        labels: BTreeMap::new(),
        names: HashMap::new(),
        astray: Vec::new(),
    };
    for (_, line) in &parsed {
        if let Line::Space { uid, label } = line {
            called.whose.insert(label.clone(), *uid);
        }
    }
    let mut numbers: HashMap<String, Cid> = HashMap::from([("base".to_owned(), BASE)]);
    let mut next = l.next_cid();
    for (at, line) in &parsed {
        if let Line::Currency { name, by, .. } = line {
            let here = called.currency(name, *by);
            here.map_err(|e| bad(format!("line {at}: {e}"), HINT))?;
            let here = called.names.get(name).filter(|_| !name.starts_with('/'));
            let known = here.and_then(|here| l.find(here));
            let cid = known.unwrap_or(next);
            next = next.max(cid + 1);
            numbers.insert(name.clone(), cid);
        }
    }
    let mut out = BTreeMap::new();
    for (at, line) in parsed {
        if called.is_astray(&line) {
            let text = serde_json::to_string(&line).unwrap_or_default();
            called.astray.push(text);
            continue;
        }
        let (key, row) =
            row(&numbers, &mut called, line).map_err(|e| bad(format!("line {at}: {e}"), HINT))?;
        if out.insert(key, row).is_some() {
            return Err(bad(
                format!("line {at} says again what was said before"),
                HINT,
            ));
        }
    }
    for (uid, label) in &called.labels {
        let label = label.clone();
        out.insert(Key::Space(*uid), Row::Space { label });
    }
    Ok((out, called))
}

fn row(
    numbers: &HashMap<String, Cid>,
    called: &mut Called<'_>,
    line: Line,
) -> Result<(Key, Row), String> {
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
        Line::Space { uid, .. } => {
            let label = called.label(uid);
            (Key::Space(uid), Row::Space { label })
        }
        Line::Currency {
            name,
            owner,
            group,
            mode,
            by,
        } => {
            let row = Row::Currency {
                name: called.gone(&name),
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
                        "{path}: disk_withdrawn, but not withdrawn: no binding withdraws the \
                         ticket for the disk alone"
                    ));
                }
            };
            (Key::Binding(path), Row::Binding { cid, by, withdrawn })
        }
        Line::Lapsed {
            name,
            resource,
            amount,
        } => (
            Key::Lapsed(called.gone(&name), resource),
            Row::Lapsed { amount },
        ),
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
    document: Document,
    users: &BTreeMap<u32, String>,
    dry_run: bool,
    caller: &Caller,
) -> Result<ImportReply, Error> {
    let (wanted, called) = rows(&core.ledger, users, document)?;
    let changes = core.ledger.difference(&wanted);
    let renamed: HashMap<&str, &str> = (called.names.iter())
        .filter(|(was, here)| was != here)
        .map(|(was, here)| (here.as_str(), was.as_str()))
        .collect();
    let mut words: Vec<String> = changes
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
                (None, now) => {
                    let text = text(now.clone());
                    match now {
                        Some(Row::Currency { name, by, .. })
                            if let Some(was) = renamed.get(name.as_str()) =>
                        {
                            format!("+ {text}: {was} in the file, made by uid {by}")
                        }
                        _ => format!("+ {text}"),
                    }
                }
                (was, None) => format!("- {}", text(was)),
                (was, now) => format!("~ {} -> {}", text(was), text(now.clone())),
            }
        })
        .collect();
    let left_out = |line: &String| {
        format!(
            "left out, as the policy meant a plain currency by it, and a user has made that: {line}"
        )
    };
    words.extend(called.astray.iter().map(left_out));
    core.import(&changes, dry_run, caller)
        .map_err(errors::internal)?;
    Ok(ImportReply {
        changes: words,
        applied: !dry_run,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_taken_apart_alone_and_has_an_end() {
        let parse = |text: &str| {
            let mut import = Import::default();
            import.add(text).unwrap();
            import.parse()
        };
        let currency = |by| {
            format!(
                r#"{{"currency":{{"name":"c","owner":0,"group":0,"mode":"fci------","by":{by}}}}}"#
            )
        };
        let text = format!("{HEAD}\n{}\n\n{}\n", currency(0), currency(1000));
        let document = parse(&text).unwrap();
        assert_eq!(document.makers(), BTreeSet::from([1000]));
        let numbers: Vec<usize> = document.0.iter().map(|(at, _)| *at).collect();
        assert_eq!(numbers, [2, 4]);
        let wrong = |text: &str| match parse(text).err() {
            Some(Error::BadParameter { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        assert!(wrong(&format!("{HEAD}\nno\n")).contains("line 2:"));
        assert!(wrong("no").contains("line 1 is not"));
        let long = format!("{HEAD}{}", "\n".repeat(MOST_LINES + 1));
        assert_eq!(wrong(&long), "a document of more than 1000000 lines");
    }
}
