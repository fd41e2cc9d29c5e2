// SPDX-License-Identifier: GPL-2.0-only
//! The fuzz target of the policies.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    tix_fuzz::policy::run(input);
});
