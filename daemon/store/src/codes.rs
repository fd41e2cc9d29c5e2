// SPDX-License-Identifier: GPL-2.0-only
//! The numbers that stand for kinds and resources in the tables, for good.

use tix_model::{Kind, Resource, Withdrawn};

pub(super) fn number_of(kind: Kind) -> i64 {
    match kind {
        Kind::Soft => 0,
        Kind::Hard => 1,
    }
}

pub(super) fn kind_of(number: i64) -> Option<Kind> {
    [Kind::Soft, Kind::Hard]
        .into_iter()
        .find(|k| number_of(*k) == number)
}

pub(super) fn number_of_withdrawn(w: Withdrawn) -> i64 {
    match w {
        Withdrawn::Nothing => 0,
        Withdrawn::Cpu => 1,
        Withdrawn::Both => 2,
    }
}

pub(super) fn withdrawn_of(number: i64) -> Option<Withdrawn> {
    [Withdrawn::Nothing, Withdrawn::Cpu, Withdrawn::Both]
        .into_iter()
        .find(|w| number_of_withdrawn(*w) == number)
}

pub(super) fn resource_of(number: i64) -> Option<Resource> {
    Resource::ALL.get(usize::try_from(number).ok()?).copied()
}

pub(super) fn index(r: Resource) -> i64 {
    Resource::ALL
        .iter()
        .position(|known| *known == r)
        .and_then(|i| i64::try_from(i).ok())
        .unwrap_or_default()
}
