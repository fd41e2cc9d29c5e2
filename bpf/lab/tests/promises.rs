// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler promises (docs/model.md §6), asked of the whole BPF program.
//!
//! The quantum is 1 ms. Bounds are in quanta of service: a principal's own run that is going on,
//! one that it waits for, and one by which tags are grouped.

mod common;

use common::{groups, near};
use tix_lab::{ANY, Action, BASE, MS, Machine, NICE_0, SECOND, cycle, hog, periodic, run};

/// The largest distance of any thread's service from its share of `due`, ns, over `ns` from now,
/// looked at every 10 ms.
fn largest_error(m: &mut Machine, threads: &[Vec<u32>], due: &[f64], ns: u64) -> f64 {
    let start: Vec<u64> = threads.iter().map(|t| m.used_by(t)).collect();
    let mut worst: f64 = 0.0;
    for step in 1..=ns / (10 * MS) {
        m.run(10 * MS);
        for ((t, was), due) in threads.iter().zip(&start).zip(due) {
            let had = (m.used_by(t) - was) as f64;
            worst = worst.max((had - due * (step * 10 * MS) as f64).abs());
        }
    }
    worst
}

#[test]
fn one_cpu_is_shared_by_weight_at_every_moment() {
    let worst = run(1, |m| {
        let cgroups = groups(m, &[100, 200, 300, 400, 500]);
        let threads: Vec<_> = cgroups.iter().map(|g| m.hogs(*g, 1)).collect();
        m.run(SECOND);
        let due: Vec<f64> = (1..=5).map(|w| f64::from(w) / 15.0).collect();
        largest_error(m, &threads, &due, 5 * SECOND)
    });
    assert!(worst < 2.0 * MS as f64, "{worst} ns");
}

#[test]
fn one_large_beside_forty_small() {
    let worst = run(1, |m| {
        let large = m.cgroup(0, 4000);
        let mut threads = vec![m.hogs(large, 1)];
        for small in groups(m, &[100; 40]) {
            threads.push(m.hogs(small, 1));
        }
        m.run(SECOND);
        let mut due = vec![0.5];
        due.extend([0.5 / 40.0; 40]);
        largest_error(m, &threads, &due, 5 * SECOND)
    });
    assert!(worst < 2.5 * MS as f64, "{worst} ns");
}

#[test]
fn nested_groups_divide_what_theirs_have() {
    let shares = run(1, |m| {
        let a = m.cgroup(0, 300);
        let b = m.cgroup(0, 100);
        let leaves = [
            m.cgroup(a, 100),
            m.cgroup(a, 200),
            m.cgroup(b, 100),
            m.cgroup(b, 300),
        ];
        let threads = leaves.map(|g| m.hogs(g, 2));
        m.run(SECOND);
        m.shares(&threads.each_ref().map(Vec::as_slice), 4 * SECOND)
    });
    near(&shares, &[0.25, 0.5, 0.0625, 0.1875], 0.001);
}

#[test]
fn four_cpus_are_one_machine() {
    let shares = run(4, |m| {
        let cgroups = groups(m, &[100, 200, 300, 400]);
        let threads: Vec<_> = cgroups.iter().map(|g| m.hogs(*g, 4)).collect();
        m.run(SECOND);
        let slices: Vec<_> = threads.iter().map(Vec::as_slice).collect();
        let mut worst = vec![0.0; 4];
        for _ in 0..5 {
            let shares = m.shares(&slices, SECOND);
            for i in 0..4 {
                let off = (shares[i] - (i + 1) as f64 / 10.0).abs();
                worst[i] = f64::max(worst[i], off);
            }
        }
        worst
    });
    near(&shares, &[0.0; 4], 0.002);
}

