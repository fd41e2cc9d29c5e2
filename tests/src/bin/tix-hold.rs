// SPDX-License-Identifier: GPL-2.0-only
//! Does one of the experiments with the disk, memory or exchanges in the guest that it runs in, and says what it saw: one line of JSON.

use std::time::Duration;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use serde_json::json;
use tix_tests::hold::{disk, exchange, memory, stores};

#[derive(Parser)]
struct Args {
    what: What,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Disk,
    Memory,
    Exchange,
    Stores,
}

fn main() -> Result<()> {
    let long = Duration::from_secs(20);
    let amounts: Vec<u64> = (1..=8).map(|n| 100 * n).collect();
    let (name, result) = match Args::parse().what {
        What::Disk => ("disk", json!(disk::measure()?)),
        What::Memory => ("memory", json!(memory::measure()?)),
        What::Exchange => ("exchange", json!(exchange::measure(&amounts, long)?)),
        What::Stores => {
            let settle = Duration::from_secs(60);
            ("stores", json!(stores::measure(settle, long)?))
        }
    };
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!(
        "{}",
        json!({"experiment": name, "label": "tix", "kernel": kernel.trim(), "result": result})
    );
    Ok(())
}
