// SPDX-License-Identifier: GPL-2.0-only
//! Commands in documents: which there are, what the page says that each prints, and whether a run
//! printed that.
//!
//! A `console` block has prompts, `root# ` or `alice$ `, and below each command what it prints. A
//! line that begins with `error: ` says that the command fails. A line `…` stands for any lines,
//! and is never all that is shown. An `sh` block has commands of root's whose output does not
//! matter. A comment before a block says what a reader need not see:
//!
//! ```text
//! <!-- not run: WHY -->    nobody runs it
//! <!-- varies: WHAT -->    numbers are compared by their shape, and who is idle not at all
//! ```

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

/// The pages whose commands a test types, and what they say: a restored guest has no documents.
pub const PAGES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../README.md")),
    ("docs/tutorial.md", include_str!("../../docs/tutorial.md")),
    ("docs/admin.md", include_str!("../../docs/admin.md")),
];

/// Any lines, none included.
const ELLIPSIS: &str = "…";

/// A command that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The number of the line that it begins on, from 1.
    pub line: usize,
    /// Who types it.
    pub user: String,
    pub command: String,
    /// The lines that it prints; `None`: the page does not say.
    pub shows: Option<Vec<String>>,
    pub vary: bool,
}

/// A block that is not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub line: usize,
    pub commands: usize,
    pub why: String,
}

/// What a page has to run.
#[derive(Debug, Default)]
pub struct Page {
    pub steps: Vec<Step>,
    pub left_out: Vec<LeftOut>,
}

/// What the comment before a block says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mark {
    NotRun(String),
    Varies,
}

impl Mark {
    fn read(line: &str) -> Option<Mark> {
        let said = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
        let (what, why) = said.split_once(':')?;
        match (what.trim(), why.trim()) {
            (_, "") => None,
            ("not run", why) => Some(Mark::NotRun(why.to_owned())),
            ("varies", _) => Some(Mark::Varies),
            _ => None,
        }
    }
}

impl Page {
    /// Reads a page in Markdown.
    pub fn read(text: &str) -> Result<Page> {
        let mut page = Page::default();
        let mut mark = None;
        let mut lines = text.lines().enumerate().map(|(n, l)| (n + 1, l));
        while let Some((line, text)) = lines.next() {
            let Some(language) = text.strip_prefix("```") else {
                match Mark::read(text) {
                    Some(found) => mark = Some(found),
                    // A mark belongs to the block right below it.
                    None if !text.trim().is_empty() => mark = None,
                    None => (),
                }
                continue;
            };
            let mut block = Vec::new();
            loop {
                let (n, text) = lines
                    .next()
                    .with_context(|| format!("line {line}: no end"))?;
                if text == "```" {
                    break;
                }
                block.push((n, text));
            }
            let vary = mark == Some(Mark::Varies);
            let steps = match language {
                "console" => typed(&block, vary)?,
                "sh" => script(&block),
                _ => continue,
            };
            ensure!(!steps.is_empty(), "line {line}: no command");
            match mark.take() {
                Some(Mark::NotRun(why)) => page.left_out.push(LeftOut {
                    line,
                    commands: steps.len(),
                    why,
                }),
                _ => page.steps.extend(steps),
            }
        }
        Ok(page)
    }
}

/// A line with a prompt: who types, and what.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (user, command) = line.split_once(' ')?;
    let name = user.strip_suffix('#').or(user.strip_suffix('$'))?;
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
    plain.then_some((name, command))
}

fn typed(block: &[(usize, &str)], vary: bool) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for (line, text) in block {
        if goes_on {
            let step = steps.last_mut().context("no command before")?;
            let rest = text.strip_prefix("> ").unwrap_or(text);
            step.command.push_str(rest);
        } else if let Some((user, command)) = prompt(text) {
            steps.push(Step {
                line: *line,
                user: user.to_owned(),
                command: command.to_owned(),
                shows: Some(Vec::new()),
                vary,
            });
        } else {
            let Some(step) = steps.last_mut() else {
                bail!("line {line}: a block begins with a prompt");
            };
            let shows = step.shows.get_or_insert_default();
            shows.push(text.trim_end().to_owned());
            continue;
        }
        let command = &mut steps.last_mut().context("no command")?.command;
        goes_on = command.ends_with('\\');
        if goes_on {
            command.pop();
        }
    }
    ensure!(!goes_on, "a command does not end with its block");
    Ok(steps)
}

