// SPDX-License-Identifier: GPL-2.0-only
//! What a request costs has a bound, whatever graph users have made: counted in steps of the
//! ledger, which are the same on every machine.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tix_fuzz::world::{ALICE, ALICES, BOB, BOBS, Client, World, with};
use tix_ledger::{Caller, Hard, Ledger, MAX_OFFERS, MAX_OWNED, Op, Resource, Terms};
use tixd::writer::Core;
use tokio::runtime::{Builder, Runtime};

/// Steps for which others wait: some 10 ms of a slow CPU.
const MOST: u64 = 500_000;

/// Nobody waits in it for their turn: when all do, it is later.
fn runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// What alice makes.
#[derive(Debug, Clone)]
struct Shape {
    /// Layers of named currencies, each funded by all of the layer below.
    layers: usize,
    wide: usize,
    /// The lowest layer is funded by her own cgroup.
    funded: bool,
    /// Currencies that the highest layer funds, and resources of which it does.
    fan: usize,
    resources: usize,
    /// Exchanges, each of rights of one of those.
    trades: usize,
    /// Hard tickets beside the soft ones.
    hard: bool,
    /// Cgroups below her own, funded by the highest layer, too.
    cgroups: usize,
}

fn shapes() -> impl Strategy<Value = Shape> {
    (
        (1..=31usize, 1..=16usize, any::<bool>()),
        (0..=MAX_OWNED, 1..=3usize, any::<bool>(), 0..=400usize),
        0..=MAX_OFFERS,
    )
        .prop_map(
            |((layers, wide, funded), (fan, resources, hard, cgroups), trades)| Shape {
                layers,
                wide,
                funded,
                fan,
                resources,
                trades,
                hard,
                cgroups,
            },
        )
}

const MARKET: &str = "alice/market";

/// What alice makes is in her space.
fn name(layer: usize, n: usize) -> String {
    format!("alice/x{layer}-{n}")
}

fn alice() -> Caller {
    Caller {
        user: Some("alice".to_owned()),
        ..Caller::user(ALICE)
    }
}

/// What is refused is beyond a quota: the graph is at it.
fn make(core: &mut Core, op: Op) -> bool {
    core.submit(&[op], &alice()).is_ok()
}

fn create(core: &mut Core, name: &str) -> bool {
    let op = Op::Create {
        cid: core.ledger.next_cid(),
        name: name.trim_start_matches("alice/").to_owned(),
        owner: ALICE,
        group: ALICE,
        mode: 0o700,
    };
    make(core, op)
}

fn fund(core: &mut Core, holder: &str, issuer: &str, resource: Resource) {
    let amount = match issuer {
        // Much more than her cgroups hold.
        ALICES => 100_000_000,
        _ => 100,
    };
    let op = ticket(holder, issuer, resource, amount);
    make(core, op);
}

fn ticket(holder: &str, issuer: &str, resource: Resource, amount: i64) -> Op {
    Op::Fund {
        holder: holder.to_owned(),
        issuer: issuer.to_owned(),
        resource,
        amount,
    }
}

