// SPDX-License-Identifier: GPL-2.0-only
//! The demo: alice and bob share one machine by tickets, and the screen shows what each one gets.
//!
//! `tix-demo run` plays it on the machine it runs on (a guest, or the real one), as root, with systemd;
//! `tix-demo plot` draws what a run wrote down. `tests/demo/run` puts the two together.

#![forbid(unsafe_code)]

mod judge;
mod plot;
mod programs;
mod record;
mod screen;
mod service;
mod story;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(name = "tix-demo", version, about)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play the demo on this machine
    Run(Run),
    /// Draw the shares over time that a run recorded
    Plot { json: PathBuf, svg: PathBuf },
}

#[derive(clap::Args)]
pub struct Run {
    /// The folder with tixd and tixctl
    #[arg(long)]
    bin: PathBuf,
    /// tixd's unit file; its ExecStart is pointed at --bin
    #[arg(long)]
    unit: PathBuf,
    /// A C program for alice and bob to compile
    #[arg(long)]
    source: PathBuf,
    /// Where the record of the run is written, as JSON
    #[arg(long)]
    json: PathBuf,
    /// Repaint a terminal, or print a line now and then
    #[arg(long, value_enum, default_value_t = Screen::Lines)]
    screen: Screen,
    /// How long each of the four scenes lasts, in seconds
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(6..=3600))]
    seconds: u64,
    /// This machine is in use: add no accounts, and take everything away again at the end
    #[arg(long)]
    native: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Screen {
    Ansi,
    Lines,
}

fn main() -> ExitCode {
    match go(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tix-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn go(args: Args) -> Result<bool> {
    match args.command {
        Command::Run(run) => story::play(&run),
        Command::Plot { json, svg } => {
            plot::draw(&record::Record::read(&json)?, &svg)?;
            Ok(true)
        }
    }
}
