// SPDX-License-Identifier: GPL-2.0-only
//! Disk and memory by tickets, on a disk of limited speed and with little memory, by the real daemon.
//!
//! Not on a clock that counts instructions: the disk keeps this machine's time. It is slow, so that an emulated CPU can keep it busy. `TIX_ONLY=WORD` does only the checks with that word in their name
//! (and the setup).

mod disk;
mod fails;
mod memory;
mod together;
pub mod units;

use tix_tests::daemon::{Kind, in_guest_with};

#[test]
#[ignore = "boots a guest"]
fn disk() {
    let options = ["--disk", "1G,iops=100"];
    in_guest_with("resources::disk", Kind::Plain, &options, disk::files);
}

/// Takes minutes of real time, and wants this machine to itself: a reader that is kept from the CPU cannot use its share of a disk.
#[test]
#[ignore = "boots a guest"]
fn shares_of_a_disk() {
    let options = ["--disk", "1G,iops=100", "--disk", "1G", "--disk", "1G"];
    in_guest_with(
        "resources::shares_of_a_disk",
        Kind::Plain,
        &options,
        disk::shares,
    );
}

#[test]
#[ignore = "boots a guest"]
fn memory() {
    let options = ["--disk", "2G"];
    in_guest_with("resources::memory", Kind::Plain, &options, memory::all);
}

#[test]
#[ignore = "boots a guest"]
fn files_that_fail() {
    in_guest_with("resources::files_that_fail", Kind::Plain, &[], fails::all);
}

#[test]
#[ignore = "boots a guest"]
fn beside_systemd() {
    in_guest_with("resources::beside_systemd", Kind::Systemd, &[], units::all);
}
