// SPDX-License-Identifier: GPL-2.0-only
//! What tixd has touched stays in memory, and no more: who asks what goes on where memory is short
//! does not wait for the disk.
//!
//! Only where as much may be locked as there is (`LimitMEMLOCK=infinity` in tixd.service): with a
//! limit tixd would be refused memory once it was reached.
//!
//! Not what is mapped while the scheduler is being loaded. Its arena is 768 MiB of addresses of
//! which it uses one or so at first; the kernel cannot lock it, finds that out only after it has
//! reckoned what to bring in (mm/mmap.c: `populate`), and would bring in all of it.

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, getrlimit};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct State {
    stays: bool,
    loading: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    stays: false,
    loading: false,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// What the kernel refuses is a warning: tixd does all else without.
    fn apply(&mut self) {
        if !self.stays {
            return;
        }
        let mut flags = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
        flags.set(MlockAllFlags::FUTURE, !self.loading);
        if let Err(e) = mlockall(flags) {
            self.stays = false;
            tracing::warn!(
                "tixd cannot stay in memory, and answers late where memory is short: mlockall: \
                 {e}. Allow @memlock in its unit's SystemCallFilter="
            );
        }
    }
}

/// From now on.
pub fn stay() {
    let mut state = state();
    state.stays = getrlimit(Resource::Memlock).current.is_none();
    state.apply();
}

/// Loads the scheduler; no two at a time.
pub(crate) fn while_loading<T>(load: impl FnOnce() -> T) -> T {
    let set = |loading| {
        let mut state = state();
        state.loading = loading;
        state.apply();
    };
    set(true);
    let loaded = load();
    set(false);
    loaded
}
