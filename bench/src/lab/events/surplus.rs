// SPDX-License-Identifier: GPL-2.0-only
//! More promises of model.md §6: on several CPUs, where one thread cannot use what its principal is due.

use super::history::{FOREVER, History};
use super::judge;
use super::kernel::KERNEL;
use super::machine::{self, Cycle};
use super::promises::SEVERAL_CPUS;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

/// Two threads that are due more than a CPU each, and somebody with most of the tickets who works for a moment now and then, as the
/// kernel's own threads do: what the two cannot use is for the three others, by their tickets.
#[test]
fn a_surplus_is_divided_beside_who_comes_and_goes() {
    for (gap, work) in [(4 * MS, 30 * US), (10 * MS, 300 * US), (20 * MS, 2 * MS)] {
        let mut history = History {
            cpus: 4,
            end: 10_000 * MS,
            ..History::default()
        };
        for tickets in [20, 10, 2, 2, 1] {
            history.hog(0, tickets);
        }
        let node = history.node(0, 100);
        let thread = history.thread(node);
        history.threads[thread as usize].on = Some(0);
        let cycle = Cycle {
            thread,
            sleep: (gap / 2, gap * 2),
            work: (work, work),
        };
        let record = machine::run(&history, &[cycle], 1, KERNEL);
        let tenth = history.end as f64 / KERNEL.slice as f64 / 10.0;
        for (e, due) in judge::errors(&record, &record.history)
            .iter()
            .zip([10.0, 10.0, 8.0, 8.0, 4.0])
        {
            let off = e.last / (due * tenth);
            assert!(off.abs() < 0.02, "{work} ns each {gap} ns: {off:+} {e:?}");
        }
    }
}

/// Who is due more than a CPU owes nothing for having had one, and has it back after a moment's sleep.
#[test]
fn who_has_a_cpu_for_itself_is_back_at_once() {
    for hogs in [vec![10; 2], vec![10; 3], vec![4; 5]] {
        let mut history = History {
            cpus: 2,
            end: 20_000 * MS,
            ..History::default()
        };
        let node = history.node(0, 90);
        let cycle = Cycle {
            thread: history.thread(node),
            sleep: (MS, 5 * MS),
            work: (500 * MS, 2_000 * MS),
        };
        hogs.iter().for_each(|tickets| _ = history.hog(0, *tickets));
        let record = machine::run(&history, &[cycle], 1, KERNEL);
        let latencies = judge::latencies(&record, cycle.thread);
        let most = latencies.iter().max().copied().unwrap_or(u64::MAX);
        assert!(latencies.len() > 10 && most < MS, "{most} ns, {hogs:?}");
        let e = judge::errors(&record, &record.history)[0];
        assert!(e.last > -SEVERAL_CPUS, "{hogs:?}: {e:?}");
    }
}

/// The same below an issuer, whose siblings do not matter: what two threads cannot use is for the three others.
#[test]
fn a_surplus_is_divided_among_siblings() {
    for (gap, work, most) in [
        (FOREVER, MS, 0.01),
        (4 * MS, 30 * US, 0.04),
        (10 * MS, 300 * US, 0.05),
    ] {
        let mut history = History {
            cpus: 4,
            end: 10_000 * MS,
            ..History::default()
        };
        let issuer = history.node(0, 100);
        for tickets in [20, 10, 2, 2, 1] {
            history.hog(issuer, tickets);
        }
        // As the kernel's own threads: one is bound to each CPU.
        let node = history.node(0, 100);
        let cycle = |cpu| {
            let thread = history.thread(node);
            history.threads[thread as usize].on = Some(cpu);
            Cycle {
                thread,
                sleep: (gap / 2, gap * 2),
                work: (work, work),
            }
        };
        let cycles: Vec<_> = (0..4).map(cycle).collect();
        let record = machine::run(&history, &cycles, 1, KERNEL);
        let tenth = history.end as f64 / KERNEL.slice as f64 / 10.0;
        let due = [10.0, 10.0, 8.0, 8.0, 4.0];
        for e in judge::errors(&record, &record.history) {
            let Some(due) = due.get(e.node as usize - 2) else {
                continue;
            };
            let off = e.last / (due * tenth);
            assert!(off.abs() < most, "{work} ns each {gap} ns: {off:+} {e:?}");
        }
    }
}

