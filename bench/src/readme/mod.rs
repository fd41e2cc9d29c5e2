// SPDX-License-Identifier: GPL-2.0-only
//! The README's tables: what stands between `<!-- bench: NAME -->` and `<!-- end -->` is made from bench/results/, and from nothing else.

mod tables;

use std::fs;

use anyhow::{Context, Result, bail};
use tix_tests::guest::tree;

const END: &str = "<!-- end -->";

pub fn run() -> Result<()> {
    let path = tree().join("README.md");
    let old = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let (new, differ) = replaced(&old, tables::table)?;
    if differ.is_empty() {
        return Ok(());
    }
    fs::write(&path, new).with_context(|| format!("write {}", path.display()))?;
    eprintln!("README.md: wrote {}", differ.join(", "));
    Ok(())
}

/// `text` with every table as `table` has it by its name, and the names of those that were different.
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
                _ => bail!("README.md: the table {name} has no {END}"),
            }
        };
        let wanted = table(name).with_context(|| format!("the README's table {name}"))?;
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
        let text = fs::read_to_string(tree().join("README.md")).expect("a README");
        let (_, differ) = replaced(&text, tables::table).expect("tables of results");
        assert!(
            differ.is_empty(),
            "README.md says other than bench/results/ about {differ:?}: run bench/run readme, and commit what it changes"
        );
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
