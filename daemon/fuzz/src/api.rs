// SPDX-License-Identifier: GPL-2.0-only
//! One input of the API's fuzzer: what root, alice and bob send to a new tixd, and what has to hold
//! of it whatever that is.

use crate::calls::{Step, Who, step};
use crate::world::{ALICE, ALICES, BOB, BOBS, Client, SERVICE, World};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};

/// Lines of an input that count.
const MOST: usize = 256;
/// What every input begins with: alice and bob have something to lose.
const BEFORE: &str = "\
r Create alice 1000 1000
r Create bob 1001 1001
r Fund alice base cpu 300
r Fund alice base disk 100
r Fund bob base cpu 100
r Fund bob base disk 100
r Bind alice /user.slice/user-1000.slice
r Bind bob /user.slice/user-1001.slice
";
/// Answered whatever came before it, as long as the connection is good.
const ECHO: &[u8] = b"{\"method\":\"org.varlink.service.GetInfo\"}\0";

/// Does what the lines say, and returns how many messages that were.
pub async fn run(world: &mut World, input: &[u8]) -> usize {
    let mut clients = HashMap::new();
    let before: Vec<Step<'_>> = BEFORE.lines().filter_map(|l| step(l.as_bytes())).collect();
    play(world, &mut clients, &before).await;
    let steps: Vec<Step<'_>> = input
        .split(|b| *b == b'\n')
        .filter_map(step)
        .take(MOST)
        .collect();
    let before = owed(world).await;
    let (messages, spoke) = play(world, &mut clients, &steps).await;
    let after = owed(world).await;
    // What nobody but its owner and root can take is there, if neither has said anything.
    for (owner, name) in [(ALICE, ALICES), (BOB, BOBS), (0, SERVICE)] {
        if !spoke.contains(&owner) && !spoke.contains(&0) {
            assert!(
                after[name] >= before[name],
                "{name} had {} and has {}",
                before[name],
                after[name]
            );
        }
    }
    let wrong = world.look(|core| core.ledger.verify()).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    messages
}

/// How many messages were sent, and by whom.
async fn play(
    world: &mut World,
    clients: &mut HashMap<Who, Client>,
    steps: &[Step<'_>],
) -> (usize, BTreeSet<u32>) {
    let (mut messages, mut spoke) = (0, BTreeSet::new());
    let mut steps = steps.iter().peekable();
    while let Some(step) = steps.next() {
        match step {
            Step::Send(who, bytes) => {
                let mut all = bytes.clone();
                // One behind the other, as long as it is one who speaks.
                while let Some(Step::Send(_, bytes)) =
                    steps.next_if(|s| matches!(s, Step::Send(w, _) if w == who))
                {
                    all.extend_from_slice(bytes);
                }
                spoke.insert(who.uid);
                messages += all.iter().filter(|b| **b == 0).count();
                say(world, clients, *who, &all).await;
            }
            // Users have what is below their own.
            Step::Appears(who, path) if may(who.uid, path) => {
                world.appears(path, who.uid);
            }
            Step::Goes(who, path) if may(who.uid, path) => world.goes(path),
            _ => {}
        }
    }
    (messages, spoke)
}

async fn owed(world: &World) -> HashMap<&'static str, u128> {
    let mut all = HashMap::new();
    for name in [ALICES, BOBS, SERVICE] {
        all.insert(name, world.entitlement(name).await);
    }
    all
}

fn may(uid: u32, path: &str) -> bool {
    let below = |top: &str| {
        path.strip_prefix(top)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    match uid {
        0 => ![ALICES, BOBS, SERVICE].iter().any(|p| p.starts_with(path)),
        ALICE => below(ALICES),
        _ => below(BOBS),
    }
}

/// Sends it, and takes the answers until there are no more.
async fn say(world: &World, clients: &mut HashMap<Who, Client>, who: Who, bytes: &[u8]) {
    let client = clients.entry(who).or_insert_with(|| world.connect(who.uid));
    let good = client.send(bytes).await && client.send(ECHO).await && answered(client).await;
    if !good {
        clients.remove(&who);
    }
}

/// False if the connection is of no more use: tixd has hung up, or never stops to tell.
async fn answered(client: &mut Client) -> bool {
    while let Some(answer) = client.message().await {
        let parameters = &answer["parameters"];
        if parameters["product"] == "tixd" {
            return true;
        }
        match answer["error"].as_str() {
            None if answer["continues"] == true && parameters.get("sample").is_some() => {
                return false;
            }
            None => {}
            Some(error) => check_error(error, &answer),
        }
    }
    false
}

/// Every error says what happened and what to do.
fn check_error(error: &str, answer: &Value) {
    if error.starts_with("org.tix.Tix.") {
        assert!(error != "org.tix.Tix.Internal", "{answer}");
        for key in ["message", "hint"] {
            let text = answer["parameters"][key].as_str();
            assert!(text.is_some_and(|t| !t.is_empty()), "{answer}");
        }
    }
}