fn build(core: &mut Core, shape: &Shape) {
    for r in [Resource::Cpu, Resource::Disk] {
        let rich = ticket(ALICES, "base", r, 100_000_000);
        core.submit(&[rich], &Caller::ROOT).unwrap();
    }
    for layer in 0..shape.layers {
        for n in 0..shape.wide {
            let this = name(layer, n);
            if !create(core, &this) {
                return;
            }
            if layer == 0 && shape.funded {
                fund(core, &this, ALICES, Resource::Cpu);
            }
            for below in 0..shape.wide {
                if layer > 0 {
                    fund(core, &this, &name(layer - 1, below), Resource::Cpu);
                }
            }
        }
    }
    let top = name(shape.layers - 1, 0);
    create(core, MARKET);
    fund(core, MARKET, ALICES, Resource::Disk);
    for n in 0..shape.cgroups {
        fund(core, &format!("{ALICES}/c{n}"), &top, Resource::Cpu);
    }
    for n in 0..shape.fan {
        let this = format!("alice/fan{n}");
        if !create(core, &this) {
            break;
        }
        for r in Resource::ALL.into_iter().take(shape.resources) {
            fund(core, &this, &top, r);
        }
        if shape.hard {
            make(
                core,
                Op::Reserve {
                    holder: this.clone(),
                    issuer: top.clone(),
                    resource: Resource::Cpu,
                    amount: Hard::Milli(1),
                },
            );
        }
        make(
            core,
            Op::Limit {
                name: this,
                resource: Resource::Cpu,
                milli: 1000,
            },
        );
    }
    for n in 0..shape.trades.min(shape.fan) {
        trade(core, &format!("alice/fan{n}"));
    }
}

/// Some of its CPU for some of the market's disk.
fn trade(core: &mut Core, party: &str) {
    let offer = core.ledger.next_number();
    let terms = Terms {
        gives: Resource::Cpu,
        give: 1,
        wants: Resource::Disk,
        want: 1,
        least: 1,
        expires: None,
    };
    let (party, now) = (party.to_owned(), 1);
    let placed = Op::Offer {
        id: offer,
        party,
        terms,
        now,
    };
    if make(core, placed) {
        make(
            core,
            Op::Accept {
                offer,
                party: MARKET.to_owned(),
                now,
            },
        );
    }
}

/// Every method, for the highest and for the lowest of what was made.
fn requests(top: &str, low: &str, cgroup: &str) -> Vec<(&'static str, Value)> {
    let edge = |holder: &str, issuer: &str| json!({"holder": holder, "issuer": issuer, "resource": "cpu", "amount": 1});
    let taken =
        |holder: &str, issuer: &str| json!({"holder": holder, "issuer": issuer, "resource": "cpu"});
    let mut all = Vec::new();
    for resource in ["cpu", "disk", "memory", "net"] {
        for name in [top, low, cgroup, "base", ALICES] {
            all.push(("Explain", json!({"name": name, "resource": resource})));
        }
    }
    all.extend([
        ("Status", json!({})),
        ("Tree", json!({})),
        ("ListCurrencies", json!({})),
        ("Log", json!({})),
        ("Watch", json!({})),
        ("Export", json!({})),
        ("Create", json!({"name": "new"})),
        ("Fund", edge("new", top)),
        ("Unfund", taken("new", top)),
        ("Fund", edge(low, "new")),
        ("Unfund", taken(low, "new")),
        ("Fund", edge(low, top)),
        ("Fund", edge(ALICES, low)),
        ("Fund", edge(cgroup, top)),
        (
            "Reserve",
            json!({"holder": low, "issuer": ALICES, "resource": "cpu", "milli": 100}),
        ),
        ("Unreserve", taken(low, ALICES)),
        (
            "Limit",
            json!({"name": low, "resource": "cpu", "milli": 100}),
        ),
        ("Unlimit", json!({"name": low, "resource": "cpu"})),
        ("Chmod", json!({"name": low, "mode": "770"})),
        ("Chown", json!({"name": low, "group": ALICE})),
        ("Bind", json!({"name": top, "target": cgroup})),
        ("Explain", json!({"name": cgroup})),
        ("Unbind", json!({"name": top})),
        ("RunBegin", json!({"issuer": top, "cgroup": cgroup})),
        ("Unbind", json!({"name": "run-1"})),
        ("NiceBegin", json!({"giver": ALICES, "cgroup": cgroup})),
        (
            "Offer",
            json!({"principal": ALICES, "give": "1 cpu", "want": "1 disk"}),
        ),
        ("Offers", json!({})),
        ("Offers", json!({"principal": ALICES})),
        ("Exchanges", json!({})),
        ("Exchanges", json!({"principal": ALICES})),
        ("ShowExchange", json!({"id": 1})),
        ("Amend", json!({"id": 1, "give": "2 cpu"})),
        ("Accept", json!({"id": 1, "principal": low})),
        ("Cancel", json!({"id": 1})),
        ("Rehearse", json!({})),
        ("Fund", edge(low, ALICES)),
        ("Rehearsed", json!({})),
        ("Rehearse", json!({})),
        ("Destroy", json!({"name": top})),
        ("Rehearsed", json!({})),
        ("Undo", json!({})),
        ("Destroy", json!({"name": low})),
        ("Destroy", json!({"name": top})),
        ("Tree", json!({})),
    ]);
    all
}

