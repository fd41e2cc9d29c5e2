// SPDX-License-Identifier: GPL-2.0-only
//! A machine that sleeps (suspend to RAM) and wakes up: tix stays in force, and all goes on as before. Suspend to idle is not tried: nothing
//! that the emulated machine has would wake it up from that.

use std::path::Path;

use anyhow::{Context, Result};
use tix_tests::bound;
use tix_tests::daemon::programs;
use tix_tests::guest::{Guest, Reports};
use tix_tests::load::suspend::Outcome;

const LOAD: &str = env!("CARGO_BIN_EXE_tix-load");
/// Each look at shares.
const SECONDS: f64 = 4.0;
/// The least share of those without a limit.
const SMALLEST: f64 = 100.0 / 600.0;

fn sleeps_and_wakes_up(cpus: usize) -> Result<()> {
    let [tixd, tixctl] = programs()?;
    let script = format!(
        "export TIX_SOCKET=/run/tixd.sock
         {tixd} --state /var/lib/tix --socket $TIX_SOCKET &
         tries=0
         until {tixctl} status >/dev/null; do
           tries=$((tries + 1))
           [ $tries -lt 300 ]
           sleep 0.1
         done
         # The timer chip forgets its beat while the machine sleeps (tests/vm/README.md).
         beat=$(. /run/tix-vm/conf; [ -z \"$beat\" ] || echo /run/tix-vm/ports beat $beat)
         {LOAD} --require tix suspend ${{beat:+--awake \"$beat\"}} --warmup 1 --seconds {SECONDS}
         {tixctl} status
         {tixctl} create awake
         {tixctl} tree",
        tixd = tixd.display(),
        tixctl = tixctl.display(),
    );
    let guest = Guest::new().cpus(cpus).icount(3).timeout(3600);
    let guest = guest.carry([Path::new(LOAD), tixd.as_path(), tixctl.as_path()]);
    let said = guest.text(&script)?;
    let (_, after) = said.rsplit_once('}').context("no report")?;
    assert!(after.contains("awake"), "{after}");
    let reports = Reports::parse(&said)?;
    let suspend = reports.get::<Outcome>("suspend", "")?.result;
    assert_eq!(suspend.had.len(), 3, "{suspend:?}");
    assert_eq!(suspend.cpus, cpus);
    for had in &suspend.had {
        let most = match cpus {
            1 => bound::stray_ms(SMALLEST, bound::OTHERS) / (SECONDS * 1e3 * had.used * SMALLEST),
            _ => bound::of_several(SECONDS),
        };
        assert!(had.off < most, "a share is {} off: {had:?}", had.off);
        // Of a clock that goes on while no CPU does, as around a sleep, nobody has anything.
        let (least, most) = (suspend.limit * had.used - had.owes, suspend.limit);
        assert!(
            (least - suspend.near..most + suspend.near).contains(&had.limited),
            "a limit of {least} to {most} CPUs is not kept within {}: {had:?}",
            suspend.near
        );
        assert!(had.used > 0.8, "CPUs were idle: {had:?}");
    }
    assert!(
        suspend.longest_wait_ms <= bound::STARVED_MS,
        "a thread waited {} ms",
        suspend.longest_wait_ms
    );
    Ok(())
}

#[test]
#[ignore = "boots a guest"]
fn one_cpu() {
    sleeps_and_wakes_up(1).unwrap();
}

#[test]
#[ignore = "boots a guest"]
fn two_cpus() {
    sleeps_and_wakes_up(2).unwrap();
}