/// All begin on one CPU, as children of one shell do, and are spread by what CPUs take over.
#[test]
fn who_begins_on_one_cpu_has_its_share_of_all() {
    let shares = run(4, |m| {
        let cgroups = groups(m, &[100, 200, 300, 400]);
        let threads: Vec<Vec<u32>> = cgroups
            .iter()
            .map(|g| (0..4).map(|_| m.thread_on(*g, 1, NICE_0, hog())).collect())
            .collect();
        m.run(SECOND);
        for t in threads.iter().flatten() {
            m.set_cpus(*t, ANY);
        }
        m.run(SECOND);
        let slices: Vec<_> = threads.iter().map(Vec::as_slice).collect();
        m.shares(&slices, 4 * SECOND)
    });
    near(&shares, &[0.1, 0.2, 0.3, 0.4], 0.002);
}

#[test]
fn one_thread_has_no_more_than_a_cpu() {
    let shares = run(4, |m| {
        let large = m.cgroup(0, 10000);
        let mut threads = vec![m.hogs(large, 1)];
        for g in groups(m, &[100, 200, 300]) {
            threads.push(m.hogs(g, 4));
        }
        m.run(SECOND);
        let slices: Vec<_> = threads.iter().map(Vec::as_slice).collect();
        m.shares(&slices, 4 * SECOND)
    });
    near(&shares, &[0.25, 0.125, 0.25, 0.375], 0.003);
}

/// CPUs that each of these cgroups (weight, CPUs, threads) has.
fn cpusets(cpus: u32, sets: &[(u32, u64)]) -> Vec<f64> {
    run(cpus, |m| {
        let threads: Vec<Vec<u32>> = sets
            .iter()
            .map(|(weight, mask)| {
                let g = m.cgroup(0, *weight);
                (0..4)
                    .map(|_| m.thread_on(g, *mask, NICE_0, hog()))
                    .collect()
            })
            .collect();
        m.run(2 * SECOND);
        let slices: Vec<_> = threads.iter().map(Vec::as_slice).collect();
        let shares = m.shares(&slices, 4 * SECOND);
        shares.iter().map(|s| s * f64::from(cpus)).collect()
    })
}

#[test]
fn overlapping_cpusets_are_divided_by_weight() {
    let one = cpusets(4, &[(100, 1), (200, 7), (300, 1)]);
    near(&one, &[0.25, 2.0, 0.75], 0.01);
    let two = cpusets(4, &[(100, 1), (200, 7), (300, 14)]);
    near(&two, &[2.0 / 3.0, 4.0 / 3.0, 2.0], 0.01);
    let bound = cpusets(4, &[(100, 1), (300, 1), (100, ANY), (100, ANY)]);
    near(&bound, &[0.25, 0.75, 1.5, 1.5], 0.02);
}

/// What cgroups of one thread each have of a machine, in CPUs, below one cgroup, while the machine's
/// own threads sleep and wake up beside that.
fn surplus(cpus: u32, weights: &[u32]) -> Vec<f64> {
    run(cpus, |m| {
        let top = m.cgroup(0, 100);
        for cpu in 0..cpus {
            m.thread_on(0, 1 << cpu, NICE_0, periodic(MS / 20, 4 * MS));
        }
        m.thread(0, periodic(MS / 5, 30 * MS));
        let below = |w: &u32| m.cgroup(top, *w);
        let cgroups: Vec<u32> = weights.iter().map(below).collect();
        let hogs: Vec<Vec<u32>> = cgroups.iter().map(|g| m.hogs(*g, 1)).collect();
        m.run(2 * SECOND);
        let hogs: Vec<&[u32]> = hogs.iter().map(Vec::as_slice).collect();
        let shares = m.shares(&hogs, 10 * SECOND);
        shares.iter().map(|s| s * f64::from(cpus)).collect()
    })
}

