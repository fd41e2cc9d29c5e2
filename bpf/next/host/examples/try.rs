use tix_lab::*;
fn main() {
    for (r, s) in [(100_000, 100_000), (100_000, 300_000), (50_000,50_000), (1_000_000, 1_000_000), (100_000, 1_500_000), (500_000,100_000)] {
        run(1, |m| {
            let g: Vec<u32> = [100, 100, 200].iter().map(|w| m.cgroup(0, *w)).collect();
            let t = m.thread(g[0], periodic(r, s));
            let h = [m.hogs(g[1], 1), m.hogs(g[2], 1)];
            m.run(SECOND);
            m.forget_waits();
            let sh = m.shares(&[&[t], &h[0], &h[1]], 5 * SECOND);
            println!("{r}/{s}: {sh:.4?} waits {} p50 {} p99 {} max {}", m.waits(t).count, m.waits(t).quantile(0.5), m.waits(t).quantile(0.99), m.waits(t).longest);
        });
    }
}
