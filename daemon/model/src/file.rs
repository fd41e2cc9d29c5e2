// SPDX-License-Identifier: GPL-2.0-only
//! Files of cgroups with one number that tixd writes, and what is remembered of each write: its
//! provenance.

/// A file of cgroups with one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    CpuWeight,
    /// Where BFQ holds the disk's shares `io.bfq.weight`, too.
    IoWeight,
    MemoryMin,
    MemoryLow,
}

impl File {
    pub const ALL: [File; 4] = [
        File::CpuWeight,
        File::IoWeight,
        File::MemoryMin,
        File::MemoryLow,
    ];

    pub fn name(self) -> &'static str {
        match self {
            File::CpuWeight => "cpu.weight",
            File::IoWeight => "io.weight",
            File::MemoryMin => "memory.min",
            File::MemoryLow => "memory.low",
        }
    }

    /// What systemd calls it. Of `cpu.weight` it is told nothing: that is written only until tix's
    /// scheduler is in force again.
    pub fn property(self) -> Option<&'static str> {
        match self {
            File::CpuWeight => None,
            File::IoWeight => Some("IOWeight"),
            File::MemoryMin => Some("MemoryMin"),
            File::MemoryLow => Some("MemoryLow"),
        }
    }
}

/// A number that tixd wrote, or is about to write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    pub number: u64,
    /// What stands there when it is tixd's business no more: of a weight, the cgroup's funding; of
    /// a guarantee, what stood there before.
    pub funding: u64,
    /// The number of tixd's that this one takes the place of, as long as it may stand there yet.
    pub before: Option<u64>,
}

/// By file and the cgroup's path.
pub type Mark = (File, String);

/// Numbers that systemd was told and may set, the last one told last.
pub type Numbers = Vec<u64>;