/// The most steps that others had to wait for, and the exchanges that were made.
async fn ask_all(world: &mut World, shape: &Shape) -> (u64, usize) {
    let cgroup = format!("{ALICES}/c0");
    world.appears(&cgroup, ALICE);
    for n in 1..shape.cgroups {
        world.appears(&format!("{ALICES}/c{n}"), ALICE);
    }
    world.look(|_| ()).await;
    let building = shape.clone();
    world.act(move |core| build(core, &building)).await;
    world.longest_turn().await;
    let (top, low) = (name(shape.layers - 1, 0), name(0, 0));
    let mut alice = world.connect(ALICE);
    let traded = world.look(|core| core.ledger.exchanges().count()).await;
    let mut most = 0;
    for (method, parameters) in requests(&top, &low, &cgroup) {
        let answer = alice.call(method, parameters.clone()).await;
        assert!(answer.is_object());
        let steps = world.longest_turn().await;
        assert!(
            steps <= MOST,
            "{method} {parameters} took {steps} steps at once, {traded} exchanges, for {shape:?}"
        );
        most = most.max(steps);
    }
    println!("{most} steps at most, {traded} exchanges, {shape:?}");
    (most, traded)
}

#[test]
fn no_graph_makes_a_request_dear() {
    let limits = [
        // 2^30 paths, of nothing and of something.
        (31, 2, false, 0, 400),
        (28, 2, true, 0, 400),
        // And of as much to each of thousands of cgroups.
        (31, 2, false, 0, 4000),
        // Every quota used up: tickets above a currency, and currencies.
        (16, 4, true, MAX_OWNED, 400),
        (2, 16, true, MAX_OWNED, 400),
        (8, 4, true, MAX_OWNED, 400),
    ];
    let shape = |(layers, wide, funded, fan, cgroups)| Shape {
        layers,
        wide,
        funded,
        fan,
        resources: 3,
        trades: fan,
        hard: true,
        cgroups,
    };
    let (mut most, mut trades) = (0, 0);
    for limit in limits {
        let shape = shape(limit);
        let runtime = runtime();
        let (took, traded) = with(&runtime, async |world| ask_all(world, &shape).await);
        most = most.max(took);
        trades = trades.max(traded);
    }
    assert!(most > 1000, "{most}: nothing is counted");
    assert!(trades > 500, "{trades}: the graph is not at the limits");
}

#[test]
fn no_graph_at_random_does_either() {
    let config = ProptestConfig {
        cases: 4,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    };
    let drawn = TestRunner::new(config).run(&shapes(), |shape| {
        let runtime = runtime();
        with(&runtime, async |world| ask_all(world, &shape).await);
        Ok(())
    });
    drawn.unwrap();
}

/// One of alice's requests and root's, together.
async fn beside(alice: &mut Client, root: &mut Client, call: &Value) -> Value {
    assert!(alice.send(format!("{call}\0").as_bytes()).await);
    assert!(root.done("Status", json!({})).await["version"].is_string());
    alice.message().await.unwrap()
}

