// SPDX-License-Identifier: GPL-2.0-only
//! The four scenes: who runs what, when, and what each should get.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::judge;
use crate::programs::{self, Person};
use crate::record::{PersonRecord, Record, Scene};
use crate::screen::{Display, Frame};
use crate::service::Service;
use crate::watch::Watch;
use crate::{Run, judge::TOLERANCE};

/// What both run at first: a name, and a command for what `programs::make_data` made.
const PROGRAMS: [(&str, &str); 4] = [
    ("zstd", "zstd -12 -c /run/tix-demo/data"),
    ("xz", "xz -2 -c /run/tix-demo/data"),
    ("cc", "cc -O2 -S -o - /run/tix-demo/core.i"),
    ("sha256sum", "sha256sum /run/tix-demo/data"),
];
const BOBS_TEN_MORE: (&str, &str) = ("sha512sum", "sha512sum /run/tix-demo/data");
const SAMPLE_EVERY: Duration = Duration::from_secs(2);
/// The first part of every scene, in which programs start or stop, is no part of its result.
const SETTLING: f64 = 0.25;

const ALICE: usize = 0;
const BOB: usize = 1;

/// Plays the demo; true if every steady share was within the tolerance.
pub fn play(run: &Run) -> Result<bool> {
    programs::check(&PROGRAMS)?;
    programs::check(&[BOBS_TEN_MORE])?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("cannot handle signals")?;
    }
    let service = Service::start(run)?;
    let mut people = if run.native {
        vec![
            Person::without_account("alice", 300),
            Person::without_account("bob", 100),
        ]
    } else {
        vec![
            Person::with_account("alice", 300)?,
            Person::with_account("bob", 100)?,
        ]
    };
    let played = scenes(run, &service, &mut people, &interrupted);
    if run.native {
        let tidied = tidy(service, &mut people);
        return played.and_then(|passed| tidied.map(|()| passed));
    }
    played
}

/// Gives both their tickets. Their programs run already: systemd removes a user's slice when nothing is in it.
fn fund(service: &Service, people: &[Person]) -> Result<()> {
    for person in people {
        let tickets = person.tickets.to_string();
        service.tixctl(&["create", &person.name])?;
        service.tixctl(&["fund", &person.name, "--from", "base", "cpu", &tickets])?;
        service.tixctl(&["bind", &person.name, &person.slice])?;
    }
    Ok(())
}

/// Leave the machine as it was found.
fn tidy(service: Service, people: &mut [Person]) -> Result<()> {
    for person in &mut *people {
        service.tixctl(&["unbind", &person.name])?;
        service.tixctl(&["unfund", &person.name, "--from", "base", "cpu"])?;
        service.tixctl(&["destroy", &person.name])?;
        person.end()?;
        programs::run(std::process::Command::new("systemctl").args(["stop", &person.slice]))?;
    }
    programs::remove_data();
    service.stop()
}

fn scenes(
    run: &Run,
    service: &Service,
    people: &mut [Person],
    interrupted: &AtomicBool,
) -> Result<bool> {
    let cpus = thread::available_parallelism()
        .context("cannot count the CPUs")?
        .get();
    programs::make_data(&run.source)?;
    // A program can use one CPU at most, so on a large machine everybody runs more of them, to have a share to fight for.
    let copies = cpus.div_ceil(PROGRAMS.len());
    for (name, command) in PROGRAMS {
        people[ALICE].start(name, command, copies)?;
        people[BOB].start(name, command, copies)?;
    }
    fund(service, people)?;

    let mut record = Record {
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        cpus,
        status: service.status()?,
        people: people
            .iter()
            .map(|p| PersonRecord {
                name: p.name.clone(),
                slice: p.slice.clone(),
                tickets: p.tickets,
            })
            .collect(),
        tolerance: TOLERANCE,
        scenes: Vec::new(),
        samples: Vec::new(),
        passed: false,
    };
    let mut display = Display::new(run.screen);
    let watch = Watch::new(service.tixctl_path())?;
    for (number, title) in [
        "both work",
        "bob starts ten more programs",
        "alice goes idle",
        "alice takes it back",
    ]
    .into_iter()
    .enumerate()
    {
        let from = watch.now();
        match number {
            1 => people[BOB].start(BOBS_TEN_MORE.0, BOBS_TEN_MORE.1, 10)?,
            2 => people[ALICE].pause(true)?,
            3 => people[ALICE].pause(false)?,
            _ => {}
        }
        let working = [number != 2, true];
        // Starting and stopping programs takes a while on an emulated machine; the scene's length counts from then on.
        let acted = watch.now();
        let to = acted + run.seconds as f64;
        record.scenes.push(Scene {
            title: title.into(),
            from,
            steady_from: acted + run.seconds as f64 * SETTLING,
            to,
            ideal: judge::ideal(people, &working),
            ..Scene::default()
        });
        loop {
            if interrupted.load(Ordering::Relaxed) {
                bail!("interrupted");
            }
            record.samples.push(watch.sample(people)?);
            display.show(&Frame {
                record: &record,
                scene: number,
                of: 4,
                people,
            })?;
            let left = to - watch.now();
            if left <= 0.0 {
                break;
            }
            thread::sleep(SAMPLE_EVERY.min(Duration::from_secs_f64(left)));
        }
        let scene = record.scenes.last_mut().context("a scene has just begun")?;
        scene.to = record.samples.last().map_or(to, |sample| sample.at);
        judge::judge(scene, &record.samples, people, cpus)?;
    }
    record.passed = record
        .scenes
        .iter()
        .flat_map(|scene| &scene.results)
        .all(|result| result.passed);
    record.write(&run.json)?;
    display.end()?;
    print!("{}", judge::table(&record));
    Ok(record.passed)
}
