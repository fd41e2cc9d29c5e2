// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl man`: the manual pages, from the same source as the help.

use crate::cli::Cli;
use crate::failure::Failure;
use crate::out;
use clap::CommandFactory;
use std::path::PathBuf;

/// Print the manual page, or write all of them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory to write one page for each command to, instead of printing the main one
    directory: Option<PathBuf>,
}

pub fn main(args: Args) -> Result<(), Failure> {
    let write = |err| Failure::refused(format!("cannot write the manual pages: {err}"), "");
    match args.directory {
        Some(directory) => {
            std::fs::create_dir_all(&directory).map_err(write)?;
            clap_mangen::generate_to(Cli::command(), directory).map_err(write)
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(write)?;
            out::print(String::from_utf8_lossy(&page).trim_end())
        }
    }
}
