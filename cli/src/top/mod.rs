// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl top`: who uses how much, live.

mod direct;
mod held;
mod live;
mod stream;
mod view;

use crate::failure::Failure;
use crate::{out, when};
use clap::ValueEnum;
use futures_util::Stream;
use serde::Serialize;
use std::io::IsTerminal;
use std::time::Duration;
use stream::{News, Piece};
use tix_api::{Event, Resource, Sample, Tix, WatchReply};
use tix_client::Client;

/// Show live who uses how much, and what each is entitled to
///
/// Of the disk or memory it prints one table, of one interval: what each is entitled to, what is in
/// force (the weight of its cgroup; what is never taken from it, and what is taken last), what it
/// moves or has, and for which part of the time some of it waited.
///
/// On a terminal it shows until `q` is pressed; elsewhere it prints one table. The keys: q quit, a
/// all currencies or only those that want the CPU or had some, p processes, s sort by the next
/// column, Space hold.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one table, of one interval, and end
    #[arg(long)]
    once: bool,
    /// Print JSON, one line for each sample and event; with --once a single sample
    #[arg(long)]
    json: bool,
    /// Of which resource
    #[arg(short, long, value_name = "RESOURCE", default_value = "cpu")]
    resource: Shown,
    /// Show processes, too: yours; to root, and to who is in the group tix, everybody's
    #[arg(long)]
    processes: bool,
    /// Ask the scheduler itself, not tixd, which may be down: one table of cgroups, of one
    /// interval; for root
    #[arg(long, conflicts_with_all = ["resource", "processes"])]
    direct: bool,
    /// Show also currencies that want no CPU
    #[arg(long)]
    all: bool,
    /// Seconds between samples: 0.2 to 60
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = when::seconds)]
    interval: Duration,
}

/// What it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shown {
    Cpu,
    Disk,
    Memory,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    if args.direct {
        return direct::main(args.interval, args.all, args.json).await;
    }
    let held = match args.resource {
        Shown::Cpu => None,
        Shown::Disk => Some(Resource::Disk),
        Shown::Memory => Some(Resource::Memory),
    };
    if let Some(resource) = held {
        return held::main(resource, args.interval, args.all, args.json).await;
    }
    let interval = args.interval.as_millis() as i64;
    let (mut connection, socket) = Client::connect().await?.into_parts();
    let replies = connection
        .watch(Some(args.processes || live(&args)), Some(interval))
        .await
        .map_err(|err| Client::lost(&socket, &err))?;
    let mut news = News {
        replies: Box::pin(replies),
        socket: socket.clone(),
    };
    if args.json {
        return lines(&mut news, args.once).await;
    }
    let options = view::Options {
        all: args.all,
        processes: args.processes,
        ..Default::default()
    };
    match live(&args) {
        true => live::run(&mut news, options).await,
        false => once(&mut news, &options).await,
    }
}

fn live(args: &Args) -> bool {
    !args.once && !args.json && std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// One line of `tixctl top --json`: either of the two.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Line<'a> {
    Sample(&'a Sample),
    Event(&'a Event),
}

async fn lines<S>(news: &mut News<S>, once: bool) -> Result<(), Failure>
where
    S: Stream<Item = zlink::Result<Result<WatchReply, tix_api::Error>>>,
{
    if once {
        return out::json_line(&Line::Sample(&*news.sample().await?));
    }
    loop {
        match news.next().await? {
            Piece::Sample(sample) => out::json_line(&Line::Sample(&sample))?,
            Piece::Event(event) => out::json_line(&Line::Event(&event))?,
        }
    }
}

async fn once<S>(news: &mut News<S>, options: &view::Options) -> Result<(), Failure>
where
    S: Stream<Item = zlink::Result<Result<WatchReply, tix_api::Error>>>,
{
    let first = news.sample().await?;
    let second = news.sample().await?;
    let mut text = view::text(&view::rows(&first, &second, options), out::width());
    if let Some(note) = view::note(&second) {
        text += &format!("\n{note}");
    }
    out::print(&text)
}
