// SPDX-License-Identifier: GPL-2.0-only
//! tixd: see `tixd --help`.

#![forbid(unsafe_code)]

use anyhow::Context;
use clap::Parser;
use std::io::IsTerminal;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tix_cgroupfs as cgroups;
use tix_cgroupfs::Follower;
use tix_store as store;
use tix_systemd::{Properties, PropertySync};
use tixd::directory::Directory;
use tixd::parts::Parts;
use tixd::policy::{self, Policy, Subject};
use tixd::reconcile::compaction::{Compaction, Found};
use tixd::reconcile::cpu;
use tixd::reconcile::disk::Disk;
use tixd::reconcile::provenance::give_back as give_back_marks;
use tixd::repeats::Journal;
use tixd::writer::{Core, Failure, Handle};
use tixd::{govern, lifeline, resident, server};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Shares a machine by tickets: loads tix's scheduler, keeps the ledger of who may use how much,
/// and serves tixctl.
#[derive(Parser)]
#[command(
    version,
    after_help = "Signals: SIGHUP reads the policies again; SIGTERM and SIGINT end it, and what is \
                  in force stays so.\n\n\
                  Files: /etc/tix/policies.d/*.toml, the policies; /var/lib/tix, the ledger; \
                  /run/tix/tixd.sock and tixd-root.sock, where it is asked by everybody and by \
                  root; /sys/fs/bpf/tix, the scheduler that is in force.\n\n\
                  Environment: RUST_LOG, what it logs (info)."
)]
struct Args {
    /// Where the ledger is kept
    #[arg(long, default_value = "/var/lib/tix")]
    state: PathBuf,
    /// Where clients connect
    #[arg(long, env = "TIX_SOCKET", default_value = tix_api::DEFAULT_SOCKET)]
    socket: PathBuf,
    /// The root of the cgroup v2 tree
    #[arg(long, default_value = "/sys/fs/cgroup", hide = true)]
    cgroup_root: PathBuf,
    /// Where the scheduler is pinned
    #[arg(long, default_value = "/sys/fs/bpf/tix", hide = true)]
    pin: PathBuf,
    /// Give the machine back to the kernel's own scheduler, and end. A tixd that is running is to
    /// be stopped first
    #[arg(long)]
    stop_scheduler: bool,
    /// Give the machine back as it was, and end: the kernel's own scheduler, and what tixd wrote to
    /// cgroups' files (cpu.weight, io.weight, io.bfq.weight, memory.min, memory.low) and, with
    /// --compact-on-demand, to vm.compaction_proactiveness. The ledger stays. A tixd that is
    /// running is to be stopped first
    #[arg(long)]
    give_back: bool,
    /// Make the scheduler that is in force fail
    #[arg(long, hide = true)]
    debug_fail: bool,
    /// Say that this tixd's scheduler is of another build
    #[arg(long, value_name = "BUILD", default_value = tix_bpf::BUILD, hide = true)]
    debug_build: String,
    /// Who gets which currency: `*.toml` in this directory. SIGHUP has it read again
    #[arg(long, value_name = "DIR", default_value = "/etc/tix/policies.d")]
    policies: PathBuf,
    /// Say what the policy in this directory decides for the users and units that are there now,
    /// and end. Changes nothing
    #[arg(long, value_name = "DIR")]
    check_policies: Option<PathBuf>,
    /// Who is in this group may read what else only root may: everybody's part of the log,
    /// everybody's processes, and the ledger as a document. If there is no such group, only root
    /// may
    #[arg(long, value_name = "GROUP", default_value = "tix")]
    readers: String,
    /// Serve the ledger, but change nothing in the kernel: no scheduler, no weights, no controllers
    #[arg(long)]
    observe: bool,
    /// Schedule only threads that ask for it (SCHED_EXT). The kernel's own scheduler has the
    /// others, and they come first
    #[arg(long)]
    partial: bool,
    /// Have the kernel compact memory on demand alone: sets vm.compaction_proactiveness to 0 where
    /// it is the kernel's default. Helps logins under memory pressure; huge pages are had more
    /// slowly. A tixd without this option sets it back
    #[arg(long)]
    compact_on_demand: bool,
    /// Stay in the foreground (it always does)
    #[arg(long)]
    foreground: bool,
}

