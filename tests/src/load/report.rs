// SPDX-License-Identifier: GPL-2.0-only
//! What an experiment hands over: one line of JSON for programs, a table for people.

use serde::{Deserialize, Serialize};

use crate::force::Force;

/// One experiment's result with what it was measured on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report<T> {
    /// The subcommand.
    pub experiment: String,
    /// Chosen by the caller, to tell runs of one experiment apart.
    pub label: String,
    /// The scheduler's name; `kernel` for the kernel's own.
    pub scheduler: String,
    pub kernel: String,
    pub cpus: usize,
    /// One instruction is 2^shift ns of the guest's clock; absent without instruction counting.
    pub shift: Option<u32>,
    pub before: Force,
    pub after: Force,
    pub result: T,
}

/// A result that can be read.
pub trait Table {
    fn table(&self) -> String;
}

/// Columns of right-aligned cells, the first left-aligned.
pub fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().filter_map(|r| r.get(i)).map(String::len);
        cells.chain([head[i].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: Vec<&str>| {
        for (i, cell) in cells.iter().enumerate() {
            if i == 0 {
                out.push_str(&format!("{cell:<w$}", w = widths[i]));
            } else {
                out.push_str(&format!("  {cell:>w$}", w = widths[i]));
            }
        }
        out.push('\n');
    };
    line(head.to_vec());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
    out
}

/// A fraction as a percentage.
pub fn percent(f: f64) -> String {
    format!("{:.3} %", f * 100.0)
}
