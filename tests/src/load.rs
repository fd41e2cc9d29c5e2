// SPDX-License-Identifier: GPL-2.0-only
//! The workloads. All of them work alike: a SCHED_FIFO parent makes cgroups and processes, holds
//! the processes at a gate until all stand there, opens it, lets them warm up, and measures from
//! outside while they are held off the CPU by its own priority. On the instruction-counting clock
//! one nanosecond is 2^-SHIFT instructions, so a clock reading is a cost.

pub mod aftermath;
pub mod allowed;
pub mod attacks;
pub mod away;
pub mod board;
pub mod cgroups;
pub mod churn;
pub mod compaction;
pub mod cores;
pub mod cpusets;
pub mod crew;
pub mod figures;
pub mod forks;
pub mod hackbench;
pub mod kthreads;
pub mod lacks;
pub mod latency;
pub mod limits;
pub mod maps;
pub mod migrations;
pub mod nice;
pub mod overdue;
pub mod pairs;
pub mod perf;
pub mod promises;
pub mod readers;
pub mod report;
pub mod requests;
pub mod ring;
pub mod rounds;
pub mod shares;
pub mod soak;
pub mod standstill;
pub mod starve;
pub mod stops;
pub mod suspend;
pub mod switches;
pub mod sys;
pub mod tickets;
pub mod tree;
