// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl create`

use crate::failure::Failure;
use crate::step::Step;
use crate::users;
use tix_api::{Tix, units};

/// Create a currency
///
/// It is worth nothing until it is funded (`tixctl fund`) or something is reserved for it (`tixctl
/// reserve`).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its name: a lower-case letter, then up to 62 lower-case letters, digits, `_` and `-`. What a
    /// user creates is called USER/NAME, and that user can leave USER/ out; what root creates is
    /// called NAME
    name: String,
    /// Whose it is, by name or by number; only root creates for somebody else [default: you]
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// Its group, by name or by number [default: yours]
    #[arg(long)]
    group: Option<String>,
    /// Who may do what with it, as `tixctl chmod` has it [default: fci------, everything for its
    /// owner alone]
    #[arg(long, value_parser = new_mode, allow_hyphen_values = true)]
    mode: Option<u32>,
    #[command(flatten)]
    step: Step,
}

/// What a symbolic mode changes: everything for the owner, nothing for others.
const DEFAULT_MODE: u16 = 0o700;

fn new_mode(text: &str) -> Result<u32, String> {
    let mode = units::mode::apply(DEFAULT_MODE, text).map_err(|e| e.to_string())?;
    Ok(mode.into())
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let owner = args.owner.as_deref().map(users::uid).transpose()?;
    let group = args.group.as_deref().map(users::gid).transpose()?;
    let mut client = args.step.connect().await?;
    let made = client
        .call(|tixd| tixd.create(&args.name, owner, group, args.mode))
        .await?;
    let full = made.name.unwrap_or(args.name);
    args.step
        .done(
            &mut client,
            &format!("{full} is created; nothing funds it yet."),
        )
        .await
}
