use tix_lab::*;
fn sets(cpus: u32, sets: &[(u32, u64)], warm: u64, n: usize) {
    run(cpus, |m| {
        let threads: Vec<Vec<u32>> = sets.iter().map(|(w, mask)| { let g = m.cgroup(0, *w); (0..n).map(|_| m.thread_on(g, *mask, NICE_0, hog())).collect() }).collect();
        m.run(warm);
        let sl: Vec<_> = threads.iter().map(Vec::as_slice).collect();
        let s = m.stats().stolen; if std::env::var("DUMP").is_ok() { m.dump(); }
        for _ in 0..3 {
        let sh = m.shares(&sl, 2 * SECOND);
        println!("{sets:?} {warm} n {n}: {:.3?} stolen {}", sh.iter().map(|s| s * cpus as f64).collect::<Vec<_>>(), m.stats().stolen - s);
        }
    });
}
fn main() {
    for n in [4, 5] { for w in [1, 2, 3] { sets(4, &[(100, 1), (300, 1), (100, ANY), (100, ANY)], w * SECOND, n); } }
    sets(4, &[(100, 1), (300, 1), (100, ANY), (100, ANY), (50, 2)], SECOND, 4);
    sets(4, &[(100, 1), (200, 7), (300, 1)], SECOND, 4);
    sets(4, &[(100, 1), (200, 7), (300, 14)], SECOND, 4);
    sets(4, &[(100, 3), (200, 6), (300, 12)], SECOND, 4);
    sets(4, &[(100, 3), (100, 6), (300, 12), (200, 9)], SECOND, 4);
    sets(8, &[(100, 0xf), (100, 0xf0), (300, 0x3c), (200, 0xff)], SECOND, 8);
}
