// SPDX-License-Identifier: GPL-2.0-only
//! The Varlink interface `org.tix.Tix`: the only way into tixd.
//!
//! This crate holds what tixd and its clients share: the types (with their units and ranges), the
//! typed errors, and the client's proxy trait. It does no I/O of its own; connect with
//! `zlink::tokio::unix::connect(tix_api::socket_path())` and call the methods of [`Tix`] on the
//! connection. `org.tix.Tix.varlink` beside this crate's `Cargo.toml` is the same interface in
//! Varlink's own language; `varlinkctl introspect` on the socket prints it, too.
//!
//! A *currency reference* is a string everywhere: `base`, a currency's name, a cgroup path relative
//! to the cgroup root with a leading `/` (`/user.slice/user-1000.slice`), or a systemd unit
//! (`alice.service`).
//!
//! Times are microseconds, fractions are of the whole machine (0 … 1), amounts are tickets unless
//! they say otherwise.

#![forbid(unsafe_code)]

mod convert;
mod currency;
mod error;
mod explain;
mod limit;
mod log;
mod market;
mod rehearse;
mod replies;
mod status;
pub mod units;
mod watch;

pub use currency::*;
pub use error::Error;
pub use explain::*;
pub use limit::*;
pub use log::*;
pub use market::*;
pub use rehearse::*;
pub use replies::*;
pub use status::*;
pub use tix_model::shell;
pub use watch::*;

use futures_util::Stream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The interface's name on the wire.
pub const INTERFACE: &str = "org.tix.Tix";
/// Where tixd listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/tix/tixd.sock";
/// The environment variable that names another socket.
pub const SOCKET_ENV: &str = "TIX_SOCKET";

/// Bytes of a document in one `ImportChunk`: however JSON escapes them, the message stays below
/// tixd's limit of 64 KiB.
pub const IMPORT_CHUNK: usize = 8 * 1024;

/// Where root finds the tixd that listens at `socket`: a door of its own, at which nobody else
/// queues. `/run/tix/tixd-root.sock` beside `/run/tix/tixd.sock`.
pub fn root_socket(socket: &Path) -> PathBuf {
    let mut name = socket.file_stem().unwrap_or_default().to_owned();
    name.push("-root.sock");
    socket.with_file_name(name)
}

/// The socket a client should use: `$TIX_SOCKET` if set and not empty, else [`DEFAULT_SOCKET`], or
/// for root, if there is one, its [`root_socket`].
pub fn socket_path() -> PathBuf {
    match std::env::var_os(SOCKET_ENV) {
        Some(path) if !path.is_empty() => return path.into(),
        _ => {}
    }
    let socket = PathBuf::from(DEFAULT_SOCKET);
    let own = root_socket(&socket);
    // /proc/self belongs to who this process runs as.
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if root && own.exists() { own } else { socket }
}