fn main() -> anyhow::Result<()> {
    let args: Args = tix_pages::parse("8");
    log();
    if args.stop_scheduler {
        return stop_scheduler(&args.pin);
    }
    if args.debug_fail {
        let scheduler = tix_bpf::Scheduler::adopt(&args.pin)?.context("no scheduler in force")?;
        return scheduler.fail().context("cannot make it fail");
    }
    if let Some(dir) = &args.check_policies {
        return check_policies(dir, &args.cgroup_root);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    if args.give_back {
        // The one does not wait for the other.
        let stopped = stop_scheduler(&args.pin);
        let compacts = compact_again(&args.state);
        return runtime
            .block_on(give_back(&args))
            .and(compacts)
            .and(stopped);
    }
    let directory = Directory::default();
    let readers = runtime.block_on(readers(&directory, &args.readers));
    // A look-up that hangs is not waited for: what is to be kept is.
    tokio::task::LocalSet::new().block_on(&runtime, serve(args, directory, readers))
}

fn stop_scheduler(pin: &Path) -> anyhow::Result<()> {
    let stopped = cpu::stop(pin).context("cannot stop the scheduler")?;
    println!(
        "{}",
        if stopped {
            "the kernel's own scheduler is in force again"
        } else {
            "tix's scheduler was not in force"
        }
    );
    Ok(())
}

fn compaction(state: &Path) -> Compaction {
    Compaction::new(Path::new("/"), state)
}

/// Memory is compacted ahead of need again, where it was.
fn compact_again(state: &Path) -> anyhow::Result<()> {
    let given_back = compaction(state).give_back();
    if let Some(was) = given_back.context(
        "cannot give vm.compaction_proactiveness back; `sysctl vm.compaction_proactiveness=20` \
         sets it to the kernel's default",
    )? {
        println!("vm.compaction_proactiveness is {was} again");
    }
    Ok(())
}

/// What a tixd that was asked to has set, or one of a version that was not, is set back.
fn compact_ahead(state: &Path) {
    match compaction(state).give_back() {
        Ok(Some(was)) => tracing::info!(
            "vm.compaction_proactiveness is {was} again: an earlier tixd had set it to 0, and this \
             one runs without --compact-on-demand"
        ),
        Ok(None) => {}
        Err(e) => tracing::warn!(
            "vm.compaction_proactiveness, which an earlier tixd has set to 0, cannot be set back: \
             {e}; `sysctl vm.compaction_proactiveness=20` sets it to the kernel's default"
        ),
    }
}

/// Nobody is to wait for pages that the kernel moves about ahead of need.
fn compact_on_demand(state: &Path) {
    match compaction(state).switch_off() {
        Ok(Found::Default) => tracing::info!(
            "vm.compaction_proactiveness is 0 now, the kernel's default before: who touches a page \
             that is being moved would wait"
        ),
        Ok(Found::Settled(_) | Found::Nothing) => {}
        // In a container it is the host's.
        Err(e) => tracing::info!(
            "vm.compaction_proactiveness stays as it is: {e}; `sysctl \
             vm.compaction_proactiveness=0` on the host does what tixd cannot"
        ),
    }
}

/// What tixd wrote to cgroups' files.
async fn give_back(args: &Args) -> anyhow::Result<()> {
    if !args.state.is_dir() {
        return Ok(());
    }
    let root = cgroups::Root::open(&args.cgroup_root).context("cannot open the cgroup tree")?;
    let (mut store, _) = store::Store::open(&args.state).context("cannot open the ledger")?;
    let mut disk = Disk::new(Path::new("/sys"));
    disk.look(&root);
    let systemd = tix_systemd::is_running().then(PropertySync::default);
    let done = give_back_marks(&root, &mut store, &disk, systemd.as_ref())
        .context("cannot read what tixd has written")?;
    if let Some(systemd) = systemd {
        systemd.finish().await;
    }
    println!(
        "{} of cgroups' files say again what they said without tixd",
        done.files
    );
    match done.trouble.as_slice() {
        [] => Ok(()),
        all => anyhow::bail!("not given back: {}", all.join("; ")),
    }
}

/// To the journal under systemd, to stderr otherwise; `RUST_LOG` chooses what.
fn log() {
    use tracing_subscriber::prelude::*;
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| "info,zlink_core=error".into());
    let registry = tracing_subscriber::registry().with(filter).with(Journal);
    match tracing_journald::layer() {
        Ok(journal) if std::env::var_os("JOURNAL_STREAM").is_some() => {
            registry.with(journal).init()
        }
        _ => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_writer(std::io::stderr)
                    .with_ansi(std::io::stderr().is_terminal()),
            )
            .init(),
    }
}

