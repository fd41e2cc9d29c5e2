// SPDX-License-Identifier: GPL-2.0-only
//! Documents and the repository agree: tests, sections, links and names that one says of the other.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
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

/// The files below `dir` whose names end in one of `ends`, but for what is built.
fn files(dir: &Path, ends: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true if name != "target" && !name.starts_with('.') => files(&path, ends, found),
            false if ends.iter().any(|end| name.ends_with(end)) => found.push(path),
            _ => {}
        }
    }
}

/// Of every file with such an ending: its path from the root of the repository, and what it says.
fn texts(ends: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(&root(), ends, &mut found);
    let text = |path: PathBuf| {
        let text = read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().to_owned(), text)
    };
    found.into_iter().map(text).collect()
}

/// The headings of a document, as links name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|l| l.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The sections that are cited after each `model.md` in `text`: `§2, §3 and §5`, also across lines
/// of a comment.
fn cited(text: &str) -> Vec<String> {
    let between = |c: char| c.is_whitespace() || "*/!,".contains(c);
    let mut sections = Vec::new();
    for mut rest in text.split("model.md").skip(1) {
        // Past the end of a link.
        rest = rest.trim_start_matches(')');
        loop {
            let next = rest.trim_start_matches(between);
            let next = next.strip_prefix("and").unwrap_or(next);
            let Some(number) = next.trim_start_matches(between).strip_prefix('§') else {
                break;
            };
            let end = number.find(|c: char| !c.is_ascii_digit() && c != '.');
            let (number, after) = number.split_at(end.unwrap_or(number.len()));
            sections.push(number.trim_end_matches('.').to_owned());
            rest = after;
        }
    }
    sections
}

#[test]
fn every_section_of_the_model_that_is_cited_is_there() {
    assert_eq!(
        cited("model.md §2, Nieh §9; model.md\n * §3,\n * §5 and §6.1. [m](model.md) §7"),
        ["2", "3", "5", "6.1", "7"]
    );
    let model = read_to_string(root().join("docs/model.md")).unwrap();
    let headings = model.lines().filter(|l| l.starts_with("##"));
    let sections: BTreeSet<&str> = headings
        .filter_map(|l| l.trim_start_matches('#').split_whitespace().next())
        .map(|number| number.trim_end_matches('.'))
        .collect();
    let mut count = 0;
    for (path, text) in texts(&[".rs", ".h", ".c", ".md"]) {
        if path.ends_with("daemon/fuzz/tests/repository.rs") {
            continue;
        }
        for section in cited(&text) {
            assert!(
                sections.contains(section.as_str()),
                "{}: docs/model.md has no §{section}",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count >= 50, "{count}");
}

/// Links to other sites are not followed.
#[test]
fn links_in_documents_lead_somewhere() {
    let mut count = 0;
    for (path, text) in texts(&[".md"]) {
        let links = text.split("](").skip(1).filter_map(|l| l.split(')').next());
        for link in links.filter(|l| !l.contains("://") && !l.contains(' ')) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => root().join(&path),
                file => root().join(&path).parent().unwrap().join(file),
            };
            let from = path.display();
            assert!(to.exists(), "{from}: there is no {file}");
            if !anchor.is_empty() {
                let there = anchors(&read_to_string(&to).unwrap());
                assert!(there.contains(anchor), "{from}: {file} has no #{anchor}");
            }
            count += 1;
        }
    }
    assert!(count >= 50, "{count}");
}

