// SPDX-License-Identifier: GPL-2.0-only
//! What limits in force do to each currency: which are throttled, and what each may have at most
//! now.
//!
//! What a currency may have is bounded from above, by the limits that count for it, and from below:
//! what it funds cannot use more than its own limits let it. A currency of two cgroups with cpu.max
//! of 20 % each has 40 % of one CPU at most.

use super::limit::Throttles;
use std::collections::{BTreeMap, HashMap, HashSet};
use tix_bpf::Throttle;
use tix_cgroupfs::{Cgroup, Root};
use tix_ledger::{BASE, Cid, Ledger, Resource};

#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// That are online, where there are limits.
    cpus: u64,
    /// Thousandths of one CPU. Whoever is not here is not bounded.
    pub most: HashMap<Cid, u64>,
    /// Threads of its own, or of what it funds, wait for a limit's next period.
    pub throttled: HashSet<Cid>,
    /// The limits of currencies that count for some cgroup.
    pub capping: HashSet<Cid>,
}

impl Bounds {
    /// The same as a fraction of the machine.
    pub fn part(&self, cid: Cid) -> Option<f64> {
        let most = *self.most.get(&cid)?;
        Some(most as f64 / (1000 * self.cpus) as f64)
    }
}

const CPU: Resource = Resource::Cpu;
/// Cgroups whose files are read for one answer.
const LOOKED_AT: usize = 256;

impl Bounds {
    /// From the limits in force and who is active. Costs nothing while there are no limits.
    pub fn find(ledger: &Ledger, throttles: &Throttles) -> Bounds {
        let caps = ledger.caps();
        let chain = |first: Cid| {
            std::iter::successors(Some(first), |l| caps.limits.get(l).and_then(|l| l.1))
        };
        let mut found = Bounds {
            throttled: funders_of(ledger, &throttles.waiting),
            capping: caps.cgroups.values().flat_map(|l| chain(*l)).collect(),
            ..Bounds::default()
        };
        if throttles.cpu_max.is_empty() && throttles.own.is_empty() {
            return found;
        }
        let milli = |t: &Throttle| t.quota_ns.saturating_mul(1000) / t.period_ns.max(1);
        let nearest = ledger.nearest_limits();
        let by_currencies = |cid: Cid| {
            let chain = nearest.get(&cid).into_iter().flat_map(|l| chain(*l));
            chain.filter_map(|l| throttles.own.get(&l).map(milli)).min()
        };
        let mut above: HashMap<Cid, u64> = HashMap::new();
        let named = ledger.iter().filter(|(_, c)| !c.is_mirror());
        let order = ledger
            .cgroups()
            .into_iter()
            .chain(named.map(|(cid, _)| cid));
        for cid in order.filter(|cid| *cid != BASE) {
            let parent = ledger.get(cid).and_then(|c| c.mirror.as_ref());
            let of_parent = parent.and_then(|m| above.get(&m.parent).copied());
            let own = throttles.cpu_max.get(&cid).map(milli);
            let all = [of_parent, own, by_currencies(cid)];
            if let Some(most) = all.into_iter().flatten().min() {
                above.insert(cid, most);
            }
        }
        let mut known = BTreeMap::new();
        for cid in ledger.cids() {
            if let Some(most) = most(ledger, cid, &above, &mut known) {
                found.most.insert(cid, most);
            }
        }
        if !found.most.is_empty() {
            found.cpus = cpus_online();
        }
        found
    }
}

/// These, and all that fund them, however indirectly.
fn funders_of(ledger: &Ledger, these: &HashSet<Cid>) -> HashSet<Cid> {
    let mut all = these.clone();
    let mut todo: Vec<Cid> = these.iter().copied().collect();
    while let Some(cid) = todo.pop() {
        let above = ledger.funders(cid, CPU).into_iter();
        todo.extend(above.filter(|up| all.insert(*up)));
    }
    all
}