/// A cgroup that is due more than the CPU that its one thread can use leaves the rest to its siblings,
/// by their tickets. The machine's own threads have up to a twentieth of a CPU.
#[test]
fn what_one_cannot_use_is_divided_by_tickets() {
    near(
        &surplus(4, &[20, 10, 2, 2, 1]),
        &[1.0, 1.0, 0.8, 0.8, 0.4],
        0.05,
    );
    near(
        &surplus(4, &[100, 1, 1, 1, 1, 1]),
        &[1.0, 0.6, 0.6, 0.6, 0.6, 0.6],
        0.05,
    );
    near(&surplus(2, &[3, 1, 1]), &[1.0, 0.5, 0.5], 0.05);
}

/// A thread that works 1 ms each 5.3 ms, beside so many hogs of another cgroup of the same weight:
/// how long each round took, from when it was due to begin until its work was done, ns.
fn rounds(cpus: u32, hogs: usize) -> Vec<u64> {
    const PERIOD: u64 = 5_300_000;
    let (tell, told) = std::sync::mpsc::channel();
    run(cpus, |m| {
        let own = m.cgroup(0, 100);
        let other = m.cgroup(0, 100);
        let (mut due, mut works) = (0, false);
        m.thread(
            own,
            Box::new(move |now| {
                if works {
                    works = false;
                    tell.send(now - due).expect("whoever reads is there");
                    due += PERIOD;
                    if now < due {
                        return Action::Sleep(due - now);
                    }
                }
                if due == 0 {
                    due = now;
                }
                works = true;
                Action::Run(MS)
            }),
        );
        m.hogs(other, hogs);
        m.run(6 * SECOND);
    });
    told.try_iter().skip(20).collect()
}

/// Late rounds of a thousand where it is not kept yet: CPUs, hogs, and how many.
const LATE: [(u32, usize, usize); 1] = [(4, 16, 20)];

#[test]
fn work_with_a_deadline_is_done_in_time() {
    for cpus in [1, 2, 4, 16] {
        for hogs in [2, 4, 16] {
            let took = rounds(cpus, hogs);
            let longest = took.iter().max().copied().unwrap_or(0);
            let late = took.iter().filter(|t| **t > 5_300_000).count();
            println!("{cpus} CPUs, {hogs} hogs: {late} late, {longest} ns at worst");
            let kept = LATE.iter().find(|l| (l.0, l.1) == (cpus, hogs));
            let most = kept.map_or(0, |l| l.2);
            assert!(took.len() > 1_000, "{} rounds", took.len());
            assert!(late <= most, "{cpus} CPUs, {hogs} hogs: {late} late");
        }
    }
}

#[test]
fn who_sleeps_is_served_at_once() {
    let (p99, longest) = run(1, |m| {
        let own = m.cgroup(0, 100);
        let t = m.thread(own, periodic(MS / 10, 10 * MS));
        for g in groups(m, &[100; 8]) {
            m.hogs(g, 1);
        }
        m.run(SECOND);
        m.forget_waits();
        m.run(10 * SECOND);
        (m.waits(t).quantile(0.99), m.waits(t).longest)
    });
    assert!(p99 < MS / 5 && longest < 2 * MS, "{p99} {longest}");
}

#[test]
fn sleepers_have_their_share_and_no_more() {
    let shares = run(1, |m| {
        let g = groups(m, &[100, 100, 200]);
        let sleeper = m.thread(g[0], periodic(MS / 10, MS / 10));
        let hogs = [m.hogs(g[1], 1), m.hogs(g[2], 1)];
        m.run(SECOND);
        m.shares(&[&[sleeper], &hogs[0], &hogs[1]], 5 * SECOND)
    });
    near(&shares, &[0.25, 0.25, 0.5], 0.005);
}

#[test]
fn nice_divides_a_cgroup() {
    let shares = run(1, |m| {
        let g = m.cgroup(0, 100);
        let a = m.thread_on(g, ANY, 100, hog());
        let b = m.thread_on(g, ANY, 300, hog());
        m.run(SECOND);
        m.shares(&[&[a], &[b]], 5 * SECOND)
    });
    near(&shares, &[0.25, 0.75], 0.003);
}

