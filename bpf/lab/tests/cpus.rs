// SPDX-License-Identifier: GPL-2.0-only
//! Which CPU threads are on.

use tix_lab::{ANY, Action, Counts, MS, SECOND, cycle, hog, run, run_with};

/// What 32 threads that yield each few us do in a second on two CPUs, beside so many hogs that are bound to the first.
fn beside_bound(hogs: u64) -> Counts {
    run_with(2, 2000, |m| {
        let all: Vec<u32> = (0..33).map(|_| m.cgroup(0, 100)).collect();
        for (i, cgroup) in (0..32).zip(&all) {
            let turn = [Action::Run(2000 + 100 * i), Action::Yield];
            m.thread(*cgroup, cycle(turn.to_vec()));
        }
        m.run(10 * MS);
        for _ in 0..hogs {
            let thread = m.thread(all[32], hog());
            m.set_cpus(thread, 1);
        }
        m.run(SECOND / 2);
        let before = m.counts();
        m.run(SECOND);
        let after = m.counts();
        Counts {
            picks: after.picks - before.picks,
            keeps: after.keeps - before.keeps,
            taken_over: after.taken_over - before.taken_over,
            ..after
        }
    })
}

/// They are on both CPUs. All on one, the last of them yields to nobody on the other, and all are moved to and fro.
#[test]
fn who_may_use_both_cpus_is_on_both() {
    for hogs in [1, 3, 7, 20, 40] {
        let had = beside_bound(hogs);
        assert!(had.keeps * 100 < had.picks, "beside {hogs}: {had:?}");
        assert!(had.taken_over * 1000 < had.picks, "beside {hogs}: {had:?}");
    }
}

/// Threads of one cgroup have their shares by nice wherever they begin: one that has a CPU for
/// itself does not keep it.
#[test]
fn nice_divides_a_cgroup_on_several_cpus() {
    // (CPUs, weights of the threads, what each is due of the machine, by how much it may be off)
    let cases: [(u32, &[u32], &[f64], f64); 3] = [
        (
            2,
            &[100, 100, 33, 33, 11, 11],
            &[0.3472, 0.3472, 0.1146, 0.1146, 0.0382, 0.0382],
            0.005,
        ),
        // A thread's lag is kept for two slices only, so with so few on a CPU shares stray.
        (4, &[100; 6], &[1.0 / 6.0; 6], 0.04),
        (3, &[100; 4], &[0.25; 4], 0.07),
    ];
    for (cpus, weights, due, off) in cases {
        for alone in 0..weights.len() {
            let shares = run(cpus, |m| {
                let g = m.cgroup(0, 100);
                // One has the last CPU for itself, the others have the rest.
                let last = 1 << (cpus - 1);
                let place = |i| if i == alone { last } else { last - 1 };
                let threads: Vec<u32> = (0..weights.len())
                    .map(|i| m.thread_on(g, place(i), weights[i], hog()))
                    .collect();
                m.run(SECOND / 2);
                for t in &threads {
                    m.set_cpus(*t, ANY);
                }
                m.run(SECOND);
                let each: Vec<_> = threads.chunks(1).collect();
                m.shares(&each, 5 * SECOND)
            });
            let is_near = |(share, due): (&f64, &f64)| (share - due).abs() <= off;
            assert!(
                shares.iter().zip(due).all(is_near),
                "{cpus} CPUs, {alone} alone: {shares:.4?} of {due:.4?}"
            );
        }
    }
}
