// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl tree`

mod render;
mod watch;

use crate::failure::Failure;
use crate::users::Names;
use crate::{out, pager, when};
use render::{Shown, render};
use std::io::IsTerminal;
use std::time::Duration;
use tix_api::{Tix, TreeReply};
use tix_client::Client;

/// Show every currency: who funds it, and its share
///
/// A currency stands below each currency that funds it; the second time without what is below it.
/// The currency of a cgroup is shown by the last part of its path below its parent's. LIMIT, where
/// there are any, is its own (`tixctl explain` has all). Of the disk there is also the weight in
/// force and what was read and written, of memory what is protected (MIN never taken from it, LOW
/// last) and in use, of both how long it was waited for. Tickets are weights; with a % or a size
/// they are hard: reserved, whatever others get.
///
/// Behind a name stands why it is not active: it wants none (idle), has used up a limit
/// (throttled), or is frozen; or that it is not in force, for its cgroup has no cpu controller.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON, of all resources; with --watch one line for each look
    #[arg(long)]
    json: bool,
    /// Of which resource: cpu, disk, memory or net; with all what they are entitled to of each
    #[arg(
        short,
        long,
        value_name = "RESOURCE",
        default_value = "cpu",
        hide_possible_values = true
    )]
    resource: Shown,
    /// Show also who may do what: mode, owner and group
    #[arg(short, long)]
    long: bool,
    /// Show it again and again, every SECONDS (0.2 to 60), until `q` is pressed; the arrows scroll
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "2",
        value_parser = when::seconds
    )]
    watch: Option<Duration>,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = Client::connect().await?;
    match args.watch {
        Some(pace) if !args.json && live() => {
            watch::live(&mut client, pace, |tree| args.text(tree)).await
        }
        Some(pace) => watch::lines(&mut client, pace, |tree| args.print(tree)).await,
        None => {
            let tree = client.call(|tixd| tixd.tree()).await?;
            match args.json {
                true => out::json(&tree),
                false => pager::print(&args.text(&tree)),
            }
        }
    }
}

fn live() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

impl Args {
    /// The tree as it was asked for, as wide as the terminal is.
    fn text(&self, tree: &TreeReply) -> String {
        let names = self.long.then(Names::default);
        render(tree, self.resource, names, out::width())
    }
    /// Prints it as one of many.
    fn print(&self, tree: &TreeReply) -> Result<(), Failure> {
        match self.json {
            true => out::json_line(tree),
            false => out::print(&format!("{}\n", self.text(tree))),
        }
    }
}