/// What limits let `cid` have now, from above and from below: unless threads of its own run, no
/// more than all that it funds and that is active. As deep as the graph is.
fn most(
    ledger: &Ledger,
    cid: Cid,
    above: &HashMap<Cid, u64>,
    known: &mut BTreeMap<Cid, Option<u64>>,
) -> Option<u64> {
    if let Some(found) = known.get(&cid) {
        return *found;
    }
    let mut below = None;
    if !ledger.is_running(cid, CPU) {
        let active = ledger.funded(cid, CPU).filter(|h| ledger.active(*h, CPU));
        let each: Option<Vec<u64>> = active.map(|h| most(ledger, h, above, known)).collect();
        below = each
            .filter(|all| !all.is_empty())
            .map(|all| all.into_iter().fold(0, u64::saturating_add));
    }
    let found = above.get(&cid).copied().into_iter().chain(below).min();
    known.insert(cid, found);
    found
}

/// Without tix's scheduler the kernel's own holds `cpu.max`: of the cgroup of `cid`, or those that
/// it is bound to, and of the cgroups above. Those that are limited, and how.
pub fn read_cpu_max(ledger: &Ledger, root: &Root, cid: Cid) -> Vec<(Cid, Throttle)> {
    let bound = ledger.bindings_of(cid);
    let mut todo: Vec<Cid> = bound.filter_map(|path| ledger.find(path)).collect();
    todo.push(cid);
    let (mut found, mut seen) = (Vec::new(), HashSet::from([BASE]));
    while let Some(at) = todo.pop().filter(|_| seen.len() <= LOOKED_AT) {
        let mirror = ledger.get(at).and_then(|c| c.mirror.as_ref());
        let Some(m) = mirror.filter(|_| seen.insert(at)) else {
            continue;
        };
        todo.push(m.parent);
        let cgroup = root.cgroup(&m.path).ok();
        found.extend((cgroup.as_ref().and_then(kernels_throttle)).map(|t| (at, t)));
    }
    found
}

/// Not as many as tixd may use, which its own cgroup may limit.
fn cpus_online() -> u64 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    count_cpus(&text)
}

/// Of `0-3,6`; at least 1.
fn count_cpus(list: &str) -> u64 {
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.saturating_sub(first) + 1)
    };
    let ranges = list.trim().split(',').filter_map(range);
    ranges.sum::<u64>().max(1)
}