fn script(block: &[(usize, &str)]) -> Vec<Step> {
    let commands = block.iter().filter(|(_, text)| {
        let text = text.trim();
        !text.is_empty() && !text.starts_with('#')
    });
    let step = |(line, text): &(usize, &str)| Step {
        line: *line,
        user: "root".into(),
        command: text.trim().to_owned(),
        shows: None,
        vary: false,
    };
    commands.map(step).collect()
}

impl Step {
    /// Does the page say that it fails?
    pub fn fails(&self) -> bool {
        let mut shows = self.shows.iter().flatten();
        shows.any(|line| line.starts_with("error: "))
    }

    /// What the page shows, in the words that were printed this time. It is an error if that is
    /// something else: the lines that are missing, or the first one that nobody expects.
    pub fn compare(&self, printed: &[&str]) -> Result<Vec<String>> {
        let Some(shows) = &self.shows else {
            return Ok(Vec::new());
        };
        ensure!(
            shows.is_empty() || shows.iter().any(|line| line.trim() != ELLIPSIS),
            "the page shows no line of what it prints"
        );
        let alike = |shown: &str, line: &str| match self.vary {
            true => shape(shown) == shape(line),
            false => shown == line.trim_end(),
        };
        let mut at = 0;
        let mut parts = shows.split(|line| line.trim() == ELLIPSIS).peekable();
        let (mut anywhere, mut fresh) = (false, Vec::new());
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            let fits = |from: usize| {
                let there = printed.get(from..from + part.len());
                there.is_some_and(|there| part.iter().zip(there).all(|(s, l)| alike(s, l)))
            };
            let room = printed.len().saturating_sub(part.len());
            let from = match (anywhere, last) {
                (false, _) => Some(at).filter(|from| fits(*from)),
                // What follows the last ellipsis is the end.
                (true, true) => Some(room).filter(|from| *from >= at && fits(*from)),
                (true, false) => (at..=room).find(|from| fits(*from)),
            };
            let Some(from) = from else {
                bail!("it does not print\n{}", part.join("\n"));
            };
            at = from + part.len();
            anywhere = true;
            fresh.extend(printed[from..at].iter().map(|l| l.trim_end().to_owned()));
            if !last {
                fresh.push(ELLIPSIS.to_owned());
            }
        }
        if let Some(more) = printed.get(at) {
            bail!("it prints a line that the page does not show: {more}");
        }
        Ok(fresh)
    }
}

impl Step {
    /// What a page would show of what was printed instead: as much as it shows now. Where it leaves
    /// lines out, each of its lines stands for the one that is most like it of those that follow.
    pub fn shortened(&self, printed: &[&str]) -> Vec<String> {
        let shows = self.shows.iter().flatten();
        let kept: Vec<&String> = shows.filter(|l| l.trim() != ELLIPSIS).collect();
        let whole = || printed.iter().map(|l| l.trim_end().to_owned()).collect();
        if self
            .shows
            .as_ref()
            .is_none_or(|all| all.len() == kept.len())
        {
            return whole();
        }
        let (mut short, mut at) = (Vec::new(), 0);
        for line in kept {
            let words = |line: &str| -> BTreeSet<String> {
                line.split_whitespace().map(str::to_owned).collect()
            };
            let shared = |a: &str, b: &str| words(a).intersection(&words(b)).count();
            let shapes = |other: &str| shared(&shape(line), &shape(other));
            let alike = |(_, other): &(usize, &&str)| 2 * shared(line, other) + shapes(other);
            let rest = printed.iter().enumerate().skip(at);
            // Of several that are as much alike the first.
            let best = rest.rev().max_by_key(alike);
            let enough = words(&shape(line)).len().div_ceil(2);
            let Some((n, found)) = best.filter(|(_, found)| shapes(found) >= enough) else {
                return whole();
            };
            if n > at {
                short.push(ELLIPSIS.to_owned());
            }
            short.push(found.trim_end().to_owned());
            at = n + 1;
        }
        if at < printed.len() {
            short.push(ELLIPSIS.to_owned());
        }
        short
    }
}

