// SPDX-License-Identifier: GPL-2.0-only
//! What the audience sees while it plays: a repainted terminal, or a line now and then.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::Result;

use crate::Screen;
use crate::programs::Person;
use crate::record::{Record, Sample, program_fraction, system_fraction, used_fraction};

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";
const HOME: &str = "\x1b[H";
const CLEAR: &str = "\x1b[2J";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
const BAR: usize = 24;
/// CPU used is shown over this many seconds.
const LOOK_BACK: f64 = 1.5;
/// Without a terminal: a line after this many seconds.
const LINE_EVERY: f64 = 4.0;

pub struct Display {
    mode: Screen,
    painted: bool,
    last_line: f64,
}

/// A moment of the play.
pub struct Frame<'a> {
    pub record: &'a Record,
    pub scene: usize,
    pub of: usize,
    pub people: &'a [Person],
}

impl Display {
    pub fn new(mode: Screen) -> Display {
        Display {
            mode,
            painted: false,
            last_line: f64::NEG_INFINITY,
        }
    }

    pub fn show(&mut self, frame: &Frame) -> Result<()> {
        let samples = &frame.record.samples;
        let Some(now) = samples.last() else {
            return Ok(());
        };
        let before = samples
            .iter()
            .rev()
            .find(|sample| sample.at <= now.at - LOOK_BACK)
            .unwrap_or(&samples[0]);
        let text = match self.mode {
            Screen::Ansi => {
                let start = if self.painted {
                    HOME.into()
                } else {
                    format!("{CLEAR}{HOME}")
                };
                self.painted = true;
                let lines = picture(frame, before, now).replace('\n', &format!("{CLEAR_LINE}\n"));
                format!("{start}{lines}{CLEAR_BELOW}")
            }
            Screen::Lines => {
                let opening = frame.record.scenes[frame.scene].from > self.last_line;
                if !opening && now.at < self.last_line + LINE_EVERY {
                    return Ok(());
                }
                self.last_line = now.at;
                line(frame, before, now)
            }
        };
        write(&text)
    }

    /// Leaves the last picture where it is.
    pub fn end(&mut self) -> Result<()> {
        write("\n")
    }
}

fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn picture(frame: &Frame, before: &Sample, now: &Sample) -> String {
    let cpus = frame.record.cpus;
    let scene = &frame.record.scenes[frame.scene];
    let mut out = String::new();
    let mut put = |text: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", text.trim_end());
    };
    let holders: Vec<_> = frame
        .people
        .iter()
        .map(|p| format!("{} holds {} tickets", p.name, p.tickets))
        .collect();
    put(format!(
        "{}; {cpus} CPUs, Linux {}",
        holders.join(", "),
        frame.record.kernel
    ));
    put(format!(
        "{BOLD}Scene {} of {}: {}{PLAIN}, {:.0} s to go",
        frame.scene + 1,
        frame.of,
        scene.title,
        (scene.to - now.at).max(0.0)
    ));
    put(String::new());
    put(format!(
        "{:<18}{:>12}{:>12}{:>12}",
        "", "entitlement", "share now", "CPU used"
    ));
    for (who, person) in frame.people.iter().enumerate() {
        let seen = &now.people[who];
        let used = used_fraction(before, now, who, cpus);
        put(format!(
            "{BOLD}{}  {}{PLAIN}",
            row(&person.name, Some(seen.entitlement), Some(seen.share), used),
            bar(used)
        ));
        for (program, seen) in person.programs.iter().zip(&seen.programs) {
            let used = program_fraction(before, now, who, &program.name, cpus);
            let label = match program.copies {
                1 => format!("  {}", program.name),
                copies => format!("  {copies} {}", program.name),
            };
            put(format!(
                "{}  {}",
                row(&label, seen.entitlement, seen.share, used),
                bar(used)
            ));
        }
    }
    put(row(
        "the system itself",
        None,
        None,
        system_fraction(before, now, cpus),
    ));
    out
}

fn row(label: &str, entitlement: Option<f64>, share: Option<f64>, used: f64) -> String {
    let cell =
        |value: Option<f64>| value.map_or(String::new(), |value| format!("{:.1} %", value * 100.0));
    format!(
        "{label:<18}{:>12}{:>12}{:>12}",
        cell(entitlement),
        cell(share),
        cell(Some(used))
    )
}

fn bar(fraction: f64) -> String {
    "█".repeat((fraction.clamp(0.0, 1.0) * BAR as f64).round() as usize)
}

fn line(frame: &Frame, before: &Sample, now: &Sample) -> String {
    let mut out = format!(
        "{:>4.0} s  {:<30}",
        now.at, frame.record.scenes[frame.scene].title
    );
    for (who, person) in frame.people.iter().enumerate() {
        out += &format!(
            "  {}: share {:>5.1} %, used {:>5.1} %",
            person.name,
            now.people[who].share * 100.0,
            used_fraction(before, now, who, frame.record.cpus) * 100.0
        );
    }
    out.push('\n');
    out
}
