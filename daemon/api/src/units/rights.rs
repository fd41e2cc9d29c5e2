// SPDX-License-Identifier: GPL-2.0-only
//! Rights that are traded, with the resources of the wire.

use super::BadAmount;
use crate::Resource;
use tix_model::units::rights;

pub use rights::{Amount, milli, number};

/// `100`, `12.5`, `25%`; of memory also `256M`.
pub fn parse(text: &str, resource: Resource) -> Result<Amount, BadAmount> {
    rights::parse(text, resource.into())
}

/// `cpu:100`: a resource, and how much of it.
pub fn resource_and_amount(text: &str) -> Result<(Resource, Amount), BadAmount> {
    rights::resource_and_amount(text).map(|(resource, amount)| (resource.into(), amount))
}

/// `12.5 cpu tickets`, `256M of memory`.
pub fn show(resource: Resource, milli: u64) -> String {
    rights::show(resource.into(), milli)
}
