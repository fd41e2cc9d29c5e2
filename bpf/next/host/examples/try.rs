use tix_lab::*;
fn main() {
    for nested in [false, true] { for (r, s) in [(833319, 1634246), (3211108, 3210319), (1_000_000, 1_000_000), (300_000, 300_000), (5_000_000, 5_000_000)] {
        run(1, |m| {
            let g: Vec<u32> = [100, 300].iter().map(|w| m.cgroup(0, *w)).collect();
            let n = if nested { m.cgroup(g[0], 20) } else { g[0] };
            let t = m.thread(n, periodic(r, s));
            let h = m.hogs(g[1], 1);
            m.run(SECOND);
            m.forget_waits();
            let sh = m.shares(&[&[t], &h], 5 * SECOND);
            println!("{nested} {r}/{s}: {sh:.4?} waits {} p50 {} p99 {} max {}", m.waits(t).count, m.waits(t).quantile(0.5), m.waits(t).quantile(0.99), m.waits(t).longest);
        });
    } }
}
