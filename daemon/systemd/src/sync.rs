// SPDX-License-Identifier: GPL-2.0-only
//! Tells systemd what tixd has set for cgroups that systemd owns. What is in force does not wait
//! for it: the file has been written. But `systemctl show` says it then, and systemd keeps it when
//! it reads its units again or makes the cgroup anew.

use crate::bus::{Bus, unit_at};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Between two times that systemd is told.
const PAUSE: Duration = Duration::from_secs(3);
/// When it would not have something, the pauses grow up to this.
const LONGEST: Duration = Duration::from_secs(60);
/// For so long one answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// For so long tixd's end waits for what systemd is to be told yet.
const LAST: Duration = Duration::from_secs(3);

/// Numbers by the names that systemd has for them.
pub type Properties = BTreeMap<&'static str, u64>;

/// What systemd is to be told: the last word on each property, by cgroup.
#[derive(Debug, Default)]
struct Wanted {
    all: Mutex<BTreeMap<String, Properties>>,
    more: Notify,
}

impl Wanted {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Properties>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was not told is told later, where there is no newer word on it.
    fn put_back(&self, path: String, properties: Properties) {
        let mut all = self.lock();
        let its = all.entry(path).or_default();
        for (name, number) in properties {
            its.entry(name).or_insert(number);
        }
    }
}

/// How the writer reaches it.
#[derive(Debug, Clone, Default)]
pub struct PropertySync(Arc<Wanted>);

impl PropertySync {
    /// Is systemd told of the cgroup `path`? It is if a unit may be what makes it.
    pub fn may_tell(&self, path: &str) -> bool {
        unit_at(path).is_some()
    }

    /// The cgroup `path` has that number now, and systemd is going to be told.
    pub fn set(&self, path: &str, property: &'static str, number: u64) {
        if !self.may_tell(path) {
            return;
        }
        let mut all = self.0.lock();
        let its = all.entry(path.to_owned()).or_default();
        its.insert(property, number);
        self.0.more.notify_one();
    }

    /// Tells systemd, for ever; `done` gets the cgroup, what was told of it, and what went wrong.
    pub async fn serve(&self, done: impl AsyncFn(String, Properties, Option<String>)) {
        let (mut bus, mut pause) = (None, PAUSE);
        loop {
            self.0.more.notified().await;
            let mut refused: Vec<(String, Properties)> = Vec::new();
            while let Some((path, properties)) = self.next() {
                let trouble = tell(&mut bus, &path, &properties).await.err();
                if let Some(why) = &trouble {
                    tracing::warn!("{why}");
                    refused.push((path.clone(), properties.clone()));
                }
                done(path, properties, trouble).await;
            }
            pause = match refused.is_empty() {
                true => PAUSE,
                false => (pause * 2).min(LONGEST),
            };
            for (path, properties) in refused {
                self.0.put_back(path, properties);
                self.0.more.notify_one();
            }
            // Who wants the disk changes every second, and to tell systemd costs more than to write
            // a file.
            tokio::time::sleep(pause).await;
        }
    }

    /// Tells what is left, when tixd ends.
    pub async fn finish(&self) {
        let all = async {
            let mut bus = None;
            while let Some((path, properties)) = self.next() {
                if let Err(why) = tell(&mut bus, &path, &properties).await {
                    tracing::warn!("{why}");
                }
            }
        };
        if tokio::time::timeout(LAST, all).await.is_err() {
            let left = self.0.lock().len() + 1;
            tracing::warn!("systemd was not told about {left} of its units: it did not answer");
        }
    }

    fn next(&self) -> Option<(String, Properties)> {
        self.0.lock().pop_first()
    }
}

/// Why systemd does not know.
async fn tell(bus: &mut Option<Bus>, path: &str, properties: &Properties) -> Result<(), String> {
    let properties: Vec<(&str, u64)> = properties.iter().map(|(k, v)| (*k, *v)).collect();
    // It is put back only when it worked: it may have been the connection.
    let connected = bus.take();
    let told = async {
        let bus = match connected {
            Some(bus) => bus,
            None => Bus::connect().await?,
        };
        bus.set(path, &properties).await.map(|()| bus)
    };
    match tokio::time::timeout(PATIENCE, told).await {
        Ok(Ok(connected)) => {
            *bus = Some(connected);
            Ok(())
        }
        Ok(Err(e)) => Err(e.to_string()),
        Err(_) => Err(format!(
            "systemd did not answer for {} s about {path}",
            PATIENCE.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_on_each_property_is_told() {
        let sync = PropertySync::default();
        for (path, n) in [
            ("/a.service", 1),
            ("/a.service/inner", 9),
            ("/a.service", 2),
        ] {
            sync.set(path, "MemoryMin", n);
        }
        let (path, mut properties) = sync.next().unwrap();
        assert_eq!((path.as_str(), properties["MemoryMin"]), ("/a.service", 2));
        assert!(sync.next().is_none());
        // What systemd would not have is told again, unless it is out of date.
        sync.set("/a.service", "MemoryMin", 3);
        properties.insert("IOWeight", 7);
        sync.0.put_back(path, properties);
        let (_, again) = sync.next().unwrap();
        assert_eq!(again, BTreeMap::from([("IOWeight", 7), ("MemoryMin", 3)]));
    }
}
