// SPDX-License-Identifier: GPL-2.0-only
//! One build of the scheduler takes another's place, and the other way round, under load: nobody gains or loses by that. What the kernel's own
//! scheduler gives in between does not count.

use anyhow::{Context, Result};
use serde_json::Value;
use tix_tests::bound;
use tix_tests::guest::{Guest, example};
use tix_tests::results::skipped;

/// An error moves by 22/8 quanta at most, by theory.
const QUANTUM: f64 = bound::QUANTUM_MS;

fn numbers(of: &Value) -> Vec<f64> {
    let list = of.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_f64).collect()
}

fn largest(of: &[f64]) -> f64 {
    of.iter().fold(0.0, |most, x| x.abs().max(most))
}

/// What `swap_tix` says of each exchange.
fn exchanges(guest: &Guest) -> Result<Vec<Value>> {
    // Nobody runs while a scheduler is verified: it is the one who is ahead then who is ahead when it is attached.
    let script = format!(
        "echo -1 > /proc/sys/kernel/sched_rt_runtime_us\nchrt -f 1 {}\n",
        example("swap_tix")?.display()
    );
    let said = guest.text(&script)?;
    said.lines()
        .filter(|line| line.starts_with("{\"how\""))
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

#[test]
#[ignore = "boots a guest"]
fn who_was_behind_is_behind_by_the_same() {
    let said = exchanges(&Guest::new().icount(0).timeout(3600)).unwrap();
    let (mut exchanged, mut lagged) = (0, 0);
    for told in said.iter().filter(|told| told["error_ms"].is_array()) {
        let how = told["how"].as_str().unwrap();
        let (before, error) = (numbers(&told["before_ms"]), numbers(&told["error_ms"]));
        eprintln!("{how}: of {before:.2?} ms ahead {error:.2?} were not made good");
        assert_eq!((before.len(), error.len()), (4, 4));
        exchanged += 1;
        if how.ends_with("with lags") {
            lagged += 1;
            assert!(
                largest(&before) > 30.0 * QUANTUM,
                "nobody was far behind: {told}"
            );
        }
        assert!(
            largest(&error) < 3.0 * QUANTUM,
            "{how}: somebody strays by {} ms of what it was due and was ahead before: {told}",
            largest(&error)
        );
    }
    assert_eq!((exchanged, lagged), (6, 3));

    let of = |how: &str| said.iter().find(|told| told["how"] == how);
    let (Some(limit), Some(later)) = (of("limit"), of("later")) else {
        let other = std::env::var_os("KERNEL").is_some();
        assert!(other, "the newest kernel says what cpu.max is: {said:?}");
        skipped(
            "what is left of a quota when builds are exchanged",
            "this kernel does not say what cpu.max is (before 6.17)",
        );
        return;
    };
    // 50 ms in each second were used up. While the kernel puts a scheduler in force it lets everybody run, a tick of 4 ms each.
    let used = limit["used_ms"].as_f64().unwrap();
    assert!(used < 15.0, "an exchange gave {used} ms of a new quota");
    let used = later["used_ms"].as_f64().unwrap();
    assert!((45.0..115.0).contains(&used), "{used} ms in two periods");
}