/// What is installed can be read as it is: the README's links, and those from document to document.
#[test]
fn links_in_documents_that_are_installed_lead_somewhere() {
    let to = tempfile::tempdir().unwrap();
    let make = std::process::Command::new("make")
        .args(["--no-print-directory", "install-documents", "PREFIX=/usr"])
        .arg(format!("DESTDIR={}", to.path().display()))
        .current_dir(root())
        .output()
        .unwrap();
    assert!(make.status.success(), "{make:?}");
    let installed = to.path().join("usr/share/doc/tix");
    let mut documents = Vec::new();
    files(&installed, &[".md"], &mut documents);
    let mut count = 0;
    for path in documents {
        let text = read_to_string(&path).unwrap();
        let links = text.split("](").skip(1).filter_map(|l| l.split(')').next());
        let is_readme = path == installed.join("README.md");
        for link in links.filter(|l| !l.contains("://") && !l.contains(' ')) {
            let file = link.split('#').next().unwrap();
            // Others name sources, too, which are not installed; whoever changes tix has them.
            let is_document = file.ends_with(".md") && !path.ends_with("CONTRIBUTING.md");
            if is_readme || is_document {
                let to = path.parent().unwrap().join(file);
                assert!(to.exists(), "{}: there is no {file}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 30, "{count}");
}

/// In documents, a path in backquotes, from the root of the repository, `bpf/`, `daemon/`,
/// `daemon/src/` or the document; anywhere, a document in docs/.
#[test]
fn files_that_are_named_are_there() {
    let is_path = |w: &str| {
        let ends = [".rs", ".h", ".c", ".md", ".toml", ".varlink"];
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        w.contains('/') && w.chars().all(plain) && ends.iter().any(|end| w.ends_with(end))
    };
    let mut count = 0;
    for (path, text) in texts(&[".md", ".rs", ".h", ".c"]) {
        let document = path.extension().is_some_and(|e| e == "md");
        let quoted = text.split('`').skip(1).step_by(2).filter(|_| document);
        let words = text.split(|c: char| c.is_whitespace() || "`'\"()[],:;<>".contains(c));
        let words = words.map(|w| w.split('#').next().unwrap().trim_end_matches('.'));
        let named = words.filter(|w| w.starts_with("docs/")).chain(quoted);
        for name in named.filter(|w| is_path(w) && !w.starts_with('/')) {
            let beside = root().join(&path).parent().unwrap().join(name);
            let below = ["", "bpf", "daemon", "daemon/src"].map(|dir| root().join(dir).join(name));
            assert!(
                beside.exists() || below.iter().any(|p| p.exists()),
                "{}: there is no {name}",
                path.display()
            );
            count += 1;
        }
    }
    assert!(count >= 100, "{count}");
}

/// The glossary's names stand in the code: `NAME`s as words, and files by the ends of their paths.
#[test]
fn the_code_has_what_the_glossary_names() {
    let dirs = ["bpf", "daemon", "policies"];
    let mut code = texts(&[".rs", ".h", ".c"]);
    code.retain(|(path, _)| dirs.iter().any(|dir| path.starts_with(dir)));
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = code
        .iter()
        .flat_map(|(_, text)| text.split(|c| !is_part(c)))
        .collect();
    let glossary = read_to_string(root().join("docs/glossary.md")).unwrap();
    let lines = glossary.split("Code: ").skip(1);
    let names = lines.flat_map(|l| {
        l.split("\n\n")
            .next()
            .unwrap()
            .split('`')
            .skip(1)
            .step_by(2)
    });
    let mut count = 0;
    for name in names {
        let there = match name.contains('.') {
            true => code.iter().any(|(path, _)| path.ends_with(name)),
            false => name.split("::").all(|word| words.contains(word)),
        };
        assert!(there, "the glossary names {name}");
        count += 1;
    }
    assert!(count >= 80, "{count}");
}

/// A README is read in one go: what it is, how to begin, where to read on.
#[test]
fn the_readme_is_short() {
    let text = read_to_string(root().join("README.md")).unwrap();
    let lines = text.lines().count();
    assert!((40..120).contains(&lines), "{lines} lines");
    let blocks = text.matches("```console").count();
    assert!(blocks >= 3, "{blocks} blocks of commands");
}

/// Whoever begins with the README finds every document: it is linked there, or by one that is.
#[test]
fn every_document_is_linked() {
    let mut seen = BTreeSet::new();
    let mut next = vec![root().join("README.md")];
    while let Some(path) = next.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let text = read_to_string(&path).unwrap();
        let links = text.split("](").skip(1).filter_map(|l| l.split(')').next());
        for link in links.filter(|l| !l.contains("://")) {
            let file = link.split('#').next().unwrap();
            let to = path.parent().unwrap().join(file).canonicalize();
            next.extend(to.ok().filter(|p| p.extension().is_some_and(|e| e == "md")));
        }
    }
    let mut documents = Vec::new();
    files(&root().join("docs"), &[".md"], &mut documents);
    assert!(documents.len() >= 15, "{documents:?}");
    for document in documents {
        assert!(
            seen.contains(&document),
            "nothing links {}",
            document.display()
        );
    }
}

/// A block of code says what it is, so that a test runs it if it is commands
/// (`tests/src/pages.rs`).
#[test]
fn blocks_of_code_have_a_language() {
    let mut count = 0;
    for page in ["README.md", "docs/tutorial.md", "docs/admin.md"] {
        let text = read_to_string(root().join(page)).unwrap();
        let mut inside = false;
        for (n, line) in text.lines().enumerate().map(|(n, l)| (n + 1, l)) {
            if let Some(language) = line.strip_prefix("```") {
                inside = !inside;
                assert!(!inside || !language.is_empty(), "{page}:{n}: no language");
                count += usize::from(inside);
            }
            let indented = line.starts_with("    ") || line.starts_with('\t');
            assert!(
                inside || !indented,
                "{page}:{n}: an indented block is run by no test"
            );
        }
    }
    assert!(count >= 40, "{count}");
}

/// A crate is what rustc compiles at once: a library, a program, a test.
#[test]
fn unsafe_code_has_its_place() {
    let files = texts(&[".rs"]);
    assert!(files.len() > 200, "{}", files.len());
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, code) in files {
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
        let path = path.display().to_string();
        let at = |mark: &str| path.find(mark).map(|i| path[..i + mark.len()].to_owned());
        let program = path.contains("/src/bin/").then(|| path.clone());
        let of = program
            .or_else(|| at("/src/"))
            .unwrap_or_else(|| path.clone());
        places.entry(of).or_default().push(path);
    }
    for (of, modules) in places {
        // All of that crate is the safe side of C, a module for each of its headers.
        if of == "bpf/host/src/" {
            continue;
        }
        assert_eq!(modules.len(), 1, "{of} has unsafe code in {modules:?}");
    }
}
