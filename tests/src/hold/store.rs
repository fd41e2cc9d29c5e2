// SPDX-License-Identifier: GPL-2.0-only
//! A key-value store in a file, and a server that answers random lookups in it. Its own cache is small: what is fast is what the kernel
//! has in memory, which is charged to the server's cgroup.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("numbers");
/// Bytes of a value.
const VALUE: usize = 400;
const CACHE: usize = 256 << 10;
/// Lookups at a time.
const WORKERS: usize = 16;
const EVERY: Duration = Duration::from_millis(100);

/// Makes one of `entries` entries.
pub fn make(path: &Path, entries: u64) -> Result<()> {
    let store = Database::create(path).with_context(|| path.display().to_string())?;
    let all = store.begin_write()?;
    {
        let mut table = all.open_table(TABLE)?;
        for n in 0..entries {
            table.insert(n, &[n as u8; VALUE][..])?;
        }
    }
    all.commit()?;
    Ok(())
}

/// Looks up random entries for ever, and writes to `progress` how many.
pub fn serve(path: &Path, progress: &Path) -> Result<()> {
    let mut open = Database::builder();
    let store = open
        .set_cache_size(CACHE)
        .open(path)
        .with_context(|| path.display().to_string())?;
    let done = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    let says = File::create(progress).with_context(|| progress.display().to_string())?;
    std::thread::scope(|scope| {
        let worker = |seed: u64| -> Result<()> {
            let mut random = fastrand::Rng::with_seed(seed);
            let table = store.begin_read()?.open_table(TABLE)?;
            let entries = table.len()?;
            while !over.load(Ordering::Relaxed) {
                let key = random.u64(..entries);
                let Some(value) = table.get(key)? else {
                    bail!("{key} is not there");
                };
                if value.value() != [key as u8; VALUE] {
                    bail!("{key} is another's");
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let workers = (0..WORKERS as u64).map(|n| scope.spawn(move || worker(n)));
        let workers: Vec<_> = workers.collect();
        let told = || -> Result<()> {
            while !workers.iter().any(|w| w.is_finished()) {
                let text = format!("{:020}\n", done.load(Ordering::Relaxed));
                says.write_all_at(text.as_bytes(), 0)?;
                std::thread::sleep(EVERY);
            }
            Ok(())
        };
        let told = told();
        // Whatever has gone wrong: this waits for all of them.
        over.store(true, Ordering::Relaxed);
        for w in workers {
            w.join().ok().context("a worker panicked")??;
        }
        told
    })
}
