// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl log`: what was done, and by whom.

use crate::candidates;
use crate::failure::Failure;
use crate::users::Names;
use crate::{out, pager, when};
use anstyle::{AnsiColor, Style};
use clap_complete::ArgValueCandidates;
use jiff::tz::TimeZone;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;
use tix_api::{LogRecord, LogReply, Tix};
use tix_client::Client;

/// Show what was done to the currencies, and by whom
///
/// Oldest first, each with its number (SEQ), which `tixctl undo` takes. Operations are there with
/// who asked for them, and so is what the policy and tixd did of themselves. You see what concerns
/// your currencies; root, and who is in the group tix, see everything.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only what concerns this currency
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    name: Option<String>,
    /// Print JSON; with --follow one line for each record
    #[arg(long)]
    json: bool,
    /// Go on showing what happens, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Only from then on: a duration (10min, 2h, 3d), today, yesterday, or a time (15:04,
    /// 2026-11-21, "2026-11-21 15:04:05")
    #[arg(long, value_name = "DURATION|TIME", value_parser = when::since)]
    since: Option<u64>,
    /// Only what concerns your currencies
    #[arg(long)]
    mine: bool,
    /// Only the newest N records: 1 to 1000 [default: 100, with --follow 10, with --since all]
    #[arg(
        short = 'n',
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=MOST as i64)
    )]
    count: Option<u16>,
}

/// Records in one answer of tixd's.
const MOST: u16 = 1000;
/// How often it is looked whether something new is there.
const PACE: Duration = Duration::from_secs(1);

/// `tixctl log --json` without `--follow`.
#[derive(Debug, Serialize)]
struct Log {
    records: VecDeque<LogRecord>,
}

/// How far the log has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nowhere: the newest records are wanted.
    Newest,
    /// From this moment on.
    Since(u64),
    /// What comes after this record.
    After(u64),
}

impl Place {
    /// Where to go on after `reply`, which was asked for from here at `asked` (microseconds since
    /// 1970).
    fn next(self, reply: &LogReply, asked: u64) -> Place {
        let last = reply.records.last().map(|record| record.seq);
        match (reply.next.max(last), self) {
            (Some(seq), Place::After(before)) => Place::After(seq.max(before)),
            (Some(seq), _) => Place::After(seq),
            (None, Place::Newest) => Place::Since(asked),
            (None, place) => place,
        }
    }
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    let mut place = args.since.map_or(Place::Newest, Place::Since);
    let count = match (args.count, args.since) {
        (Some(count), _) => Some(usize::from(count)),
        (None, Some(_)) => None,
        (None, None) if args.follow => Some(10),
        (None, None) => Some(100),
    };
    let mut records = VecDeque::new();
    loop {
        let more = read(&mut client, &args, &mut place, count, &mut records).await?;
        while count.is_some_and(|count| records.len() > count) {
            records.pop_front();
        }
        if !more {
            break;
        }
    }
    let mut names = Names::default();
    let zone = when::here();
    match (args.json, args.follow) {
        (true, false) => return out::json(&Log { records }),
        (false, false) => {
            let lines = records.iter().map(|record| line(record, &mut names, &zone));
            let all: Vec<String> = std::iter::once(heading()).chain(lines).collect();
            return pager::print(&all.join("\n"));
        }
        (true, true) => {}
        (false, true) => out::print(&heading())?,
    }
    loop {
        for record in &records {
            match args.json {
                true => out::json_line(record)?,
                false => out::print(&line(record, &mut names, &zone))?,
            }
        }
        records.clear();
        if !read(&mut client, &args, &mut place, None, &mut records).await? {
            tokio::time::sleep(PACE).await;
        }
    }
}