#[test]
fn siblings_have_the_same() {
    for cpus in [1, 4] {
        let (least, most) = run(cpus, |m| {
            let g = groups(m, &[100, 300]);
            let threads = m.hogs(g[0], 10);
            m.hogs(g[1], 10);
            m.run(2 * SECOND);
            let before: Vec<_> = threads.iter().map(|t| m.used(*t)).collect();
            m.run(6 * SECOND);
            let used: Vec<_> = threads
                .iter()
                .zip(before)
                .map(|(t, b)| m.used(*t) - b)
                .collect();
            (
                *used.iter().min().expect("ten"),
                *used.iter().max().expect("ten"),
            )
        });
        assert!(least * 10 > most * 8, "{cpus} CPUs: {least} {most}");
    }
}

/// Alice's share beside bob's attackers, of 3/4.
fn attacked(cpus: u32, setup: impl FnOnce(&mut Machine, u32) + Send) -> f64 {
    run(cpus, |m| {
        let alice = m.cgroup(0, 300);
        let bob = m.cgroup(0, 100);
        let hogs = m.hogs(alice, cpus as usize);
        setup(m, bob);
        m.run(2 * SECOND);
        m.shares(&[&hogs], 10 * SECOND)[0]
    })
}

#[test]
fn toggling_siblings_take_nothing() {
    for cpus in [1, 4] {
        for (nr, on, off) in [(2, 1, 1), (8, 3, 7), (20, 2, 2), (20, 1, 30), (50, 10, 10)] {
            let share = attacked(cpus, |m, bob| {
                for i in 0..nr {
                    let g = m.cgroup(bob, 100);
                    let phase = i * MS * (on + off) / nr;
                    m.thread(
                        g,
                        cycle(vec![
                            Action::Run(on * MS),
                            Action::Sleep(off * MS + phase / 100),
                        ]),
                    );
                }
            });
            assert!(share > 0.7425, "{cpus} CPUs: {nr} of {on}/{off}: {share}");
        }
    }
}

#[test]
fn quarrels_about_locks_take_nothing() {
    for cpus in [1, 4] {
        for nr in [2, 8, 20] {
            let share = attacked(cpus, |m, bob| {
                for _ in 0..nr {
                    let g = m.cgroup(bob, 100);
                    m.thread(
                        g,
                        cycle(vec![
                            Action::Lock(1),
                            Action::Run(30_000),
                            Action::Unlock(1),
                            Action::Run(5_000),
                        ]),
                    );
                }
            });
            assert!(share > 0.7425, "{cpus} CPUs: {nr}: {share}");
        }
    }
}

#[test]
fn a_lock_of_a_crowd_is_had_in_time() {
    let waits = run(1, |m| {
        let crowd = m.cgroup(0, 100);
        let root = m.cgroup(0, 1000);
        for _ in 0..100 {
            m.thread(
                crowd,
                cycle(vec![
                    Action::Run(500_000),
                    Action::Lock(1),
                    Action::Run(300_000),
                    Action::Unlock(1),
                ]),
            );
        }
        let t = m.thread(
            root,
            cycle(vec![
                Action::Sleep(50 * MS),
                Action::Lock(1),
                Action::Run(100_000),
                Action::Unlock(1),
            ]),
        );
        m.run(10 * SECOND);
        m.used(t) / 100_000
    });
    // Of 200 rounds at most; each waits for one holder at the front of a queue of a hundred.
    assert!(waits > 20, "{waits}");
}

