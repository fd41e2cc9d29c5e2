// SPDX-License-Identifier: GPL-2.0-only
//! What tickets are tickets for, and what kinds of them there are.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    Cpu,
    Disk,
    Memory,
    Net,
}

impl Resource {
    pub const COUNT: usize = 4;
    /// In the order in which they are shown.
    pub const ALL: [Resource; Resource::COUNT] = [
        Resource::Cpu,
        Resource::Disk,
        Resource::Memory,
        Resource::Net,
    ];

    pub fn index(self) -> usize {
        self as usize
    }

    pub fn name(self) -> &'static str {
        ["cpu", "disk", "memory", "net"][self.index()]
    }

    /// Something gives each what its tickets say.
    pub fn is_enforced(self) -> bool {
        self != Resource::Net
    }
}

/// A soft ticket is a weight among its issuer's active tickets; a hard one a part of its issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Soft,
    Hard,
}
