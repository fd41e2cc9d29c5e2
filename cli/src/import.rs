// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl import`

use crate::failure::Failure;
use crate::out;
use crate::report::Report;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tix_api::{IMPORT_CHUNK, ImportReply, Tix};
use tix_client::Client;

/// Make the currencies what an export says
///
/// What is there and not in it goes, what is in it and not there comes: all of it, or nothing. The
/// changes are listed. Only root may.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only say what would change
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// What `tixctl export` wrote; - for standard input
    file: PathBuf,
    #[command(flatten)]
    report: Report,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let document = read(&args.file)?;
    let mut client = Client::connect().await?;
    let id = client.call(|tixd| tixd.import_begin()).await?.id;
    for chunk in chunks(&document, IMPORT_CHUNK) {
        client.call(|tixd| tixd.import_chunk(id, chunk)).await?;
    }
    let reply = client
        .call(|tixd| tixd.import_end(id, args.dry_run))
        .await?;
    match args.json {
        true => out::json(&reply),
        false => args.report.print(&render(&reply)),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let text = match file == Path::new("-") {
        true => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        false => fs::read_to_string(file),
    };
    text.map_err(|err| Failure::io("read", file, &err, "give it what `tixctl export` wrote"))
}

/// The text in parts of at most `most` bytes; characters stay whole, so `most` is at least 4.
fn chunks(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = (0..=most.min(rest.len()))
            .rfind(|end| rest.is_char_boundary(*end))
            .filter(|end| *end > 0)?;
        let (chunk, after) = rest.split_at(end);
        rest = after;
        Some(chunk)
    })
}

fn render(reply: &ImportReply) -> String {
    let mut text: Vec<String> = reply.changes.clone();
    text.push(match (reply.changes.len(), reply.applied) {
        (0, _) => "Nothing to change: all is as the file says.".into(),
        (1, true) => "1 change was made.".into(),
        (count, true) => format!("{count} changes were made."),
        (1, false) => "1 change would be made; nothing was changed.".into(),
        (count, false) => format!("{count} changes would be made; nothing was changed."),
    });
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_small_and_the_whole_is_the_text() {
        for text in [
            "",
            "a",
            "abcd",
            "abcdefgh",
            "äöü€😀 and ascii",
            &"€".repeat(5_000),
        ] {
            for most in [4, 5, 8, IMPORT_CHUNK] {
                let parts: Vec<&str> = chunks(text, most).collect();
                assert!(parts.iter().all(|part| (1..=most).contains(&part.len())));
                assert_eq!(parts.concat(), text);
            }
        }
    }

    #[test]
    fn the_changes_and_their_number() {
        let mut reply = ImportReply {
            changes: vec![
                "create alice".into(),
                "fund alice with 300 cpu tickets of base".into(),
            ],
            applied: false,
        };
        insta::assert_snapshot!("import_dry_run", render(&reply));
        reply.applied = true;
        assert!(render(&reply).ends_with("2 changes were made."));
        reply.changes.clear();
        assert!(render(&reply).starts_with("Nothing to change"));
    }
}
