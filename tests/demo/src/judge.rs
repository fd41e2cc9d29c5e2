// SPDX-License-Identifier: GPL-2.0-only
//! Did everybody get what the tickets say?

use std::fmt::Write;

use anyhow::{Result, bail};

use crate::programs::Person;
use crate::record::{Record, Sample, Scene, SceneResult, system_fraction, used_fraction};

/// How far a steady share may be from its ideal, as a fraction of the machine.
pub const TOLERANCE: f64 = 0.02;

/// What each gets of the CPU that the system itself leaves to them: in proportion to the tickets of those who work.
pub fn ideal(people: &[Person], working: &[bool]) -> Vec<f64> {
    let tickets = |(person, working): (&Person, &bool)| {
        if *working {
            f64::from(person.tickets)
        } else {
            0.0
        }
    };
    let all: f64 = people.iter().zip(working).map(tickets).sum();
    people
        .iter()
        .zip(working)
        .map(|one| tickets(one) / all)
        .collect()
}

/// Compares what was used in the scene's steady window with the scene's ideal.
///
/// The machine's own work (interrupts, kernel threads, tixd, the journal, this program) comes first off the whole: what
/// is shared is the rest. CPU time that nobody used counts as shared, so a CPU left idle fails the scene.
pub fn judge(scene: &mut Scene, samples: &[Sample], people: &[Person], cpus: usize) -> Result<()> {
    let steady = |sample: &&Sample| sample.at >= scene.steady_from && sample.at <= scene.to;
    let mut window = samples.iter().filter(steady);
    let (Some(first), Some(last)) = (window.next(), window.next_back()) else {
        bail!(
            "no two looks at the machine in the steady part of \"{}\": it is too slow for scenes this short",
            scene.title
        );
    };
    scene.system = system_fraction(first, last, cpus);
    scene.results = (people.iter().zip(&scene.ideal).enumerate())
        .map(|(who, (person, &ideal))| {
            let used = used_fraction(first, last, who, cpus) / (1.0 - scene.system);
            SceneResult {
                person: person.name.clone(),
                ideal,
                used,
                passed: (used - ideal).abs() <= TOLERANCE,
            }
        })
        .collect();
    Ok(())
}

/// The result for people.
pub fn table(record: &Record) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", text.trim_end());
    };
    let mut head = format!("{:<32}", "share of what the system left");
    let mut units = format!("{:<32}", "");
    for person in &record.people {
        head += &format!(
            "{:^22}",
            format!("{} ({} tickets)", person.name, person.tickets)
        );
        units += &format!("{:>9} {:>8}    ", "ideal", "used");
    }
    line(format!("{head}   system"));
    line(units);
    for scene in &record.scenes {
        let mut row = format!("{:<32}", scene.title);
        for result in &scene.results {
            let mark = if result.passed { " " } else { "!" };
            row += &format!(
                "{:>7.1} % {:>6.1} % {mark} ",
                result.ideal * 100.0,
                result.used * 100.0
            );
        }
        line(format!("{row} {:>6.1} %", scene.system * 100.0));
    }
    let off = worst(record);
    let verdict = if record.passed {
        "as the tickets say"
    } else {
        "NOT what the tickets say"
    };
    line(format!(
        "Worst steady share: {off:.1} points off; {:.0} are allowed: {verdict}.",
        record.tolerance * 100.0
    ));
    out
}

/// The largest distance of a steady share from its ideal, in points.
fn worst(record: &Record) -> f64 {
    let results = record.scenes.iter().flat_map(|scene| &scene.results);
    results
        .map(|result| (result.used - result.ideal).abs() * 100.0)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PersonSample;

    fn people() -> Vec<Person> {
        vec![
            Person::without_account("alice", 300),
            Person::without_account("bob", 100),
        ]
    }

    fn sample(at: f64, idle: f64, alice: f64, bob: f64) -> Sample {
        let usec = |seconds: f64| (seconds * 1e6) as u64;
        let person = |used| PersonSample {
            entitlement: 0.0,
            share: 0.0,
            used_usec: usec(used),
            programs: Vec::new(),
        };
        Sample {
            at,
            idle_usec: usec(idle),
            people: vec![person(alice), person(bob)],
        }
    }

    fn scene(working: &[bool]) -> Scene {
        Scene {
            from: 0.0,
            steady_from: 2.0,
            to: 12.0,
            ideal: ideal(&people(), working),
            ..Scene::default()
        }
    }

    /// Two CPUs for ten seconds, of which the system took two: 18 are shared.
    #[test]
    fn the_settling_time_does_not_count_and_the_system_comes_first() {
        let samples = [
            sample(0.0, 0.0, 0.0, 9.0),
            sample(2.0, 0.0, 1.0, 10.0),
            sample(12.0, 0.0, 14.5, 14.5),
        ];
        let mut scene = scene(&[true, true]);
        judge(&mut scene, &samples, &people(), 2).unwrap();
        assert!((scene.system - 0.1).abs() < 1e-9);
        assert!((scene.results[0].used - 0.75).abs() < 1e-9 && scene.results[0].passed);
        assert!((scene.results[1].used - 0.25).abs() < 1e-9 && scene.results[1].passed);
    }

    #[test]
    fn two_points_pass_and_more_do_not() {
        for (alice, passes) in [(14.62, true), (14.58, false)] {
            let samples = [
                sample(2.0, 0.0, 0.0, 0.0),
                sample(12.0, 0.0, alice, 20.0 - alice),
            ];
            let mut scene = scene(&[true, true]);
            judge(&mut scene, &samples, &people(), 2).unwrap();
            assert_eq!(
                scene.results[0].passed, passes,
                "alice used {alice} of 20 s"
            );
        }
    }

    #[test]
    fn a_scene_nobody_looked_at_is_an_error() {
        let samples = [sample(2.0, 0.0, 0.0, 0.0), sample(13.0, 0.0, 16.5, 5.5)];
        assert!(judge(&mut scene(&[true, true]), &samples, &people(), 2).is_err());
    }

    #[test]
    fn a_cpu_left_idle_fails() {
        let samples = [sample(2.0, 0.0, 0.0, 0.0), sample(12.0, 10.0, 0.0, 10.0)];
        let mut scene = scene(&[false, true]);
        judge(&mut scene, &samples, &people(), 2).unwrap();
        assert_eq!(scene.ideal, [0.0, 1.0]);
        assert!(scene.results[0].passed && !scene.results[1].passed);
    }
}
