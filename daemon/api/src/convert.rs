// SPDX-License-Identifier: GPL-2.0-only
//! The model's resources and kinds on the wire, and back.

use crate::{Kind, Resource};

impl From<tix_model::Resource> for Resource {
    fn from(r: tix_model::Resource) -> Resource {
        match r {
            tix_model::Resource::Cpu => Resource::Cpu,
            tix_model::Resource::Disk => Resource::Disk,
            tix_model::Resource::Memory => Resource::Memory,
            tix_model::Resource::Net => Resource::Net,
        }
    }
}

impl From<Resource> for tix_model::Resource {
    fn from(r: Resource) -> tix_model::Resource {
        match r {
            Resource::Cpu => tix_model::Resource::Cpu,
            Resource::Disk => tix_model::Resource::Disk,
            Resource::Memory => tix_model::Resource::Memory,
            Resource::Net => tix_model::Resource::Net,
        }
    }
}

impl From<tix_model::Kind> for Kind {
    fn from(k: tix_model::Kind) -> Kind {
        match k {
            tix_model::Kind::Soft => Kind::Soft,
            tix_model::Kind::Hard => Kind::Hard,
        }
    }
}