/// What would be decided for whom.
fn check_policies(dir: &Path, cgroup_root: &Path) -> anyhow::Result<()> {
    let policy = match Policy::load(dir) {
        Ok(policy) => policy,
        Err(problems) => {
            for p in &problems {
                eprintln!("{p}");
            }
            anyhow::bail!("{} mistakes in {}", problems.len(), dir.display());
        }
    };
    let root = cgroups::Root::open(cgroup_root).context("cannot open the cgroup tree")?;
    let mut found: Vec<(String, u32, u32)> = Vec::new();
    let mut todo = vec!["/".to_owned()];
    while let Some(path) = todo.pop() {
        // What goes meanwhile need not be decided.
        let Ok(cgroup) = root.cgroup(&path) else {
            continue;
        };
        let children = std::fs::read_dir(cgroup_root.join(&path[1..])).into_iter();
        let dirs = (children.flatten().flatten())
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|e| e.file_name().into_string().ok());
        todo.extend(dirs.map(|name| format!("{}/{name}", path.trim_end_matches('/'))));
        if policy.may_concern(&path) {
            found.push((path, cgroup.owner, cgroup.group));
        }
    }
    found.sort();
    let subjects: Vec<Subject<'_>> = found
        .iter()
        .map(|(path, owner, group)| {
            let user = policy::user_of_slice(path).map(policy::users::lookup);
            Ok(Subject {
                path,
                owner: *owner,
                group: *group,
                user: user
                    .transpose()
                    .with_context(|| format!("who owns {path}?"))?,
            })
        })
        .collect::<anyhow::Result<_>>()?;
    print!("{}", policy::report(&policy, &subjects));
    Ok(())
}

/// The number of the group that may read everything.
async fn readers(directory: &Directory, group: &str) -> Option<u32> {
    match directory.gid(group).await {
        Ok(Some(gid)) => return Some(gid),
        Ok(None) => tracing::info!("there is no group {group:?}: only root may read everything"),
        Err(e) => tracing::warn!(
            "looking up the group {group:?}: {e}; until tixd is restarted only root may read \
             everything"
        ),
    }
    None
}