/// One on each CPU, that goes first and has 30 us each 4 ms, of a principal with as many tickets as others have below an issuer.
fn kernel_threads(history: &mut History) -> Vec<Cycle> {
    let node = history.node(0, 100);
    (0..history.cpus)
        .map(|cpu| {
            let thread = history.thread(node);
            let t = &mut history.threads[thread as usize];
            (t.on, t.first) = (Some(cpu), true);
            Cycle {
                thread,
                sleep: (2 * MS, 6 * MS),
                work: (20 * US, 40 * US),
            }
        })
        .collect()
}

/// What the largest leave, as one thread cannot use it, passes V and what is due to the others many times faster than their tickets say. They are neither
/// ahead nor behind by more than is remembered for that, and who has a CPU but for the kernel's own threads stays there; also who is due more than
/// that CPU beside one that is due most of the machine (7 of 86:2:7:1 on three).
#[test]
fn what_the_largest_leave_is_divided_among_the_small_ones() {
    for (cpus, tickets, dues, moves) in [
        (4, vec![100, 1, 1, 1, 1, 1], vec![5, 3, 3, 3, 3, 3], 400),
        (4, vec![20, 10, 2, 2, 1], vec![5, 5, 4, 4, 2], 200),
        (4, vec![5, 4, 3, 2, 1], vec![15, 15, 15, 10, 5], 10),
        (3, vec![86, 2, 7, 1], vec![3, 2, 3, 1], 100),
    ] {
        for (below, seed) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
            let mut history = History {
                cpus,
                end: 5_000 * MS,
                ..History::default()
            };
            let issuer = if below { history.node(0, 100) } else { 0 };
            let first = history.nodes.len() as u32 + 1;
            tickets.iter().for_each(|t| _ = history.hog(issuer, *t));
            let cycles = kernel_threads(&mut history);
            let record = machine::run(&history, &cycles, seed, KERNEL);
            let all: u32 = dues.iter().sum();
            for e in judge::errors(&record, &record.history) {
                let Some(due) = dues.get(e.node.wrapping_sub(first) as usize) else {
                    continue;
                };
                let due = f64::from(cpus * due) / f64::from(all) * 5_000.0;
                let off = e.last / due;
                assert!(off.abs() < 0.025, "{tickets:?}: {off:+} {e:?}");
            }
            assert!(
                record.counts.stolen < moves,
                "{tickets:?}: {:?}",
                record.counts
            );
        }
    }
}

/// Whoever shares a machine, of however many threads, has what is due by its tickets after 5 s; of principals that run all the time.
/// How near is set by what is seen.
#[test]
fn any_mix_is_divided_by_tickets() {
    for seed in 0..80 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut history = History {
            cpus: random.u32(2..5),
            end: 5_000 * MS,
            ..History::default()
        };
        let issuer = if random.bool() {
            history.node(0, 100)
        } else {
            0
        };
        let first = history.nodes.len() as u32 + 1;
        let mut mix = vec![];
        for _ in 0..random.u32(2..7) {
            let tickets = (random.f64() * 4.6).exp() as u32;
            let threads = if random.bool() { 1 } else { random.u32(1..5) };
            let node = history.node(issuer, tickets);
            for _ in 0..threads {
                let thread = history.thread(node);
                history.run(0, thread, FOREVER);
            }
            mix.push((tickets, threads));
        }
        let cycles = kernel_threads(&mut history);
        let record = machine::run(&history, &cycles, seed, KERNEL);
        for e in judge::errors(&record, &record.history) {
            if !(first..first + mix.len() as u32).contains(&e.node) {
                continue;
            }
            let of_it = |thread: u32| history.threads[thread as usize].node == e.node;
            let runs = record.runs.iter().filter(|run| of_it(run.thread));
            let had = runs.map(|run| run.to - run.from).sum::<u64>() as f64 / KERNEL.slice as f64;
            let off = e.last / (had - e.last);
            let cpus = history.cpus;
            assert!(
                off.abs() < 0.03,
                "{cpus} CPUs, (tickets, threads) {mix:?} below {issuer}: {off:+} {e:?}"
            );
        }
    }
}
