// SPDX-License-Identifier: GPL-2.0-only
//! Searches for plots: `adversary [--tickets] [CPUS [SEEDS [FIRST]]]`, with tickets that change; tells
//! the worst; of one seed, what of it is enough, and, with `CPUS 1 SEED FROM TO STEP`, what the
//! scheduler keeps between these moments, us.

use tix_lab::adversary::{Plot, reduced};

fn main() {
    let mut words = std::env::args().skip(1).peekable();
    let with_tickets = words.next_if(|word| word == "--tickets").is_some();
    let plot_of = |cpus, seed| match with_tickets {
        true => Plot::with_tickets(cpus, seed),
        false => Plot::random(cpus, seed),
    };
    let args: Vec<u64> = words.filter_map(|a| a.parse().ok()).collect();
    let arg = |i: usize, otherwise| args.get(i).copied().unwrap_or(otherwise);
    let (cpus, seeds, first) = (arg(0, 1) as u32, arg(1, 100), arg(2, 0));
    if seeds == 1 {
        let plot = plot_of(cpus, first);
        let was = plot.outcome(5);
        let less = reduced(
            &plot,
            |o| {
                if was.alice < 0.99 {
                    o.alice < (1.0 + was.alice) / 2.0
                } else {
                    o.longest * 10 > was.longest * 8
                }
            },
            5,
        );
        if was.alice >= 0.99 {
            less.dump_when_late(5, was.longest / 2);
        }
        if let [_, _, _, from, to, step] = args[..] {
            less.trace(from * 1000, to * 1000, step * 1000);
        }
        println!("{was:?}\n{less:#?}\n{:?}", less.outcome(5));
        return;
    }
    let mut outcomes: Vec<_> = (first..first + seeds)
        .map(|seed| (seed, plot_of(cpus, seed).outcome(5)))
        .collect();
    let late = |ns: u64| outcomes.iter().filter(|o| o.1.longest > ns).count();
    let short = |part: f64| outcomes.iter().filter(|o| o.1.alice < part).count();
    println!(
        "{cpus} CPUs, {seeds} plots: alice below 0.99 of her due in {}, below 0.9 in {}; \
         a wait over 5 ms in {}, 20 ms in {}, 100 ms in {}, 1 s in {}",
        short(0.99),
        short(0.9),
        late(5_000_000),
        late(20_000_000),
        late(100_000_000),
        late(1_000_000_000)
    );
    outcomes.sort_by(|a, b| a.1.alice.total_cmp(&b.1.alice));
    for (seed, o) in outcomes.iter().take(8) {
        println!("seed {seed}: alice {:.4} of her due", o.alice);
    }
    outcomes.sort_by_key(|o| u64::MAX - o.1.longest);
    for (seed, o) in outcomes.iter().take(8) {
        println!(
            "seed {seed}: a wait of {} us, p99 {} us",
            o.longest / 1000,
            o.p99 / 1000
        );
    }
}