/// What the names of currencies are followed by, at one moment and not at another.
const STATES: [&str; 2] = [" (idle)", " (throttled)"];
const UNITS: [&str; 7] = ["µs", "ms", "s", "B", "KiB", "MiB", "GiB"];

/// A line with each number as `0`, its unit as `unit`, each run of blanks as one, and no state.
fn shape(line: &str) -> String {
    let mut line = line.to_owned();
    for state in STATES {
        line = line.replace(state, "");
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let after_number = words.last().is_some_and(|before| before == "0");
        words.push(match after_number && UNITS.contains(&word) {
            true => "unit".into(),
            false => numberless(word),
        });
    }
    words.join(" ")
}

fn numberless(word: &str) -> String {
    let mut shape = String::new();
    let mut chars = word.chars().peekable();
    while let Some(c) = chars.next() {
        let more = chars.peek().is_some_and(char::is_ascii_digit);
        match c {
            '0'..='9' if shape.ends_with('0') => (),
            '0'..='9' => shape.push('0'),
            // Inside a number.
            '.' | ',' if shape.ends_with('0') && more => (),
            other => shape.push(other),
        }
    }
    shape
}

/// The page with what steps printed in the place of what it shows, where `printed` has that for the
/// line of a step.
pub fn rewritten(text: &str, steps: &[Step], printed: &[(usize, Vec<String>)]) -> String {
    let mut lines = Vec::new();
    let mut old = text.lines().enumerate().map(|(n, l)| (n + 1, l)).peekable();
    while let Some((n, line)) = old.next() {
        lines.push(line.to_owned());
        let new = printed.iter().find(|(at, _)| *at == n);
        let step = steps.iter().find(|step| step.line == n);
        let (Some((_, new)), Some(step)) = (new, step) else {
            continue;
        };
        let mut goes_on = line.ends_with('\\');
        while let Some((_, line)) = old.next_if(|_| goes_on) {
            goes_on = line.ends_with('\\');
            lines.push(line.to_owned());
        }
        lines.extend(new.iter().cloned());
        for _ in step.shows.iter().flatten() {
            old.next();
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# A page

```console
root# first \\
> second
one
two
alice$ third
error: no
```

```toml
root# not a command
```

<!-- not run: it takes a day -->

```sh
# a comment
a
b
```

<!-- varies: of time -->
```console
bob$ fourth
  12.5 %, 1,000
…
```
";

    #[test]
    fn commands_and_what_they_print() {
        let page = Page::read(PAGE).expect("a page");
        let of = |n: usize| {
            let step = &page.steps[n];
            (step.line, step.user.as_str(), step.command.as_str())
        };
        assert_eq!(page.steps.len(), 3);
        assert_eq!(of(0), (4, "root", "first second"));
        assert_eq!(
            page.steps[0].shows.as_deref(),
            Some(&["one".to_owned(), "two".into()][..])
        );
        assert_eq!(of(1), (8, "alice", "third"));
        assert_eq!(
            [page.steps[0].fails(), page.steps[1].fails()],
            [false, true]
        );
        assert_eq!(of(2), (26, "bob", "fourth"));
        assert!(page.steps[2].vary && !page.steps[0].vary);
        let [left_out] = &page.left_out[..] else {
            panic!("{:?}", page.left_out);
        };
        assert_eq!((left_out.line, left_out.commands), (18, 2));
        assert_eq!(left_out.why, "it takes a day");
    }

    #[test]
    fn the_pages_can_be_read() {
        for (name, text) in PAGES {
            let page = Page::read(text).unwrap_or_else(|e| panic!("{name}: {e:#}"));
            assert!(page.steps.len() >= 10, "{name}: {}", page.steps.len());
            let typed = page.steps.iter().filter(|s| s.shows.is_some()).count();
            assert!(typed > page.left_out.len(), "{name} leaves out most of it");
        }
    }

    #[test]
    fn a_mark_without_a_reason_is_none() {
        let page = Page::read("<!-- not run: -->\n```sh\na\n```\n").expect("a page");
        assert_eq!((page.steps.len(), page.left_out.len()), (1, 0));
        // Nor does one count for a block further down.
        let text = "<!-- not run: so -->\nThis:\n```sh\na\n```\n";
        assert_eq!(Page::read(text).expect("a page").steps.len(), 1);
    }

    #[test]
    fn what_is_no_page() {
        for text in ["```console\nno prompt\n```\n", "```sh\na\n", "```sh\n```\n"] {
            assert!(Page::read(text).is_err(), "{text}");
        }
    }

    fn step(shows: &[&str], vary: bool) -> Step {
        Step {
            line: 1,
            user: "root".into(),
            command: "x".into(),
            shows: Some(shows.iter().map(|s| (*s).to_owned()).collect()),
            vary,
        }
    }

    #[test]
    fn what_is_printed_is_what_is_shown() {
        let all = ["a 1", "b 2", "c 3"];
        for (shows, vary) in [
            (&["a 1", "b 2", "c 3"][..], false),
            (&["a 1", "…"], false),
            (&["…", "b 2", "…"], false),
            (&["…", "c 3"], false),
            (&["a 1", "…", "c 3"], false),
            (&["a 1", "…", "b 2", "c 3"], false),
            (&["a   9.5", "b 1,000", "c 7"], true),
        ] {
            let fresh = step(shows, vary).compare(&all).expect("the same");
            assert_eq!(fresh.len(), shows.len());
        }
        let fresh = step(&["a 9", "…", "c 8"], true).compare(&all);
        assert_eq!(fresh.expect("the same"), ["a 1", "…", "c 3"]);
        for (shows, vary) in [
            (&["a 1", "b 2"][..], false),
            (&["b 2", "…"], false),
            (&["…", "b 2"], false),
            (&["a 9", "b 2", "c 3"], false),
            (&["a 1", "…", "a 1", "…"], false),
            (&["a 1", "b 2", "c 3", "d 4"], false),
            (&["a x", "b 2", "c 3"], true),
            (&[], false),
            (&["…"], false),
        ] {
            assert!(step(shows, vary).compare(&all).is_err(), "{shows:?}");
        }
        assert!(step(&[], false).compare(&[]).is_ok());
    }

    #[test]
    fn a_page_goes_on_leaving_out_what_it_left_out() {
        let printed = [
            "head",
            "a 1 (at most 20 %)",
            "b2 2 2 %",
            "b3 3 3 %",
            "c 3",
            "tail",
        ];
        let short = |shows: &[&str]| step(shows, true).shortened(&printed);
        let expected = ["head", "a 1 (at most 20 %)", "…", "c 3", "…"];
        assert_eq!(
            short(&["head", "a 7 (at most 0.2 CPU)", "…", "c 9", "…"]),
            expected
        );
        assert_eq!(short(&["…", "b3 7", "…"]), ["…", "b3 3 3 %", "…"]);
        // What is all, or like nothing, is shown as it is.
        assert_eq!(short(&["head", "c 3"]), printed);
        assert_eq!(short(&["…", "something else"]), printed);
    }

    #[test]
    fn the_shape_of_a_line() {
        assert_eq!(shape("  a1  12.50 %,  1,000."), "a0 0 %, 0.");
        assert_eq!(shape("2026-01-02 3:04"), "0-0-0 0:0");
        assert_eq!(shape("a (idle)   1 ms"), shape("a 2 s"));
        assert_ne!(shape("a 1 ms"), shape("a 1 %"));
        assert_ne!(shape("– %"), shape("1 %"));
    }

    #[test]
    fn a_page_is_written_anew() {
        let page = Page::read(PAGE).expect("a page");
        let new = rewritten(PAGE, &page.steps, &[(4, vec!["1".into()]), (8, vec![])]);
        let expected = PAGE.replace("one\ntwo\n", "1\n").replace("error: no\n", "");
        assert_eq!(new, expected);
        assert_eq!(rewritten(PAGE, &page.steps, &[]), PAGE);
    }
}