async fn serve(args: Args, directory: Directory, readers: Option<u32>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let doors = server::Doors::open(&args.socket)
        .with_context(|| format!("cannot listen on {}", args.socket.display()))?;
    let (tree, no_cgroups) = tree(&args)?;
    let root = cgroups::Root::open_any(&tree).context("cannot open the cgroup tree")?;
    // Without this nothing could be mirrored: better not to start than to hold no shares silently.
    root.cgroup("/").context("cannot read the cgroup tree")?;
    let observe = args.observe || no_cgroups.is_some();
    if !observe && !tix_systemd::is_running() {
        enable_cpu(&root);
    }
    let mut again = signal(SignalKind::hangup())?;
    let kept = store::Store::open(&args.state).context("cannot open the ledger")?;
    let (tx, mut changes) = tokio::sync::mpsc::channel(tixd::writer::TREE_QUEUE);
    let followed = cgroups::Root::open_any(&tree).context("cannot open the cgroup tree")?;
    let follower = Follower::new(followed, move |change| tx.blocking_send(change).is_ok())
        .context("cannot follow the cgroup tree")?;
    let mut parts = Parts::default();
    parts
        .thread("the follower of cgroups", "cgroups", || follower.run())
        .context("cannot follow the cgroup tree")?;

    let cpu = if let Some(why) = no_cgroups {
        cpu::Cpu::without_cgroups(&why)
    } else if args.observe {
        cpu::Cpu::observer()
    } else {
        let options = tix_bpf::Options {
            // Another mode is another build: it takes the place of what is in force.
            build: match args.partial {
                true => format!("{}-partial", args.debug_build),
                false => args.debug_build,
            },
            partial: args.partial,
            ..tix_bpf::Options::default()
        };
        cpu::Cpu::new(args.pin.clone(), options)
    };
    let by_systemd = !observe && tix_systemd::is_running();
    let systemd = by_systemd.then(PropertySync::default);
    let mut core = match Core::start(root, kept, cpu, systemd.clone(), &mut changes).await {
        // It waits for the follower alone.
        Err(Failure::Ending) => return Err(parts.ended().await.into()),
        core => core.context("cannot start from the ledger")?,
    };
    core.move_into_spaces(&directory).await;
    if !observe {
        // Before anybody else is served.
        lifeline::create(&mut core).context("cannot create the lifeline")?;
    }
    let (handle, jobs) = core.handle();
    let api = server::serve(doors, handle.clone(), readers, directory.clone());
    parts.task("the API server", api);
    if by_systemd {
        let lifeline = lifeline::keep(handle.clone());
        parts.task("the lifeline", returned(lifeline));
    }
    match args.compact_on_demand {
        _ if observe => {}
        true => compact_on_demand(&args.state),
        false => compact_ahead(&args.state),
    }
    if let Some(systemd) = systemd.clone() {
        let handle = handle.clone();
        let done = async move |path, told: Properties, trouble| {
            // tixd may be ending.
            let _ = handle
                .call(move |core| core.settled_with_systemd(path, &told, trouble))
                .await;
        };
        let systemd = async move { systemd.serve(done).await };
        parts.task("what tells systemd", returned(systemd));
    }
    let reread = Arc::new(Notify::new());
    let policies = govern::keep(
        handle.clone(),
        directory,
        args.policies,
        Arc::clone(&reread),
    );
    parts.task("the keeper of policies", returned(policies));
    parts.task("the listener for SIGHUP", async move {
        while again.recv().await.is_some() {
            reread.notify_one();
        }
        "no signals are told of".to_owned()
    });
    let mut usec = 0;
    if sd_notify::watchdog_enabled(false, &mut usec) {
        let watchdog = watchdog(handle, Duration::from_micros(usec / 2));
        parts.task("the answerer of systemd's watchdog", returned(watchdog));
    }
    resident::stay();
    let status = core.cpu.line();
    notify(&[
        sd_notify::NotifyState::Ready,
        sd_notify::NotifyState::Status(&status),
    ]);
    tracing::info!("serving on {}: {status}", args.socket.display());

    let mut ended = None;
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            part = parts.ended() => ended = Some(part),
        }
        notify(&[sd_notify::NotifyState::Stopping]);
    };
    core.run(jobs, changes, stop).await;
    drop(parts);
    if let Some(systemd) = systemd {
        systemd.finish().await;
    }
    if let Some(part) = ended {
        return Err(part.into());
    }
    tracing::info!("ended; what was in force stays so");
    Ok(())
}

/// Of a part that says nothing of it.
async fn returned(run: impl Future<Output = ()>) -> String {
    run.await;
    "it returned".to_owned()
}

/// The cgroup tree. Where cgroup v2 is not what the machine uses, an empty one in its place, and
/// why: the ledger is whole without.
fn tree(args: &Args) -> anyhow::Result<(PathBuf, Option<String>)> {
    let why = match cgroups::Root::open(&args.cgroup_root) {
        Ok(_) => return Ok((args.cgroup_root.clone(), None)),
        Err(e @ cgroups::Error::NotCgroup2 { .. }) => e.to_string(),
        Err(e) if e.is_gone() => e.to_string(),
        Err(e) => return Err(e).context("cannot open the cgroup tree"),
    };
    let empty = args.state.join("no-cgroups");
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&empty)
        .with_context(|| format!("cannot make {}", empty.display()))?;
    tracing::error!("{why}: nothing is enforced, the ledger alone is served");
    Ok((empty, Some(why)))
}

fn enable_cpu(root: &cgroups::Root) {
    let done = root.cgroup("/").and_then(|top| {
        if top.gives_cpu()? {
            Ok(())
        } else {
            top.write("cgroup.subtree_control", "+cpu")
        }
    });
    if let Err(e) = done {
        tracing::error!("cannot enable the cpu controller: {e}");
    }
}

fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(false, state) {
        tracing::debug!("telling systemd: {e}");
    }
}

/// Tells systemd that the writer is alive, once in `each`.
async fn watchdog(handle: Handle, each: Duration) {
    let mut clock = tokio::time::interval(each);
    loop {
        clock.tick().await;
        if handle.call(|_| ()).await.is_ok() {
            notify(&[sd_notify::NotifyState::Watchdog]);
        }
    }
}
