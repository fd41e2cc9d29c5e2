// SPDX-License-Identifier: GPL-2.0-only
//! tixd and tixctl as people meet them: a service under systemd, or a daemon on a machine without it; used by root and by people
//! who are not, killed, stopped, replaced, fed with noise, and on a kernel that has no scheduler for them.
//!
//! Two boots. `TIX_ONLY=WORD` does only the checks with that word in their name (and the setup).

mod abuse;
mod force;
mod plain;
mod service;
mod users;

use tix_tests::daemon::{Kind, in_guest};

#[test]
#[ignore = "boots a guest"]
fn under_systemd() {
    in_guest("daemon::under_systemd", Kind::Systemd, |c| {
        c.check("setup: install and start", service::start);
        c.check("status says in force", service::status_when_in_force);
        c.check(
            "a system call filter that is too strict is named",
            service::filtered,
        );
        c.check(
            "the slices of users who are logged in are currencies",
            users::slices,
        );
        c.check("what an administrator needs has a share", users::lifeline);
        c.check("setup: 300 tickets for alice, 100 for bob", users::fund);
        c.check("entitlements are as funded", users::entitlements);
        c.check("alice runs a command with tickets", users::runs);
        c.check("alice does as she likes with her own", users::own);
        c.check("alice has no right to what is not hers", users::others);
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

#[test]
#[ignore = "boots a guest"]
fn without_systemd() {
    in_guest("daemon::without_systemd", Kind::Plain, plain::all);
}
