// SPDX-License-Identifier: GPL-2.0-only
//! Where conversations with tixd run: on this thread, one at a time.

use crate::failure::Failure;
use std::future::Future;

/// Runs a conversation with tixd on this thread.
pub fn wait<T, E>(conversation: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    Failure: From<E>,
{
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| {
            Failure::refused(
                format!("cannot start: {err}"),
                "`ulimit -n` says how many files may be open",
            )
        })?
        .block_on(conversation)
        .map_err(Failure::from)
}
