// SPDX-License-Identifier: GPL-2.0-only
//! What docs/threats.md says of the repository itself.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

#[test]
fn every_threat_has_tests_and_they_are_there() {
    let text = read_to_string(root().join("docs/threats.md")).unwrap();
    let rows = text.lines().filter(|l| l.starts_with("| **"));
    let mut tests = 0;
    for row in rows.clone() {
        let (threat, tried) = (
            row.split(" | ").next().unwrap(),
            row.rsplit(" | ").next().unwrap(),
        );
        // [`name`](../file)
        let named: Vec<&str> = tried.split("[`").skip(1).collect();
        assert!(!named.is_empty(), "{threat} has no test");
        for link in named {
            let (name, rest) = link
                .split_once("`](../")
                .unwrap_or_else(|| panic!("{link}"));
            let file = rest.split(')').next().unwrap();
            let code = read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert!(
                code.contains(&format!("fn {name}(")),
                "there is no {name} in {file}"
            );
            tests += 1;
        }
    }
    assert!(rows.count() >= 15 && tests >= 30);
}

/// The source files below `dir`, but for what is built.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true if name != "target" && !name.starts_with('.') => sources(&path, found),
            false if name.ends_with(".rs") => found.push(path),
            _ => {}
        }
    }
}

/// A crate is what rustc compiles at once: a library, a program, a test.
#[test]
fn unsafe_code_has_its_place() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    assert!(files.len() > 200, "{}", files.len());
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files {
        let code = read_to_string(&path).unwrap();
        let words = ["unsafe {", "unsafe impl ", "unsafe fn ", "unsafe extern "];
        let code: String = code
            .lines()
            .filter(|l| !l.trim_start().starts_with("//"))
            .collect::<Vec<_>>()
            .join("\n");
        let own = path.ends_with("daemon/fuzz/tests/repository.rs");
        if own || !words.iter().any(|w| code.contains(w)) {
            continue;
        }
        let path = path.strip_prefix(root()).unwrap().display().to_string();
        let at = |mark: &str| path.find(mark).map(|i| path[..i + mark.len()].to_owned());
        let program = path.contains("/src/bin/").then(|| path.clone());
        let of = program
            .or_else(|| at("/src/"))
            .unwrap_or_else(|| path.clone());
        places.entry(of).or_default().push(path);
    }
    for (of, modules) in places {
        assert_eq!(modules.len(), 1, "{of} has unsafe code in {modules:?}");
    }
}