/// `cpu.max` of an open cgroup and how often it was reached, as the kernel's own scheduler counts;
/// `None`: it is not limited.
pub fn kernels_throttle(cgroup: &Cgroup) -> Option<Throttle> {
    let text = cgroup.read("cpu.max").ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    let usec = |text: &str| text.trim().parse::<u64>().ok();
    let stat = cgroup.read("cpu.stat").unwrap_or_default();
    let counted = |name: &str| {
        let mut lines = stat.lines().filter_map(|l| l.split_once(' '));
        let found = lines.find(|(key, _)| *key == name);
        found.and_then(|(_, n)| usec(n)).unwrap_or(0)
    };
    let burst = cgroup.read("cpu.max.burst").ok();
    Some(Throttle {
        quota_ns: usec(quota)?.saturating_mul(1000),
        period_ns: usec(period)?.saturating_mul(1000),
        burst_ns: burst
            .and_then(|b| usec(&b))
            .unwrap_or(0)
            .saturating_mul(1000),
        periods: counted("nr_periods"),
        throttled: counted("nr_throttled"),
        throttled_ns: counted("throttled_usec").saturating_mul(1000),
        refill_ns: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_ledger::{Caller, Cgroup, Op};

    fn ledger(paths: &[&str]) -> Ledger {
        let mut l = Ledger::new(1, 0);
        for path in paths {
            l.cgroup_here(&Cgroup {
                path,
                id: 7,
                weight: 100,
                disk: 100,
                owner: 0,
                group: 0,
                inner_threads: false,
            });
        }
        l
    }

    fn limited(milli: u64) -> Throttle {
        Throttle {
            quota_ns: milli * 100_000,
            period_ns: 100_000_000,
            ..Throttle::default()
        }
    }

    /// `n` is bound to /a and /b.
    fn bound() -> Ledger {
        let mut l = ledger(&["/a", "/b", "/c", "/c/d"]);
        let cid = l.next_cid();
        let create = Op::Create {
            cid,
            name: "n".into(),
            owner: 0,
            group: 0,
            mode: 0o700,
        };
        let fund = Op::Fund {
            holder: "n".into(),
            issuer: "base".into(),
            resource: CPU,
            amount: 300,
        };
        let bind = |path: &str| Op::Bind {
            name: "n".into(),
            path: path.into(),
        };
        for op in [create, fund, bind("/a"), bind("/b")] {
            l.apply(&op, &Caller::ROOT).expect("done");
        }
        l
    }

    #[test]
    fn a_currency_has_no_more_than_what_it_funds_is_let_have() {
        let mut l = bound();
        let [n, a, b, c, d] = ["n", "/a", "/b", "/c", "/c/d"].map(|name| l.find(name).expect(name));
        let mut throttles = Throttles::default();
        throttles
            .cpu_max
            .extend([(a, limited(200)), (c, limited(300))]);
        let most = |l: &Ledger, throttles: &Throttles| {
            let found = Bounds::find(l, throttles);
            [n, a, b, c, d].map(|cid| found.most.get(&cid).copied())
        };
        l.set_all_running(CPU, &|cid| [a, d].contains(&cid));
        // What is below /c has its limit; of the two that n funds one wants nothing.
        let expected = [Some(200), Some(200), None, Some(300), Some(300)];
        assert_eq!(most(&l, &throttles), expected);
        // The other one is not limited.
        l.set_all_running(CPU, &|cid| [a, b, d].contains(&cid));
        assert_eq!(most(&l, &throttles)[0], None);
        throttles.cpu_max.insert(b, limited(50));
        assert_eq!(most(&l, &throttles)[0], Some(250));
        let limit = Op::Limit {
            name: "n".into(),
            resource: CPU,
            milli: 100,
        };
        l.apply(&limit, &Caller::ROOT).expect("limited");
        // Not in force yet.
        assert_eq!(most(&l, &throttles)[0], Some(250));
        throttles.own.insert(n, limited(100));
        assert_eq!(most(&l, &throttles)[..3], [Some(100), Some(100), Some(50)]);
        assert!(Bounds::find(&l, &throttles).capping.contains(&n));
        l.cgroup_off("/a");
        l.cgroup_off("/b");
        assert!(!Bounds::find(&l, &throttles).capping.contains(&n));
    }

    #[test]
    fn who_funds_the_throttled_is_throttled() {
        let l = bound();
        let [n, a, b] = ["n", "/a", "/b"].map(|name| l.find(name).expect(name));
        let throttles = Throttles {
            waiting: HashSet::from([a]),
            ..Throttles::default()
        };
        let found = Bounds::find(&l, &throttles).throttled;
        assert!(found.contains(&a) && found.contains(&n) && !found.contains(&b));
    }

    #[test]
    fn cpus_are_counted_as_the_kernel_lists_them() {
        for (list, n) in [("0\n", 1), ("0-3\n", 4), ("0,2-3,6\n", 4), ("", 1)] {
            assert_eq!(count_cpus(list), n, "{list:?}");
        }
    }

    #[test]
    fn the_kernels_own_count_is_read_where_that_holds_cpu_max() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().join("a");
        std::fs::create_dir(&at).expect("made");
        let cgroup = || Root::open_any(dir.path()).and_then(|r| r.cgroup("/a"));
        let write = |file: &str, text: &str| std::fs::write(at.join(file), text).expect("written");
        write("cpu.max", "max 100000\n");
        assert_eq!(kernels_throttle(&cgroup().expect("there")), None);
        write("cpu.max", "20000 100000\n");
        write(
            "cpu.stat",
            "usage_usec 9\nnr_periods 7\nnr_throttled 3\nthrottled_usec 50\n",
        );
        let t = kernels_throttle(&cgroup().expect("there")).expect("limited");
        assert_eq!((t.quota_ns, t.period_ns), (20_000_000, 100_000_000));
        assert_eq!((t.periods, t.throttled, t.throttled_ns), (7, 3, 50_000));
    }
}
