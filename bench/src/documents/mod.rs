// SPDX-License-Identifier: GPL-2.0-only
//! What documents show of bench/results/, made from that and from nothing else: tables, between
//! `<!-- bench: NAME -->` and `<!-- end -->`, and pictures.

mod tables;

use std::fs;

use anyhow::{Context, Result, bail};
use tix_tests::guest::tree;

use crate::lab::{self, Point};
use crate::{exchanges, machine, plot, resources, stores};

const END: &str = "<!-- end -->";
/// The documents that have tables.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/benchmarks.md"];

pub fn run() -> Result<()> {
    for (name, svg) in pictures()? {
        plot::save(&name, &svg)?;
    }
    for document in DOCUMENTS {
        let path = tree().join(document);
        let old = fs::read_to_string(&path).with_context(|| format!("read {document}"))?;
        let (new, differ) = replaced(&old, tables::table).context(document)?;
        if differ.is_empty() {
            continue;
        }
        fs::write(&path, new).with_context(|| format!("write {document}"))?;
        eprintln!("{document}: wrote {}", differ.join(", "));
    }
    Ok(())
}

/// All pictures in bench/results/, by name, as the results there have it.
fn pictures() -> Result<Vec<(String, String)>> {
    let mut all = lab::figure::pictures(&machine::read::<Point>("error")?.runs)?;
    let disk = resources::disk_picture(&resources::recorded("disk")?)?;
    let memory = resources::memory_picture(&resources::recorded("memory")?)?;
    let exchange = exchanges::picture(&resources::recorded("exchange")?)?;
    let stores = stores::picture(&resources::recorded("stores")?)?;
    for (name, svg) in [
        ("disk", disk),
        ("memory", memory),
        ("exchange", exchange),
        ("stores", stores),
    ] {
        all.push((name.to_owned(), svg));
    }
    Ok(all)
}

/// `text` with every table as `table` has it by its name, and the names of those that were
/// different.
fn replaced(text: &str, table: impl Fn(&str) -> Result<String>) -> Result<(String, Vec<String>)> {
    let (mut new, mut differ) = (String::new(), Vec::new());
    let mut lines = text.split_inclusive('\n');
    while let Some(line) = lines.next() {
        new.push_str(line);
        let begins = line.trim().strip_prefix("<!-- bench: ");
        let Some(name) = begins.and_then(|l| l.strip_suffix(" -->")) else {
            continue;
        };
        let mut had = String::new();
        let end = loop {
            match lines.next() {
                Some(end) if end.trim() == END => break end,
                Some(line) if !line.contains("<!-- bench: ") => had.push_str(line),
                _ => bail!("the table {name} has no {END}"),
            }
        };
        let wanted = table(name).with_context(|| format!("the table {name}"))?;
        if had != wanted {
            differ.push(name.to_owned());
        }
        new.push_str(&wanted);
        new.push_str(end);
    }
    Ok((new, differ))
}

#[cfg(test)]
mod tests {
    use anyhow::ensure;

    use super::*;

    #[test]
    fn the_tables_are_those_of_the_results() {
        for document in DOCUMENTS {
            let text = fs::read_to_string(tree().join(document)).expect(document);
            assert!(text.contains("<!-- bench: "), "{document} has no table");
            let (_, differ) = replaced(&text, tables::table).expect("tables of results");
            assert!(
                differ.is_empty(),
                "{document} says other than bench/results/ about {differ:?}: run bench/run \
                 documents, and commit what it changes"
            );
        }
    }

    #[test]
    fn the_pictures_are_those_of_the_results() {
        let dir = tree().join("bench/results");
        let pictures = pictures().expect("pictures of results");
        let entries = fs::read_dir(&dir).expect("results");
        let names = entries.map(|e| e.expect("an entry").file_name());
        let there = names.filter(|n| n.to_string_lossy().ends_with(".svg"));
        assert_eq!(there.count(), pictures.len(), "one that nothing draws");
        for (name, svg) in pictures {
            let old = fs::read_to_string(dir.join(format!("{name}.svg"))).expect(&name);
            assert!(
                old == svg,
                "{name}.svg is not as bench/results/ has it: run bench/run documents, and commit \
                 what it changes"
            );
        }
    }

    fn table(name: &str) -> Result<String> {
        ensure!(name == "ours", "there is no table {name}");
        Ok("| 2 |\n".into())
    }

    #[test]
    fn what_is_between_the_markers_is_replaced() {
        let text = "a\n<!-- bench: ours -->\n| 1 |\nold\n<!-- end -->\nb\n";
        let (new, differ) = replaced(text, table).expect("a good text");
        assert_eq!(new, "a\n<!-- bench: ours -->\n| 2 |\n<!-- end -->\nb\n");
        assert_eq!(differ, ["ours"]);
        assert_eq!(replaced(&new, table).expect("the same"), (new, vec![]));
    }

    #[test]
    fn what_cannot_be_replaced_is_said() {
        for (text, says) in [
            ("<!-- bench: ours -->\n| 1 |\n", "no <!-- end -->"),
            ("<!-- bench: theirs -->\n<!-- end -->\n", "table theirs"),
            (
                "<!-- bench: ours -->\n<!-- bench: ours -->\n<!-- end -->\n",
                "no <!-- end -->",
            ),
        ] {
            let err = replaced(text, table).expect_err(text);
            assert!(format!("{err:#}").contains(says), "{err:#}");
        }
    }
}
