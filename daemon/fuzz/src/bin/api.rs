// SPDX-License-Identifier: GPL-2.0-only
//! The fuzz target of the API.

#![no_main]

use std::sync::atomic::{AtomicUsize, Ordering};
use tix_fuzz::{api, world};

/// Messages that were sent to tixd.
static MESSAGES: AtomicUsize = AtomicUsize::new(0);

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let sent = world::with(&world::runtime(), async |world| {
        api::run(world, input).await
    });
    let all = MESSAGES.fetch_add(sent, Ordering::Relaxed) + sent;
    if all / 1_000 != (all - sent) / 1_000 {
        eprintln!("{all} messages");
    }
});