#[test]
fn paths_without_number_are_explained_and_root_is_answered_meanwhile() {
    with(&runtime(), async |world| {
        let shape = |funded| Shape {
            layers: 31,
            wide: 2,
            funded,
            fan: 0,
            resources: 0,
            trades: 0,
            hard: false,
            cgroups: 0,
        };
        let unfunded = shape(false);
        world.act(move |core| build(core, &unfunded)).await;
        let (mut alice, mut root) = (world.connect(ALICE), world.connect(0));
        let call = json!({"method": "org.tix.Tix.Explain", "parameters": {"name": name(30, 1)}});
        let found = beside(&mut alice, &mut root, &call).await;
        // None of them comes from base, and that is all there is to say.
        let found = &found["parameters"];
        assert_eq!(
            (&found["paths"], &found["truncated"]),
            (&json!([]), &json!(false))
        );
        // Two layers less are few enough to be funded: 32 tickets is the longest path.
        for n in 0..2 {
            let holder = name(4, n);
            world
                .act(move |core| fund(core, &holder, ALICES, Resource::Cpu))
                .await;
        }
        let found = beside(&mut alice, &mut root, &call).await;
        let found = &found["parameters"];
        let paths = found["paths"].as_array().unwrap();
        assert!(paths.len() > 100 && found["truncated"] == json!(true));
        let sum: usize = paths
            .iter()
            .map(|p| p["steps"].as_array().unwrap().len())
            .sum();
        assert!(sum <= 4096 + 32, "{sum}");
    });
}

/// CPU time of this thread, which all of tixd but what it does beside the writer is on.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let ns: f64 = stat.split(' ').next().unwrap().parse().unwrap();
    ns / 1e6
}

#[test]
#[ignore = "a measurement: prints what requests cost on a machine with 10,000 cgroups"]
fn ten_thousand_cgroups() {
    with(&runtime(), async |world| {
        for n in 0..10_000 {
            assert!(world.appears(&format!("{ALICES}/c{n}"), ALICE));
        }
        world.look(|_| ()).await;
        let mut root = world.connect(0);
        for (method, parameters) in [
            ("Tree", json!({})),
            ("ListCurrencies", json!({})),
            ("Watch", json!({})),
            ("Explain", json!({"name": ALICES})),
            ("Status", json!({})),
            ("Export", json!({})),
        ] {
            world.longest_turn().await;
            let from = world.look(|core| core.ledger.steps()).await;
            let before = cpu_ms();
            root.done(method, parameters).await;
            let took = cpu_ms() - before;
            let steps = world.longest_turn().await;
            let all = world.look(|core| core.ledger.steps()).await - from;
            println!(
                "{method}: {steps} steps in the longest turn of {all} in all, {took:.1} ms of this \
                 thread"
            );
        }
    });
}

/// Parties that have what they give from one currency; how many steps it takes to revoke all that
/// they gave.
fn revocations(n: usize) -> u64 {
    let mut l = Ledger::new(1, 0);
    let apply = |l: &mut Ledger, op: &Op| l.apply(op, &Caller::ROOT).unwrap();
    let parties: Vec<String> = (0..n).map(|n| format!("p{n}")).collect();
    for name in parties.iter().map(String::as_str).chain(["x", "y"]) {
        let op = Op::Create {
            cid: l.next_cid(),
            name: name.to_owned(),
            owner: 0,
            group: 0,
            mode: 0o700,
        };
        apply(&mut l, &op);
    }
    apply(&mut l, &ticket("x", "base", Resource::Cpu, 1 << 20));
    apply(&mut l, &ticket("y", "base", Resource::Disk, 1 << 20));
    for name in &parties {
        apply(&mut l, &ticket(name, "x", Resource::Cpu, 100));
    }
    for name in &parties {
        let offer = l.next_number();
        let terms = Terms {
            gives: Resource::Cpu,
            give: 1000,
            wants: Resource::Disk,
            want: 1000,
            least: 1000,
            expires: None,
        };
        let op = Op::Offer {
            id: offer,
            party: name.clone(),
            terms,
            now: 1,
        };
        apply(&mut l, &op);
        let op = Op::Accept {
            offer,
            party: "y".to_owned(),
            now: 1,
        };
        apply(&mut l, &op);
    }
    assert_eq!(l.exchanges().count(), n);
    let before = l.steps();
    let op = Op::Unfund {
        holder: "x".to_owned(),
        issuer: "base".to_owned(),
        resource: Resource::Cpu,
        amount: None,
    };
    apply(&mut l, &op);
    assert_eq!(l.exchanges().count(), 0);
    l.steps() - before
}

