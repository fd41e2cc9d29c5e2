// SPDX-License-Identifier: GPL-2.0-only
//! What is wrong with a policy, where, and what to write instead.

use std::fmt;

/// Something that a policy file says and that cannot be, or that an administrator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the directory.
    pub file: String,
    /// From 1; 0: it is the file as a whole.
    pub line: usize,
    pub what: String,
    /// What to write or do instead; may be empty.
    pub instead: String,
}

impl Problem {
    pub(super) fn of_file(
        file: impl Into<String>,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) -> Problem {
        Problem {
            file: file.into(),
            line: 0,
            what: what.into(),
            instead: instead.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}", self.what)?;
        if !self.instead.is_empty() {
            write!(f, ": {}", self.instead)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// The known word that `word` was probably meant to be: at most two letters away, and less than
/// half of it.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Nobody's slip is that long, and the distance costs the product of the lengths.
    if word.len() > 64 {
        return None;
    }
    known
        .iter()
        .map(|k| (distance(word, k), *k))
        .min()
        .filter(|(d, k)| *d <= 2 && 2 * d < k.len().max(word.len()))
        .map(|(_, k)| k)
}

/// Letters to insert, remove or replace to make `a` of `b` (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word() {
        let known = ["from", "cpu", "disk", "memory", "net"];
        assert_eq!(nearest("memroy", &known), Some("memory"));
        assert_eq!(nearest("form", &known), None);
        assert_eq!(nearest("frm", &known), Some("from"));
        assert_eq!(nearest("ram", &known), None);
        assert_eq!(nearest(&"x".repeat(1000), &known), None);
    }
}