/// The client side. The outer result is the connection's (tixd gone, not Varlink, wrong
/// parameters), the inner one is tixd's answer.
#[zlink::proxy("org.tix.Tix")]
pub trait Tix {
    /// Is the scheduler in force, and is everything well?
    async fn status(&mut self) -> zlink::Result<Result<StatusReply, Error>>;
    /// Have the kernel share the disk `device` (`vda`) by weights: by iocost, with parameters
    /// measured on it, which takes ten seconds and slows it down meanwhile; or by BFQ if `bfq`.
    /// Only root may.
    async fn disk_enable(
        &mut self,
        device: &str,
        bfq: Option<bool>,
    ) -> zlink::Result<Result<DiskEnableReply, Error>>;
    /// Turn off what holds shares of the disk `device`. Only root may.
    async fn disk_disable(
        &mut self,
        device: &str,
    ) -> zlink::Result<Result<DiskDisableReply, Error>>;
    /// Every currency with its funding, entitlement, share and use.
    async fn tree(&mut self) -> zlink::Result<Result<TreeReply, Error>>;
    /// The names of all currencies, without values: cheaper than [`Tix::tree`].
    async fn list_currencies(&mut self) -> zlink::Result<Result<ListReply, Error>>;
    /// Create a named currency, without funding. What a user makes is called `USER/NAME`, and its
    /// maker may say `NAME` wherever a name is asked for; what root makes has a plain name. `owner`
    /// (a uid), `group` (a gid) and `mode` (0 … 511) are the caller's own and 0o700 (`fci------`)
    /// where they are not given; only root gives a currency to somebody else.
    async fn create(
        &mut self,
        name: &str,
        owner: Option<u32>,
        group: Option<u32>,
        mode: Option<u32>,
    ) -> zlink::Result<Result<CreateReply, Error>>;
    /// Destroy a named currency and every ticket it issued or holds. A name without `USER/` in
    /// front must mean one thing only: to a user, one of the user's own that no plain one has, too
    /// (`Ambiguous`).
    async fn destroy(&mut self, name: &str) -> zlink::Result<Result<DestroyReply, Error>>;
    /// Add `amount` soft tickets (1 … 2^31) of `resource`, issued by `issuer`, to what `holder`
    /// holds of it.
    async fn fund(
        &mut self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        amount: i64,
    ) -> zlink::Result<Result<FundReply, Error>>;
    /// Have `holder` hold `amount` of them, 1 … 2^31, however many it holds now.
    async fn set_funding(
        &mut self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        amount: i64,
    ) -> zlink::Result<Result<FundReply, Error>>;
    /// Withdraw `amount` of the soft tickets, or all without an amount.
    async fn unfund(
        &mut self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        amount: Option<i64>,
    ) -> zlink::Result<Result<FundReply, Error>>;
    /// Make the hard ticket of `resource` that `holder` holds of `issuer` one of `milli`
    /// thousandths of the issuer (1 … 999) or, of memory, of `bytes` (1 and more), whatever it was
    /// before. Exactly one of the two.
    async fn reserve(
        &mut self,
        holder: &str,
        issuer: &str,
        resource: Resource,
        milli: Option<i64>,
        bytes: Option<i64>,
    ) -> zlink::Result<Result<ReserveReply, Error>>;
    /// Take that hard ticket away.
    async fn unreserve(
        &mut self,
        holder: &str,
        issuer: &str,
        resource: Resource,
    ) -> zlink::Result<Result<UnreserveReply, Error>>;
    /// Limit what `name` and all that it funds may have of `resource` together, which must be cpu,
    /// to `milli` thousandths of one CPU (1 … 1,024,000), whatever the limit was before. It is
    /// enforced as `cpu.max` is, in periods of 100 ms (below 10 thousandths: of 1 s).
    async fn limit(
        &mut self,
        name: &str,
        resource: Resource,
        milli: i64,
    ) -> zlink::Result<Result<LimitReply, Error>>;
    /// Lift that limit.
    async fn unlimit(
        &mut self,
        name: &str,
        resource: Resource,
    ) -> zlink::Result<Result<UnlimitReply, Error>>;
    /// Change who may do what with a currency. `mode` is symbolic (`g+f`, `u=fci,go-c`; against the
    /// mode as it is), nine characters (`fci-c----`), or octal (`740`).
    async fn chmod(&mut self, name: &str, mode: &str) -> zlink::Result<Result<ChmodReply, Error>>;
    /// Change whose it is: `owner` (a uid), `group` (a gid), or both; what is not given stays.
    async fn chown(
        &mut self,
        name: &str,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> zlink::Result<Result<ChownReply, Error>>;
    /// Make `name` fund the cgroup or unit `target` instead of what its parent's `cpu.weight` gives
    /// it.
    async fn bind(&mut self, name: &str, target: &str) -> zlink::Result<Result<BindReply, Error>>;
    /// Undo it, for `target` or, without one, for every cgroup that `name` is bound to.
    async fn unbind(
        &mut self,
        name: &str,
        target: Option<&str>,
    ) -> zlink::Result<Result<UnbindReply, Error>>;
    /// How a currency's share of `resource` (default cpu) comes about, path by path from base.
    async fn explain(
        &mut self,
        name: &str,
        resource: Option<Resource>,
    ) -> zlink::Result<Result<ExplainReply, Error>>;
    /// What `tixctl run` asks once the cgroup exists and before the command runs in it: a currency
    /// named `name` (without one tixd makes up `run-N`), funded with `amount` cpu tickets (default
    /// 100) by `issuer` (default: the caller's user currency), bound to `cgroup`, whose directory
    /// the caller must own. It goes away with the cgroup.
    async fn run_begin(
        &mut self,
        name: Option<&str>,
        issuer: Option<&str>,
        amount: Option<i64>,
        cgroup: &str,
    ) -> zlink::Result<Result<RunReply, Error>>;
    /// What `tixctl nice` asks: as [`Tix::run_begin`], but the new currency holds base tickets that
    /// `giver` (default: the caller's user currency) gives up for as long as the job runs:
    /// `tickets` (1 and more), or `milli` thousandths of the giver's cpu entitlement (1 … 1,000).
    /// At most one of the two; without either, 100 thousandths.
    async fn nice_begin(
        &mut self,
        name: Option<&str>,
        giver: Option<&str>,
        tickets: Option<i64>,
        milli: Option<i64>,
        cgroup: &str,
    ) -> zlink::Result<Result<NiceReply, Error>>;
    /// Offer rights of `principal`: at most `give` for at least `want`. It is matched at once as
    /// far as the book goes, best price first, then who came first; the rest waits on the book, for
    /// `expires_sec` seconds if that is given. `give` and `want` are a resource and an amount,
    /// `cpu:100`: base tickets with up to three decimals, per cent of the machine (`cpu:25%`), or
    /// of memory a size (`memory:256M`). `minimum`: the least amount that one exchange must bring
    /// of what is wanted; `all_or_none`: all of it.
    async fn offer(
        &mut self,
        principal: &str,
        give: &str,
        want: &str,
        minimum: Option<&str>,
        all_or_none: Option<bool>,
        expires_sec: Option<i64>,
    ) -> zlink::Result<Result<OfferReply, Error>>;
    /// Other terms for an offer, which comes as if it were new but keeps its number; what is not
    /// given stays as it is left. `expires_sec` of 0: never.
    async fn amend(
        &mut self,
        id: u64,
        give: Option<&str>,
        want: Option<&str>,
        minimum: Option<&str>,
        all_or_none: Option<bool>,
        expires_sec: Option<i64>,
    ) -> zlink::Result<Result<OfferReply, Error>>;
    /// Do exactly what an offer asks, for `principal`.
    async fn accept(
        &mut self,
        id: u64,
        principal: &str,
    ) -> zlink::Result<Result<ExchangeReply, Error>>;
    /// Take an offer off the book, or revoke an exchange. Whoever may offer for a party may do
    /// that.
    async fn cancel(&mut self, id: u64) -> zlink::Result<Result<CancelReply, Error>>;
    /// The book: at most `limit` offers (1 … 1,000; default 100) with a number above `after`; with
    /// `principal` only its own.
    async fn offers(
        &mut self,
        principal: Option<&str>,
        after: Option<u64>,
        limit: Option<i64>,
    ) -> zlink::Result<Result<OffersReply, Error>>;
    /// The exchanges, in the same way.
    async fn exchanges(
        &mut self,
        principal: Option<&str>,
        after: Option<u64>,
        limit: Option<i64>,
    ) -> zlink::Result<Result<ExchangesReply, Error>>;
    /// One of them.
    async fn show_exchange(&mut self, id: u64) -> zlink::Result<Result<ExchangeReply, Error>>;
    /// What was done, oldest first, at most `limit` records (1 … 1,000; default 100). With `after`
    /// (a `seq`; 0: from the beginning) or `since_usec` (microseconds since 1970) the first ones
    /// from there on, with neither the newest ones. `subject`: only what concerns that currency;
    /// `mine`: only what concerns the caller's, as always for who is none of the readers.
    async fn log(
        &mut self,
        after: Option<i64>,
        limit: Option<i64>,
        subject: Option<&str>,
        since_usec: Option<i64>,
        mine: Option<bool>,
    ) -> zlink::Result<Result<LogReply, Error>>;
    /// Take back an operation of the caller's own, by its inverse: the one that the log has under
    /// that number, or the newest that was not taken back yet. Refused, with its number, where a
    /// later one would be taken back with it.
    async fn undo(&mut self, seq: Option<i64>) -> zlink::Result<Result<UndoReply, Error>>;
    /// The next change that is asked for on this connection is tried, and not done: it is answered
    /// or refused as it would be, and [`Tix::rehearsed`] says what would have come of it.
    async fn rehearse(&mut self) -> zlink::Result<Result<(), Error>>;
    /// What would have come of it.
    async fn rehearsed(&mut self) -> zlink::Result<Result<RehearsedReply, Error>>;
    /// The durable part of the ledger as one JSON text, part by part; the same ledger gives the
    /// same text. Only the readers' (root, and the group that `tixd --readers` names).
    #[zlink(more)]
    async fn export(
        &mut self,
    ) -> zlink::Result<impl Stream<Item = zlink::Result<Result<ExportReply, Error>>>>;
    /// Begin to hand in such a text, on this connection. Only root's, as the next two.
    async fn import_begin(&mut self) -> zlink::Result<Result<ImportBeginReply, Error>>;
    /// Hand in its next part; a message is at most 64 KiB, so take parts of at most
    /// [`IMPORT_CHUNK`] bytes.
    async fn import_chunk(&mut self, id: u64, chunk: &str) -> zlink::Result<Result<(), Error>>;
    /// It was the last: make the ledger what the text says, all or nothing, or with `dry_run` only
    /// say what that would change.
    async fn import_end(
        &mut self,
        id: u64,
        dry_run: bool,
    ) -> zlink::Result<Result<ImportReply, Error>>;
    /// A sample every `interval_ms` milliseconds (200 … 60,000; default 1,000), the first at once,
    /// and events as they happen. With `processes` the samples list processes, too: all to the
    /// readers, to others their own. Endless; drop the connection to stop.
    #[zlink(more)]
    async fn watch(
        &mut self,
        processes: Option<bool>,
        interval_ms: Option<i64>,
    ) -> zlink::Result<impl Stream<Item = zlink::Result<Result<WatchReply, Error>>>>;
}
