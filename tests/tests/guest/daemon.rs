// SPDX-License-Identifier: GPL-2.0-only
//! tixd and tixctl as people meet them: a service under systemd, or a daemon on a machine without it; used by root and by people
//! who are not, killed, stopped, replaced, fed with noise, and on a kernel that has no scheduler for them.
//!
//! Fourteen boots. `TIX_ONLY=WORD` does only the checks with that word in their name (and the setup).

mod abuse;
mod attack;
mod churn;
mod durable;
mod faulty;
mod force;
mod held;
mod jobs;
mod layout;
mod lifeline;
pub mod limits;
mod other;
mod pages;
pub mod plain;
mod policies;
pub mod service;
mod stock;
mod story;
mod users;
mod v1;

use tix_tests::daemon::{Kind, in_guest, in_guest_with, in_restored_guest, is_guest, soak};

#[test]
#[ignore = "boots a guest"]
fn under_systemd() {
    in_restored_guest("daemon::under_systemd", Kind::Systemd, |c| {
        c.check("setup: install and start", service::start);
        c.check("status says in force", service::status_when_in_force);
        c.check("at rest it costs next to nothing", service::at_rest);
        c.check("root has a door of its own", service::door);
        c.check(
            "a system call filter that is too strict is named",
            service::filtered,
        );
        c.check(
            "the slices of users who are logged in are currencies",
            users::slices,
        );
        c.check("what an administrator needs has a share", users::lifeline);
        c.check(
            "root takes back what a busy cgroup has of base",
            lifeline::funded,
        );
        c.check("setup: 300 tickets for alice, 100 for bob", users::fund);
        c.check("entitlements are as funded", users::entitlements);
        c.check("alice runs a command with tickets", users::runs);
        c.check("a job's scope leaves nothing behind", jobs::scopes);
        c.check("alice does as she likes with her own", users::own);
        c.check("alice has no right to what is not hers", users::others);
        c.check("who is not who they seem", users::strangers);
        c.check("the cpu controller is had from systemd", users::controller);
        c.check("bad input", || abuse::all(service::SOCKET));
        c.check("SIGKILL moves no share and loses nothing", force::killed);
        c.check("SIGTERM leaves the scheduler in force", force::stopped);
        c.check("sysrq-S is told, and made good", force::ejected);
        c.check("given up on purpose is not loaded again", force::given_up);
        c.check("without sched_ext cpu.weight does it", force::fallback);
        c.check("no warning but those asked for", service::journal);
    });
}

/// Tickets at work, among people who have no privilege.
#[test]
#[ignore = "boots a guest"]
fn story() {
    in_restored_guest("daemon::story", Kind::Systemd, |c| {
        c.check("setup: install and start", service::start);
        c.check(
            "setup: 300 tickets for alice, 100 for bob, who own them",
            story::fund,
        );
        let mut tale = None;
        c.check("setup: Figure 1, users are isolated", || {
            story::figure1(&mut tale)
        });
        let Some(mut tale) = tale else {
            return;
        };
        c.check("Figure 2, a hard share", || story::figure2(&mut tale));
        c.check("a hard share that is idle is lent", || {
            story::lent(&mut tale)
        });
        c.check("Figure 4, tixctl nice", || story::figure4(&mut tale));
        c.check("two users pay for one program", || story::pool(&mut tale));
        c.check("under attack", || attack::all(&mut tale));
        c.check("after the attack", || attack::over(&mut tale));
        c.check("setup: all that ran ends", || story::end(&mut tale));
        c.check("policy: decided at login", policies::decided);
        c.check("policy: sudo gives nobody root's tickets", || {
            policies::sudo(&mut tale.alice)
        });
        c.check("policy: changed", || policies::changed(&mut tale.alice));
    });
}

/// What documents say to type.
#[test]
#[ignore = "boots a guest"]
fn documents() {
    in_restored_guest("daemon::documents", Kind::Systemd, |c| {
        c.check("setup: install and start", service::start);
        c.check("setup: what a package has", pages::prepare);
        pages::all(c);
        c.check("setup: what pages started is over", pages::over);
    });
}