/// Reads what comes next; whether there is more already.
async fn read(
    client: &mut Client,
    args: &Args,
    place: &mut Place,
    count: Option<usize>,
    records: &mut VecDeque<LogRecord>,
) -> Result<bool, Failure> {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (after, since, limit) = match *place {
        Place::Newest => (None, None, count.unwrap_or(usize::from(MOST))),
        Place::Since(since) => (None, Some(signed(since)), usize::from(MOST)),
        Place::After(after) => (Some(signed(after)), None, usize::from(MOST)),
    };
    let asked = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0);
    let (subject, mine) = (args.name.as_deref(), args.mine.then_some(true));
    let reply = client
        .call(|tixd| tixd.log(after, Some(limit as i64), subject, since, mine))
        .await?;
    let newest = *place == Place::Newest;
    *place = place.next(&reply, asked);
    let more = reply.next.is_some() && !newest;
    records.extend(reply.records);
    Ok(more)
}

const GREY: Style = AnsiColor::BrightBlack.on_default();

fn heading() -> String {
    format!(
        "{GREY}{:>6}  {:<19}  {:<8}  {:<9}  MESSAGE{GREY:#}",
        "SEQ", "TIME", "WHO", "WHAT"
    )
}

/// One record, in columns that the next one has, too. A line is as long as its message.
fn line(record: &LogRecord, names: &mut Names, zone: &TimeZone) -> String {
    let who = match record.uid {
        Some(uid) if record.who.starts_with("uid ") => names.user(uid),
        _ => &record.who,
    };
    let when = when::shown(record.time_usec, zone);
    format!(
        "{:>6}  {when}  {who:<8}  {:<9}  {}",
        record.seq, record.kind, record.message
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, uid: Option<u32>, who: &str, kind: &str, message: &str) -> LogRecord {
        LogRecord {
            seq,
            time_usec: 1_795_273_445_000_000 + seq * 1_000_000,
            uid,
            who: who.into(),
            kind: kind.into(),
            subject: "alice".into(),
            message: message.into(),
            operation: uid.map(|_| "{}".into()),
        }
    }

    fn sample() -> Vec<LogRecord> {
        vec![
            record(1, Some(0), "root", "create", "alice was created"),
            record(
                2,
                Some(0),
                "root",
                "reserve",
                "25 % of base's cpu are reserved for alice",
            ),
            record(
                3,
                Some(1000),
                "uid 1000",
                "chmod",
                "the mode of alice is fci-c----",
            ),
            record(
                4,
                Some(1001),
                "uid 1001",
                "fund",
                "alice has 300 cpu tickets of bob",
            ),
            record(
                5,
                None,
                "policy",
                "policy",
                "the policy was read: 3 files, 12 rules",
            ),
            record(
                6,
                None,
                "tixd",
                "revoked",
                "what alice gave run-7 went back: alice has too little left",
            ),
        ]
    }

    #[test]
    fn text() {
        let mut names = Names::of(&[(1000, "alice"), (1001, "1001")], &[]);
        let lines: Vec<String> = std::iter::once(heading())
            .chain(
                sample()
                    .iter()
                    .map(|record| line(record, &mut names, &TimeZone::UTC)),
            )
            .collect();
        let text = anstream::adapter::strip_str(&lines.join("\n")).to_string();
        insta::assert_snapshot!("log_text", text);
    }

    #[test]
    fn json() {
        let log = Log {
            records: sample().into_iter().skip(4).collect(),
        };
        insta::assert_snapshot!("log_json", serde_json::to_string_pretty(&log).unwrap());
    }

    #[test]
    fn nothing_is_read_twice_and_nothing_is_left_out() {
        let reply = |records: &[u64], next| LogReply {
            records: records
                .iter()
                .map(|seq| record(*seq, None, "tixd", "policy", ""))
                .collect(),
            next,
        };
        let (newest, since, after) = (Place::Newest, Place::Since(5), Place::After(7));
        assert_eq!(newest.next(&reply(&[8, 9], None), 1), Place::After(9));
        assert_eq!(newest.next(&reply(&[], None), 1), Place::Since(1));
        assert_eq!(since.next(&reply(&[8], Some(20)), 1), Place::After(20));
        assert_eq!(since.next(&reply(&[], None), 1), since);
        assert_eq!(after.next(&reply(&[], None), 1), after);
        assert_eq!(after.next(&reply(&[], Some(9)), 1), Place::After(9));
        assert_eq!(after.next(&reply(&[], Some(3)), 1), after);
    }
}