/// Siblings of one that is due more than the only CPU it may use, and of one that has another CPU alone, have what they
/// are due, and no more.
#[test]
fn who_cannot_have_its_due_leaves_the_others_theirs() {
    let shares = run(2, |m| {
        let top = m.cgroup(0, 100);
        let large = m.cgroup(top, 10000);
        let large: Vec<u32> = (0..2)
            .map(|_| m.thread_on(large, 1, NICE_0, hog()))
            .collect();
        let small: Vec<u32> = (0..5)
            .map(|_| {
                let cgroup = m.cgroup(top, 1);
                m.thread_on(cgroup, 1, NICE_0, hog())
            })
            .collect();
        let other = m.cgroup(top, 1);
        m.thread_on(other, 2, NICE_0, hog());
        m.run(4 * SECOND);
        m.shares(&[&large, &small], 8 * SECOND)
    });
    // 5 of 10,000 of a CPU, and who has waited 5 s runs for a moment.
    assert!(shares[1] < 0.003, "{shares:.4?}");
}

/// A thread that made many short runs and computes from then on is interrupted as any other.
#[test]
fn short_runs_of_old_buy_nothing() {
    let late = run(1, |m| {
        let cgroups = groups(m, &[100, 100]);
        let mut runs = 0;
        let program = move |_| {
            runs += 1;
            match runs {
                1..=100 if runs % 2 == 0 => Action::Sleep(MS),
                1..=100 => Action::Run(20_000),
                _ => Action::Run(SECOND),
            }
        };
        m.thread(cgroups[0], Box::new(program));
        m.run(SECOND);
        let sleeper = m.thread(cgroups[1], periodic(MS / 10, 5_320_000));
        m.run(SECOND);
        m.forget_waits();
        m.run(10 * SECOND);
        m.waits(sleeper).beyond(MS / 4)
    });
    assert_eq!(late, 0);
}

/// A token goes round: each wakes the next and then waits for the last, and nobody else wants the CPU.
#[test]
fn who_is_about_to_sleep_is_not_interrupted() {
    let (hops, switches) = run(1, |m| {
        let cgroups = groups(m, &[100; 10]);
        for (i, cgroup) in (1..).zip(&cgroups) {
            let turn = [
                Action::Wait,
                Action::Run(10_000),
                Action::Wake(i % 10 + 1),
                Action::Run(3_000),
            ];
            assert_eq!(m.thread(*cgroup, cycle(turn.to_vec())), i);
        }
        m.run(100 * MS);
        m.wake(1);
        m.run(SECOND);
        let before = (m.used(1), m.switches());
        m.run(SECOND);
        ((m.used(1) - before.0) / 1300, m.switches() - before.1)
    });
    assert!(hops > 10_000, "{hops}");
    assert!(
        switches < hops * 11 / 10,
        "{switches} switches for {hops} hops"
    );
}

#[test]
fn what_a_currency_funds_is_divided() {
    let shares = run(1, |m| {
        let user = m.currency();
        m.fund(user, &[(BASE, 300, false)], 0);
        let (one, two, other) = (m.cgroup(0, 100), m.cgroup(0, 100), m.cgroup(0, 100));
        let (a, b) = (m.node(one), m.node(two));
        m.fund(a, &[(user, 100, false)], 0);
        m.fund(b, &[(user, 200, false)], 0);
        let threads = [one, two, other].map(|g| m.hogs(g, 1));
        m.run(SECOND);
        m.shares(&threads.each_ref().map(Vec::as_slice), 4 * SECOND)
    });
    near(&shares, &[0.25, 0.5, 0.25], 0.001);
}

#[test]
fn a_hard_ticket_is_a_part_of_what_there_is() {
    let shares = run(1, |m| {
        let (one, two, other) = (m.cgroup(0, 100), m.cgroup(0, 100), m.cgroup(0, 100));
        let a = m.node(one);
        m.fund(a, &[(BASE, 400, true)], 0);
        let threads = [one, two, other].map(|g| m.hogs(g, 1));
        m.run(SECOND);
        m.shares(&threads.each_ref().map(Vec::as_slice), 4 * SECOND)
    });
    near(&shares, &[0.4, 0.3, 0.3], 0.002);
}