/// A scheduler that another takes the place of, and one that fails.
#[test]
#[ignore = "boots a guest"]
fn faulty() {
    in_restored_guest("daemon::faulty", Kind::Systemd, |c| {
        c.check("setup: install and start", service::start);
        c.check("setup: 300 tickets for alice, 100 for bob", users::fund);
        c.check("setup: tixd loads at once", faulty::hurry);
        c.check("another version's takes its place", faulty::exchanged);
        c.check("that fails, and gives it back", faulty::went_back);
        // Each time one is loaded it is verified anew, which takes a minute.
        let why = "each load takes a minute: make soak-failures";
        let (stays, fails) = ("one that does not fail stays", "it fails again and again");
        if soak() {
            c.check(stays, faulty::proved);
        } else {
            c.skip(stays, why);
        }
        c.check("it fails once", faulty::once);
        if soak() {
            c.check(fails, faulty::again_and_again);
        } else {
            c.skip(fails, why);
        }
    });
}

/// On a clock of 2 ns an instruction: a machine slower than any that is in use, but one where a login takes a fraction of a second.
#[test]
#[ignore = "boots a guest, for `make soak`"]
fn soak_of_the_lifeline() {
    heard("daemon::soak_of_the_lifeline", 1);
}

/// And on one with two, which under emulation take turns: each has half of the time that the clock shows.
#[test]
#[ignore = "boots a guest, for `make soak`"]
fn soak_of_the_lifeline_on_two_cpus() {
    heard("daemon::soak_of_the_lifeline_on_two_cpus", 2);
}

fn heard(test: &str, cpus: usize) {
    let count = cpus.to_string();
    let options = [
        "--icount",
        "1",
        "--cpus",
        &count,
        "--audit",
        "--timeout",
        "2400",
    ];
    in_guest_with(test, Kind::Systemd, &options, |c| {
        c.check("setup: install and start", service::start);
        c.check("setup: 300 tickets for alice, 100 for bob", users::fund);
        c.check("an administrator is heard", || lifeline::all(cpus));
    });
}

#[test]
#[ignore = "boots a guest"]
fn another_layout() {
    in_restored_guest("daemon::another_layout", Kind::Plain, layout::all);
}

#[test]
#[ignore = "boots a guest"]
fn without_sched_ext() {
    let kernel = std::env::var("KERNEL").unwrap_or(stock::KERNEL.into());
    let options = ["--icount", "3", "--kernel", &kernel];
    in_guest_with("daemon::without_sched_ext", Kind::Systemd, &options, |c| {
        c.check("setup: install and start", stock::start);
        c.check("setup: 300 tickets for alice, 100 for bob", users::fund);
        c.check("it is said what holds and what does not", stock::said);
        c.check("shares by cpu.weight", stock::by_weight);
        c.check("a limit does not hold, and it is said", stock::limited);
        c.check("memory and disk", stock::memory_and_disk);
        c.check("the ledger", stock::ledger);
        c.check("an exchange", stock::exchanged);
        c.check("one that hangs is replaced", stock::hung);
        c.check("every command answers", stock::every_command);
        c.check("given back as it was", stock::given_back);
    });
}

#[test]
#[ignore = "boots a guest"]
fn what_holds() {
    in_restored_guest("daemon::what_holds", Kind::Plain, held::all);
}

#[test]
#[ignore = "boots a guest"]
fn another_scheduler() {
    if !is_guest() {
        other::build().unwrap();
    }
    in_guest("daemon::another_scheduler", Kind::Plain, other::all);
}

#[test]
#[ignore = "boots a guest"]
fn locked_down() {
    let options = ["--lockdown", "confidentiality"];
    in_guest_with("daemon::locked_down", Kind::Plain, &options, plain::locked);
}

#[test]
#[ignore = "boots a guest"]
fn partial() {
    in_guest_with("daemon::partial", Kind::Plain, &[], plain::partial);
}

#[test]
#[ignore = "boots a guest"]
fn without_cgroup_v2() {
    // Nothing is measured, so the clock may be this machine's.
    in_guest_with("daemon::without_cgroup_v2", Kind::Plain, &[], v1::all);
}

#[test]
#[ignore = "boots a guest"]
fn without_systemd() {
    in_guest("daemon::without_systemd", Kind::Plain, plain::all);
}

/// Cgroups by the thousand, on CPUs of which one is unplugged each second; `make soak` does it for longer.
#[test]
#[ignore = "boots a guest"]
fn churn() {
    let options = ["--cpus", "2", "--icount", churn::SHIFT];
    in_guest_with("daemon::churn", Kind::Plain, &options, churn::all);
}
