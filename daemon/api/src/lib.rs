// SPDX-License-Identifier: GPL-2.0-only
//! The Varlink interface `org.tix.Tix`: the only way into tixd.
//!
//! This crate holds what tixd and its clients share: the types (with their units and ranges), the typed errors, and the client's
//! proxy trait. It does no I/O of its own; connect with `zlink::tokio::unix::connect(tix_api::socket_path())` and call the methods of
//! [`Tix`] on the connection. `org.tix.Tix.varlink` beside this crate's `Cargo.toml` is the same interface in Varlink's own language;
//! `varlinkctl introspect` on the socket prints it, too.
//!
//! A *currency reference* is a string everywhere: `base`, a currency's name, a cgroup path relative to the cgroup root with a
//! leading `/` (`/user.slice/user-1000.slice`), or a systemd unit (`alice.service`).

mod error;
mod types;

pub use error::Error;
pub use types::*;

use futures_util::Stream;
use std::path::PathBuf;

/// The interface's name on the wire.
pub const INTERFACE: &str = "org.tix.Tix";
/// Where tixd listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/tix/tixd.sock";
/// The environment variable that names another socket.
pub const SOCKET_ENV: &str = "TIX_SOCKET";

/// The socket a client should use: `$TIX_SOCKET` if set and not empty, else [`DEFAULT_SOCKET`].
pub fn socket_path() -> PathBuf {
    match std::env::var_os(SOCKET_ENV) {
        Some(path) if !path.is_empty() => path.into(),
        _ => DEFAULT_SOCKET.into(),
    }
}

/// The client side. The outer result is the connection's (tixd gone, not Varlink, wrong parameters), the inner one is tixd's answer.
#[zlink::proxy("org.tix.Tix")]
pub trait Tix {
    /// Is the scheduler in force, and is everything well?
    async fn status(&mut self) -> zlink::Result<Result<StatusReply, Error>>;
    /// Every currency with its funding, entitlement, share and use.
    async fn tree(&mut self) -> zlink::Result<Result<TreeReply, Error>>;
    /// The names of all currencies, without values: cheaper than [`Tix::tree`].
    async fn list_currencies(&mut self) -> zlink::Result<Result<ListReply, Error>>;
    /// Create a named currency, owned by the caller, without funding.
    async fn create(&mut self, name: &str) -> zlink::Result<Result<CreateReply, Error>>;
    /// Destroy a named currency and every ticket it issued or holds.
    async fn destroy(&mut self, name: &str) -> zlink::Result<Result<(), Error>>;
    /// Add `amount` soft tickets (1 … 2^31) of `resource`, issued by `issuer`, to what `holder` holds of it.
    async fn fund(
        &mut self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        amount: i64,
    ) -> zlink::Result<Result<FundReply, Error>>;
    /// Withdraw `amount` of them, or all without an amount.
    async fn unfund(
        &mut self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        amount: Option<i64>,
    ) -> zlink::Result<Result<FundReply, Error>>;
    /// Make `name` fund the cgroup or unit `target` instead of what its parent's `cpu.weight` gives it.
    async fn bind(&mut self, name: &str, target: &str) -> zlink::Result<Result<BindReply, Error>>;
    /// Undo it, for `target` or, without one, for every cgroup that `name` is bound to.
    async fn unbind(
        &mut self,
        name: &str,
        target: Option<&str>,
    ) -> zlink::Result<Result<(), Error>>;
    /// How a currency's share comes about, path by path from base.
    async fn explain(&mut self, name: &str) -> zlink::Result<Result<ExplainReply, Error>>;
    /// What `tixctl run` asks once the cgroup exists and before the command runs in it: a currency named `name` (without one tixd
    /// makes up `run-N`), funded with `amount` cpu tickets (default 100) by `issuer` (default: the caller's user currency), bound to
    /// `cgroup`, whose directory the caller must own. It goes away with the cgroup.
    async fn run_begin(
        &mut self,
        name: Option<&str>,
        issuer: Option<&str>,
        amount: Option<i64>,
        cgroup: &str,
    ) -> zlink::Result<Result<RunReply, Error>>;
    /// A sample every `interval_ms` milliseconds (200 … 60,000; default 1,000), the first at once, and events as they happen.
    /// With `processes` the samples list processes, too. Endless; drop the connection to stop.
    #[zlink(more)]
    async fn watch(
        &mut self,
        processes: Option<bool>,
        interval_ms: Option<i64>,
    ) -> zlink::Result<impl Stream<Item = zlink::Result<Result<WatchReply, Error>>>>;
}