#[test]
fn what_is_revoked_at_once_costs_in_proportion() {
    let (few, many) = (revocations(100), revocations(800));
    println!("{few} steps for 100 exchanges, {many} for 800");
    assert!(many < 12 * few, "{few} steps for 100, {many} for 800");
}

/// What alice has logged is short and paid for, however long the names of what she does it to.
#[test]
fn the_log_is_filled_by_nobody_alone() {
    const MANY: usize = 180;
    tix_fuzz::world::with(&tix_fuzz::world::runtime(), async |world: &mut World| {
        let mut deep = BOBS.to_owned();
        for _ in 0..13 {
            deep = format!("{deep}/{}", "d".repeat(250));
            assert!(world.appears(&deep, BOB));
        }
        let paths: Vec<String> = (0..MANY).map(|n| format!("{deep}/{n}")).collect();
        assert!(paths.iter().all(|path| world.appears(path, BOB)));
        world.look(|_| ()).await;
        let open = paths.clone();
        world
            .act(move |core| {
                for name in open {
                    let op = Op::Chmod { name, mode: 0o777 };
                    core.submit(&[op], &Caller::user(BOB)).unwrap();
                }
            })
            .await;
        let mut alice = world.connect(ALICE);
        alice.done("Create", json!({"name": "gold"})).await;
        for path in &paths {
            let gift = json!({"holder": path, "issuer": "gold", "resource": "cpu", "amount": 1});
            alice.done("Fund", gift).await;
        }
        // It is bob's to know, of each.
        alice.done("Destroy", json!({"name": "gold"})).await;
        let (name, said) = alice.refused("Create", json!({"name": "more"})).await;
        assert!(
            name == "LimitReached" && said.contains("try again in"),
            "{name}: {said}"
        );
        // She sees what she likes, and nobody else waits.
        alice.done("Tree", json!({})).await;
        world
            .connect(BOB)
            .done("Create", json!({"name": "b"}))
            .await;
        world.connect(0).done("Create", json!({"name": "r"})).await;
        let log = world.log().await;
        let gifts: Vec<_> = log.iter().filter(|r| r.kind == "fund").collect();
        assert_eq!(gifts.len(), MANY);
        assert!(gifts.iter().all(|r| !r.op.contains(&deep)));
        let longest = log.iter().map(|r| r.bytes()).max().unwrap();
        println!(
            "a record has {longest} bytes at most, where a path has {}",
            paths[0].len()
        );
        assert!(
            (paths[0].len() as u64..4_800).contains(&longest),
            "{longest}"
        );
    });
}

/// Cgroups that cannot be read are anybody's to make.
#[test]
fn status_lists_some_of_many_problems_alike_and_counts_the_rest() {
    tix_fuzz::world::with(&tix_fuzz::world::runtime(), async |world: &mut World| {
        world
            .look(|core| {
                let trouble = (0..5_000).map(|n| (format!("/{n:04}"), format!("/{n:04} is odd")));
                core.tree.trouble.extend(trouble);
            })
            .await;
        let status = world.connect(ALICE).done("Status", json!({})).await;
        let problems = status["problems"].as_array().unwrap();
        let said = |what: &str| {
            let has = |p: &&Value| p["message"].as_str().unwrap().contains(what);
            problems.iter().filter(has).count()
        };
        assert_eq!((said("is odd"), said("and 4990 more like")), (10, 1));
    });
}
