// SPDX-License-Identifier: GPL-2.0-only
//! tix-negotiate: trades on behalf of one principal.

#![forbid(unsafe_code)]

mod files;
mod house;

use anyhow::Context;
use clap::Parser;
use files::Files;
use house::House;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tix_api::units;
use tix_client::Error;
use tix_negotiate::{Act, Market, Negotiator, News, Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Trade what a principal does not need for what it waits for, a little at a time
///
/// It watches how long the principal's threads wait for the CPU, the disk and memory, and offers some of what they wait for least for
/// some of what they wait for most. When somebody takes the offer it looks whether the principal gets on better: if so it keeps the
/// exchange and tries twice as much, if not it ends the exchange. What was undone twice it leaves alone.
///
/// It needs no privileges but those to trade for the principal, and to read its cgroup. When it is ended (SIGTERM, SIGINT) it takes its
/// offers off the book; exchanges stay in force.
#[derive(Debug, Parser)]
#[command(
    name = "tix-negotiate",
    version,
    max_term_width = 100,
    after_help = "Exit status: 0 ended, 1 refused, 2 wrong usage.\n\
                  Environment: TIX_SOCKET, tixd's socket (/run/tix/tixd.sock)."
)]
struct Args {
    /// The currency, cgroup (/user.slice/…) or systemd unit to trade for
    principal: String,
    /// A file that holds how much the program has done so far, a number that grows (requests served), as digits; what it is worth is
    /// judged by that [default: by the part of the time in which some of its threads get on]
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,
    /// The first trade: this part of what is its own, 0.1% to 99.9%
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = part)]
    step: f64,
    /// Never give away more than this part of what is its own of a resource, 0.1% to 99.9%
    #[arg(long, value_name = "PERCENT", default_value = "60%", value_parser = part)]
    most: f64,
    /// How long one trade is looked at: 5s and more (10s, 1min)
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = round)]
    every: Duration,
    /// Change nothing: only say what would be offered, one thing after another
    #[arg(long)]
    dry_run: bool,
    /// Print a line of JSON for each thing that happens
    #[arg(long)]
    json: bool,
    /// The root of the cgroup v2 tree
    #[arg(long, default_value = "/sys/fs/cgroup", hide = true)]
    cgroup_root: PathBuf,
}

/// Parses `10%`.
fn part(text: &str) -> Result<f64, String> {
    let milli = text.ends_with('%').then(|| units::thousandths(text).ok());
    let milli = milli.flatten().map(|n| n as f64 / 1000.0);
    milli.ok_or_else(|| "write per cent with at most one decimal, 0.1% to 99.9%".to_owned())
}

/// Ten samples are one judgement; in less than half a second each, what a program does is chance.
const SHORTEST: Duration = Duration::from_secs(5);

fn round(text: &str) -> Result<Duration, String> {
    let length = units::duration::lasting(text).map_err(|e| e.to_string())?;
    match length >= SHORTEST {
        true => Ok(length),
        false => Err("write 5s or more: what happens in less is chance".to_owned()),
    }
}

fn main() -> ExitCode {
    let args: Args = tix_pages::parse("1");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(Shell::run(args)),
        Err(err) => Err(err.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("error: {err:#}");
            ExitCode::FAILURE
        }
    }
}

/// Pauses between attempts to reach tixd.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Everything that is not the negotiator itself.
struct Shell {
    args: Args,
    began: Instant,
    house: Option<House>,
    files: Option<Files>,
    negotiator: Negotiator,
    /// When tixd is tried again, and how long after that.
    again: Duration,
    pause: Duration,
    /// When what the principal holds was looked at.
    looked: Duration,
    /// What goes wrong: it is said once.
    trouble: Option<String>,
    /// It still did in this tick.
    still: bool,
}

impl Shell {
    async fn run(args: Args) -> anyhow::Result<()> {
        let settings = Settings {
            step: args.step.min(args.most),
            most: args.most,
            every: args.every,
            says: args.progress.is_some(),
        };
        let mut ticks = tokio::time::interval(settings.tick());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let listen = |kind| signal(kind).context("cannot wait for signals");
        let mut ends: [Signal; 2] = [
            listen(SignalKind::terminate())?,
            listen(SignalKind::interrupt())?,
        ];
        let mut shell = Shell {
            negotiator: Negotiator::new(settings),
            args,
            began: Instant::now(),
            house: None,
            files: None,
            again: Duration::ZERO,
            pause: PAUSES[0],
            looked: Duration::ZERO,
            trouble: None,
            still: false,
        };
        let [term, int] = &mut ends;
        loop {
            tokio::select! {
                _ = ticks.tick() => shell.tick().await?,
                _ = term.recv() => break,
                _ = int.recv() => break,
            }
        }
        shell.leave().await
    }

    async fn tick(&mut self) -> anyhow::Result<()> {
        self.still = self.house.is_none();
        self.negotiate().await?;
        if !self.still && self.trouble.take().is_some() {
            eprintln!("all is well again");
        }
        Ok(())
    }

