// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl export`

use crate::failure::Failure;
use crate::out;
use futures_util::StreamExt;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tix_api::{ExportReply, Tix};
use tix_client::{Client, Error};
use tokio::time::timeout;

/// Write out what is kept of the currencies, as JSON
///
/// That is everything that was asked for: named currencies, tickets, guarantees, bindings, owners
/// and modes. The same state gives the same text, so that it can be compared. `tixctl import` takes
/// it. Only root may, and who is in the group tix.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write it [default: to standard output]
    file: Option<PathBuf>,
}

/// How long tixd may take for a part.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn main(args: Args) -> Result<(), Failure> {
    let document = document().await?;
    let document = document.trim_end();
    match args.file {
        None => out::print(document),
        Some(file) => std::fs::write(&file, format!("{document}\n"))
            .map_err(|err| Failure::io("write", &file, &err, "nothing was changed in tixd")),
    }
}

/// All of it, so that nothing is written unless all has come.
async fn document() -> Result<String, Failure> {
    let (mut connection, socket) = Client::connect().await?.into_parts();
    let late = || Error::slow(&socket, PATIENCE);
    let parts = timeout(PATIENCE, connection.export())
        .await
        .map_err(|_| late())?
        .map_err(|err| Client::lost(&socket, &err))?;
    let mut parts = pin!(parts);
    let mut document = String::new();
    while let Some(part) = timeout(PATIENCE, parts.next()).await.map_err(|_| late())? {
        let ExportReply { chunk } = part.map_err(|err| Client::lost(&socket, &err))??;
        document += &chunk;
    }
    Ok(document)
}
