// SPDX-License-Identifier: GPL-2.0-only
//! A record as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show, in the Trace Event
//! Format: a line for each CPU with its runs, and one for each thread with its wake-ups and sleeps.

use serde_json::{Value, json};
use tix_lab::history::replay::Record;

const CPUS: u32 = 0;
const THREADS: u32 = 1;

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

fn named(what: &str, pid: u32, tid: u32, name: String) -> Value {
    json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})
}

/// One event a line.
pub fn write(record: &Record) -> String {
    let threads = &record.history.threads;
    let name = |t: u32| format!("thread {t} of {}", threads[t as usize].node);
    let mut events = vec![
        named("process_name", CPUS, 0, "CPUs".into()),
        named("process_name", THREADS, 0, "threads".into()),
    ];
    let cpus = 0..record.history.cpus;
    events.extend(cpus.map(|c| named("thread_name", CPUS, c, format!("CPU {c}"))));
    events.extend((0..threads.len() as u32).map(|t| named("thread_name", THREADS, t, name(t))));
    events.extend(record.runs.iter().map(|r| {
        json!({"ph": "X", "name": name(r.thread), "pid": CPUS, "tid": r.cpu,
            "ts": us(r.from), "dur": us(r.to - r.from)})
    }));
    let instants = [("wakes up", &record.wakes), ("sleeps", &record.sleeps)];
    for (what, all) in instants {
        events.extend(all.iter().map(|(at, t)| {
            json!({"ph": "i", "s": "t", "name": what, "pid": THREADS, "tid": t, "ts": us(*at)})
        }));
    }
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    format!("{{\"traceEvents\": [\n{}\n]}}\n", lines.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_lab::history::replay;
    use tix_lab::history::scenarios::Scenario;

    #[test]
    fn every_run_and_wake_up_is_an_event() {
        let case = Scenario::Blocking.case(2, 50_000_000, 1);
        let record = replay::run(&case.history, &case.cycles, 1);
        let trace: Value = serde_json::from_str(&write(&record)).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events");
        let of = |ph: &str| events.iter().filter(|e| e["ph"] == ph).count();
        assert_eq!(of("X"), record.runs.len());
        assert_eq!(of("i"), record.wakes.len() + record.sleeps.len());
        let run = record.runs[0];
        let first = events.iter().find(|e| e["ph"] == "X").expect("a run");
        assert_eq!(first["tid"], run.cpu);
        assert_eq!(first["dur"], us(run.to - run.from));
    }
}