    async fn negotiate(&mut self) -> anyhow::Result<()> {
        let now = self.began.elapsed();
        let market = match self.market(now).await {
            Ok(market) => market,
            Err(err) => {
                self.lost(now, err)?;
                None
            }
        };
        let Some(files) = &self.files else {
            return Ok(());
        };
        // tixd may have taken its time.
        let now = self.began.elapsed();
        let reading = match files.read(now) {
            Ok(reading) => reading,
            // It may come back, and its cgroup with it.
            Err(why) => {
                self.say_once(why);
                return Ok(());
            }
        };
        let out = self.negotiator.step(&reading, market.as_ref());
        for news in &out.news {
            self.say(news)?;
        }
        if self.args.dry_run {
            return Ok(());
        }
        for act in &out.acts {
            self.act(now, act).await?;
        }
        Ok(())
    }

    /// `None` while tixd is away.
    async fn market(&mut self, now: Duration) -> Result<Option<Market>, Error> {
        if self.house.is_none() {
            if now < self.again {
                return Ok(None);
            }
            let house = House::enter(&self.args.principal).await?;
            self.pause = PAUSES[0];
            self.looked = now;
            self.house = Some(house);
            self.find_files();
        }
        let Some(house) = &mut self.house else {
            return Ok(None);
        };
        // Its funding may have changed, or what it is bound to.
        if now.saturating_sub(self.looked) >= self.args.every {
            house.look().await?;
            self.looked = now;
            self.find_files();
        }
        match &mut self.house {
            Some(house) => house.market().await.map(Some),
            None => Ok(None),
        }
    }

    fn find_files(&mut self) {
        let path = self.house.as_ref().and_then(|h| h.cgroup.as_deref());
        let files =
            path.and_then(|p| Files::new(&self.args.cgroup_root, p, self.args.progress.clone()));
        if files.is_none() {
            self.say_once(format!(
                "{} has no cgroup whose waiting could be watched: tixctl bind gives it one",
                self.args.principal
            ));
        }
        self.files = files;
    }

    /// What tixd has refused on the way to the market, or that it is away. At the very beginning a refusal is the end.
    fn lost(&mut self, now: Duration, err: Error) -> anyhow::Result<()> {
        if matches!(err, Error::Refused(_)) && self.files.is_none() && self.trouble.is_none() {
            anyhow::bail!("{}", explained(&err));
        }
        self.house = None;
        if matches!(err, Error::Refused(_)) {
            // Whatever its files say, it is not there.
            self.files = None;
        }
        self.again = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        self.say_once(explained(&err));
        Ok(())
    }

    async fn act(&mut self, now: Duration, act: &Act) -> anyhow::Result<()> {
        let Some(house) = &mut self.house else {
            return Ok(());
        };
        match house.act(act).await {
            Ok(Some(id)) => self.negotiator.placed(id),
            Ok(None) => {}
            // It was matched, has expired or was ended by the other party just before: that is seen next time.
            Err(Error::Refused(tix_api::Error::NoSuchOffer { .. })) => {}
            Err(err @ Error::Refused(tix_api::Error::NotPermitted { .. })) => {
                anyhow::bail!("{}", explained(&err))
            }
            Err(err) => {
                if !matches!(act, Act::Cancel { .. }) {
                    self.negotiator.refused(now);
                }
                match err {
                    Error::Unreachable { .. } => self.lost(now, err)?,
                    other => self.say_once(explained(&other)),
                }
            }
        }
        Ok(())
    }

    /// Offers go, exchanges stay.
    async fn leave(mut self) -> anyhow::Result<()> {
        let now = self.began.elapsed();
        for act in self.negotiator.leave() {
            self.act(now, &act).await?;
        }
        Ok(())
    }

    fn say(&self, news: &News) -> anyhow::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            /// Microseconds since 1970.
            time_usec: u64,
            #[serde(flatten)]
            news: &'a News,
        }
        let mut stdout = std::io::stdout().lock();
        if self.args.json {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let usec = since.map_or(0, |d| d.as_micros());
            let time_usec = u64::try_from(usec).unwrap_or(u64::MAX);
            let line = serde_json::to_string(&Line { time_usec, news })?;
            writeln!(stdout, "{line}").context("cannot write")
        } else {
            writeln!(stdout, "{}", news.message).context("cannot write")
        }
    }

    fn say_once(&mut self, trouble: String) {
        self.still = true;
        if self.trouble.as_ref() != Some(&trouble) {
            eprintln!("{trouble}");
            self.trouble = Some(trouble);
        }
    }
}

/// What happened, and what to do about it.
fn explained(err: &Error) -> String {
    match (err.message(), err.hint()) {
        (message, "") => message,
        (message, hint) => format!("{message} ({hint})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help() {
        Args::command().debug_assert();
        let mut command = Args::command().term_width(100);
        let text = command.render_long_help().to_string();
        let text: Vec<&str> = text.lines().map(str::trim_end).collect();
        insta::assert_snapshot!("help", text.join("\n"));
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(part("12.5%"), Ok(0.125));
        for wrong in ["10", "0%", "100%", "-5%", "%", "10.55%"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
        assert_eq!(round("1min"), Ok(Duration::from_secs(60)));
        for wrong in ["10", "4s", "0s", "soon"] {
            assert!(round(wrong).is_err(), "{wrong}");
        }
    }
}
