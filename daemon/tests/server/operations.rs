// SPDX-License-Identifier: GPL-2.0-only
//! What can be asked of the ledger, asked over the socket: each is kept, shown, and in the log.

use super::server::{Client, Tixd, is_root_for};
use serde_json::{Value, json};

fn find(c: &mut Client, name: &str) -> Value {
    let tree = c.call("Tree", json!({}));
    let all = tree["parameters"]["currencies"].as_array().unwrap();
    let found = all.iter().find(|x| x["name"] == name);
    found.cloned().unwrap_or(Value::Null)
}

fn done(c: &mut Client, method: &str, parameters: Value) -> Value {
    let reply = c.call(method, parameters);
    assert!(reply.get("error").is_none(), "{method}: {reply}");
    reply["parameters"].clone()
}

#[test]
fn hard_shares_are_admitted_shown_and_taken_back() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    done(&mut c, "Create", json!({"name": "a"}));
    done(&mut c, "Create", json!({"name": "b"}));
    let reserve = |h: &str, milli: i64| json!({"holder": h, "issuer": "a", "resource": "disk", "milli": milli});
    assert_eq!(done(&mut c, "Reserve", reserve("b", 600))["amount"], 600);
    // It replaces what there was.
    assert_eq!(done(&mut c, "Reserve", reserve("b", 250))["amount"], 250);
    done(&mut c, "Create", json!({"name": "d"}));
    let refused = c.call("Reserve", reserve("d", 800));
    assert_eq!(refused["error"], "org.tix.Tix.TooMuch");
    assert_eq!(refused["parameters"]["left"], 749);
    for bad in [0, -1, 1000, 5000] {
        assert_eq!(c.error("Reserve", reserve("d", bad)), "BadHard", "{bad}");
    }
    let memory = json!({"holder": "b", "issuer": "a", "resource": "cpu", "bytes": 4096});
    assert_eq!(c.error("Reserve", memory), "BadHard");
    let b = find(&mut c, "b");
    assert_eq!(
        b["funding"],
        json!([{"from": "a", "resource": "disk", "kind": "hard", "amount": 250}])
    );
    let take = json!({"holder": "b", "issuer": "a", "resource": "disk"});
    done(&mut c, "Unreserve", take.clone());
    assert_eq!(find(&mut c, "b")["funding"], json!([]));
    assert_eq!(c.error("Unreserve", take), "NotFunded");
}

#[test]
fn tickets_are_set_to_a_number_and_with_its_own_they_are_all_that_one_has_issued() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    for name in ["a", "b", "d"] {
        done(&mut c, "Create", json!({ "name": name }));
    }
    let set = |holder: &str, amount: i64| json!({"holder": holder, "issuer": "a", "resource": "disk", "amount": amount});
    for amount in [5, 5, 300, 7] {
        let reply = done(&mut c, "SetFunding", set("b", amount));
        assert_eq!(reply["amount"], amount);
        let funding = json!([{"from": "a", "resource": "disk", "kind": "soft", "amount": amount}]);
        assert_eq!(find(&mut c, "b")["funding"], funding);
    }
    for bad in [0, -1, (1 << 31) + 1] {
        assert_eq!(c.error("SetFunding", set("d", bad)), "BadAmount", "{bad}");
    }
    // What was so already is not in the log.
    let log = done(&mut c, "Log", json!({"subject": "b"}));
    let kinds = log["records"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|r| r["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["create", "fund", "fund", "unfund"]);
    if is_root_for("tickets of base") {
        let fund = json!({"holder": "a", "issuer": "base", "resource": "cpu", "amount": 300});
        done(&mut c, "SetFunding", fund);
        let tree = done(&mut c, "Tree", json!({}));
        let all = tree["currencies"].as_array().unwrap();
        let of_base = all.iter().flat_map(|x| x["funding"].as_array().unwrap());
        let of_base = of_base.filter(|t| t["from"] == "base" && t["resource"] == "cpu");
        let held: u64 = of_base.map(|t| t["amount"].as_u64().unwrap()).sum();
        let own = all[0]["cpu"]["own_tickets"].as_u64().unwrap();
        let issued = done(&mut c, "Status", json!({}))["base_tickets"].as_u64();
        assert_eq!(Some(held + own), issued);
    }
    // There are no threads that are nobody's.
    assert_eq!(find(&mut c, "b")["disk"]["own_tickets"], Value::Null);
}

/// As one who is asked for nothing else would: the log has the numbers.
#[test]
fn what_was_done_is_taken_back_step_by_step() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    let undo = |c: &mut Client, seq: Value| done(c, "Undo", json!({ "seq": seq }));
    for name in ["a", "b"] {
        done(&mut c, "Create", json!({ "name": name }));
    }
    let ticket =
        |amount: i64| json!({"holder": "b", "issuer": "a", "resource": "disk", "amount": amount});
    let limit = |milli: i64| json!({"name": "b", "resource": "cpu", "milli": milli});
    done(&mut c, "Fund", ticket(300));
    // What others hold of it would go with it.
    let created = done(&mut c, "Log", json!({"subject": "a"}))["records"][0]["seq"].clone();
    let refused = c.call("Undo", json!({ "seq": created }));
    let why = refused["parameters"]["message"].as_str().unwrap();
    assert!(why.ends_with("b holds tickets of a by now"), "{why}");
    done(&mut c, "Limit", limit(100));
    done(&mut c, "Limit", limit(200));
    done(&mut c, "Chmod", json!({"name": "b", "mode": "g+f"}));
    let all = json!({"holder": "b", "issuer": "a", "resource": "disk"});
    done(&mut c, "Unfund", all);
    let log = |c: &mut Client| {
        let log = done(c, "Log", json!({"subject": "b"}));
        log["records"].as_array().unwrap().clone()
    };
    let seqs: Vec<i64> = log(&mut c)
        .iter()
        .map(|r| r["seq"].as_i64().unwrap())
        .collect();
    let [_, fund, first, second, chmod, unfund] = seqs[..] else {
        panic!("{seqs:?}")
    };

    // The second limit is in the way of the first: what comes of it is said.
    let refused = c.call("Undo", json!({ "seq": first }));
    let why = refused["parameters"]["message"].as_str().unwrap();
    assert_eq!(
        why,
        format!("{first} cannot be taken back: {second} (limit) came after it")
    );
    let hint = refused["parameters"]["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("`tixctl undo {second}`")), "{hint}");

    // The newest, and then the one before.
    let back = undo(&mut c, Value::Null);
    assert_eq!(back["seq"], unfund);
    assert_eq!(back["message"], "b holds 300 disk tickets of a");
    assert_eq!(find(&mut c, "b")["funding"][0]["amount"], 300);
    assert_eq!(undo(&mut c, Value::Null)["seq"], chmod);
    assert_eq!(find(&mut c, "b")["mode_text"], "fci------");
    assert_eq!(undo(&mut c, Value::Null)["seq"], second);
    assert_eq!(find(&mut c, "b")["cpu"]["limit_milli"], 100);
    // Now nothing is in its way.
    let back = undo(&mut c, json!(first));
    assert_eq!(back["message"], "b is not limited any more");
    assert_eq!(undo(&mut c, Value::Null)["seq"], fund);
    assert_eq!(find(&mut c, "b")["funding"], json!([]));

    // Neither twice, nor what took something back.
    let undone = log(&mut c).last().unwrap().clone();
    assert_eq!(undone["kind"], "undo");
    for seq in [json!(fund), undone["seq"].clone(), json!(4000)] {
        assert_eq!(
            c.error("Undo", json!({ "seq": seq })),
            "BadParameter",
            "{seq}"
        );
    }
    // What was created goes, and what was destroyed does not come back.
    assert_eq!(undo(&mut c, Value::Null)["message"], "b destroyed");
    assert_eq!(find(&mut c, "b"), Value::Null);
    done(&mut c, "Destroy", json!({"name": "a"}));
    let refused = c.call("Undo", json!({}));
    let why = refused["parameters"]["message"].as_str().unwrap();
    assert!(why.contains("(destroy) cannot be taken back"), "{why}");
}

#[test]
fn a_rehearsal_changes_nothing_and_says_what_would_come_of_it() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    for name in ["a", "b"] {
        done(&mut c, "Create", json!({ "name": name }));
    }
    let fund = |holder: &str, amount: i64| json!({"holder": holder, "issuer": "a", "resource": "disk", "amount": amount});
    let records = |c: &mut Client| done(c, "Log", json!({}))["records"].clone();
    // But for what is used meanwhile.
    let graph = |c: &mut Client| {
        let tree = done(c, "Tree", json!({}));
        let all = tree["currencies"].as_array().unwrap().iter();
        let of = |x: &Value| {
            let shares = ["cpu", "disk", "memory"].map(|r| x[r]["entitlement"].clone());
            json!([x["cid"], x["name"], x["funding"], x["owner"], shares])
        };
        all.map(of).collect::<Vec<_>>()
    };
    let (tree, log) = (graph(&mut c), records(&mut c));
    let rehearsed = |c: &mut Client, method: &str, parameters: Value| {
        done(c, "Rehearse", json!({}));
        let reply = c.call(method, parameters);
        (reply, c.call("Rehearsed", json!({})))
    };
    let (reply, told) = rehearsed(&mut c, "Fund", fund("b", 300));
    assert_eq!(reply["parameters"]["amount"], 300);
    let acts = &told["parameters"]["acts"];
    assert_eq!(acts, &json!(["b holds 300 disk tickets of a"]));
    // What is worth nothing has no share to give.
    assert_eq!(told["parameters"]["effects"], json!([]));
    let (_, told) = rehearsed(&mut c, "Create", json!({"name": "d"}));
    assert_eq!(told["parameters"]["acts"], json!(["d created"]));
    // What would be refused is refused, and there is nothing to tell then.
    let (reply, told) = rehearsed(&mut c, "Fund", fund("b", -1));
    assert_eq!(reply["error"], "org.tix.Tix.BadAmount");
    assert_eq!(told["error"], "org.tix.Tix.BadParameter");
    let (reply, _) = rehearsed(&mut c, "Undo", json!({}));
    assert!(reply.get("error").is_none(), "{reply}");
    assert_eq!(graph(&mut c), tree);
    assert_eq!(records(&mut c), log);
    if is_root_for("tickets of base") {
        let of_base = json!({"holder": "a", "issuer": "base", "resource": "cpu", "amount": 100});
        let (_, told) = rehearsed(&mut c, "Fund", of_base);
        let all = told["parameters"]["effects"].as_array().unwrap().clone();
        let a = all.iter().find(|e| e["currency"] == "a").unwrap();
        assert_eq!((&a["resource"], &a["before"]), (&json!("cpu"), &json!(0.0)));
        assert!(a["after"].as_f64().unwrap() > 0.0, "{a}");
        assert_eq!(graph(&mut c), tree);
    }
    // What is more than a change of the ledger is not done.
    let (reply, _) = rehearsed(&mut c, "DiskDisable", json!({"device": "sda"}));
    assert_eq!(reply["error"], "org.tix.Tix.BadParameter");
    // Only the next change is one.
    done(&mut c, "Fund", fund("b", 300));
    assert_eq!(find(&mut c, "b")["funding"][0]["amount"], 300);
}

#[test]
fn limits_are_kept_shown_and_lifted() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    done(&mut c, "Create", json!({"name": "a"}));
    done(&mut c, "Create", json!({"name": "b"}));
    let fund = json!({"holder": "b", "issuer": "a", "resource": "cpu", "amount": 5});
    done(&mut c, "Fund", fund);
    let limit = |name: &str, milli: Value| json!({"name": name, "resource": "cpu", "milli": milli});
    // No scheduler is in force here, and what is set says so.
    let reply = done(&mut c, "Limit", limit("a", json!(300)));
    assert_eq!(reply["in_force"], false);
    let why = reply["not_held"]["message"].as_str().unwrap();
    assert!(why.contains("--observe"), "{reply}");
    for bad in [
        json!(0),
        json!(-1),
        json!(1_024_001),
        json!(1e300),
        json!(1.5),
    ] {
        assert_eq!(
            c.error("Limit", limit("b", bad.clone())),
            "BadLimit",
            "{bad}"
        );
    }
    let disk = json!({"name": "b", "resource": "disk", "milli": 300});
    assert_eq!(c.error("Limit", disk), "BadLimit");
    assert_eq!(c.error("Limit", limit("base", json!(300))), "BadLimit");
    let its = json!({
        "currency": "a", "kind": "currency", "quota_usec": 30_000, "period_usec": 100_000, "burst_usec": 0, "in_force": false,
        "periods": 0, "throttled_periods": 0, "throttled_usec": 0,
        "why": "tix's scheduler is not in force: tixd runs with --observe: nothing is enforced"
    });
    let a = find(&mut c, "a");
    assert_eq!(
        (&a["limits"], &a["cpu"]["limit_milli"]),
        (&json!([its]), &json!(300))
    );
    assert_eq!(find(&mut c, "b")["limits"], json!([]));
    let explained = done(&mut c, "Explain", json!({"name": "b"}));
    assert_eq!(explained["limits"], json!([its]));
    let of_disk = done(&mut c, "Explain", json!({"name": "b", "resource": "disk"}));
    assert_eq!(of_disk["limits"], json!([]));
    let said = done(&mut c, "Status", json!({}))["problems"].to_string();
    assert!(said.contains("1 limit of a currency ("), "{said}");
    let log = done(&mut c, "Log", json!({"subject": "a"}));
    let log = log["records"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(log["kind"], "limit");
    assert_eq!(
        log["message"],
        "a with all that it funds is limited to 30 % of one CPU"
    );
    let lift = json!({"name": "a", "resource": "cpu"});
    done(&mut c, "Unlimit", lift.clone());
    assert_eq!(find(&mut c, "a")["limits"], json!([]));
    assert_eq!(c.error("Unlimit", lift), "NotLimited");
}

#[test]
fn memory_is_guaranteed_in_bytes() {
    if !is_root_for("memory is guaranteed in bytes") {
        return;
    }
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    done(&mut c, "Create", json!({"name": "a"}));
    let reserve =
        |k: &str, n: i64| json!({"holder": "a", "issuer": "base", "resource": "memory", k: n});
    let got = done(&mut c, "Reserve", reserve("bytes", 64 << 20));
    assert_eq!(
        (&got["amount"], &got["bytes"]),
        (&json!(64 << 20), &json!(true))
    );
    let a = find(&mut c, "a");
    assert_eq!(a["memory"]["entitlement_bytes"], 64 << 20);
    assert_eq!(a["funding"][0]["bytes"], true);
    let whole = c.call("Reserve", reserve("milli", 999));
    assert_eq!(whole["error"], "org.tix.Tix.TooMuch", "{whole}");
}

#[test]
fn modes_and_owners() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    done(&mut c, "Create", json!({"name": "x", "mode": 0o740}));
    let a = find(&mut c, "x");
    assert_eq!(
        (&a["mode"], &a["mode_text"]),
        (&json!(0o740), &json!("fcif-----"))
    );
    let chmod = |m: &str| json!({"name": "x", "mode": m});
    assert_eq!(done(&mut c, "Chmod", chmod("g-f,o=i"))["mode"], 0o701);
    assert_eq!(done(&mut c, "Chmod", chmod("750"))["mode"], 0o750);
    assert_eq!(c.error("Chmod", chmod("rwx")), "BadMode");
    assert_eq!(
        c.error("Chmod", json!({"name": "base", "mode": "777"})),
        "NotNamed"
    );
    if is_root_for("Chown of another user's") {
        done(
            &mut c,
            "Chown",
            json!({"name": "x", "owner": 1000, "group": 100}),
        );
        let a = find(&mut c, "x");
        assert_eq!((&a["owner"], &a["group"]), (&json!(1000), &json!(100)));
        let made = json!({"name": "hers", "owner": 1000, "group": 1000, "mode": 0o777});
        done(&mut c, "Create", made);
    }
    assert_eq!(
        c.error("Create", json!({"name": "y", "mode": 0o1000})),
        "BadMode"
    );
}

#[test]
fn the_log_tells_who_did_what_and_outlives_it() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    done(&mut c, "Create", json!({"name": "gone"}));
    done(&mut c, "Destroy", json!({"name": "gone"}));
    let tixd = Tixd::start_in(tixd.end());
    let mut c = tixd.connect();
    let log = done(&mut c, "Log", json!({"subject": "gone"}));
    let records = log["records"].as_array().unwrap();
    let kinds: Vec<&str> = records
        .iter()
        .map(|r| r["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["create", "destroy"]);
    let uid = rustix::process::getuid().as_raw();
    assert!(records.iter().all(|r| r["uid"] == uid), "{records:?}");
    // Who it was done to is the subject, and not said again.
    let operation = records[1]["operation"].as_str().unwrap();
    assert_eq!(operation, r#"{"destroy":{}}"#);
    assert_eq!(records[1]["subject"], "gone");
    assert_eq!(c.error("Log", json!({"limit": 0})), "BadParameter");
}

/// More than is looked at, and than is told, before others' requests have their turn.
#[test]
fn a_long_log_comes_whole_and_in_order_from_either_end() {
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    done(&mut c, "Create", json!({"name": "first"}));
    done(&mut c, "Create", json!({"name": "many"}));
    for mode in (0..600).map(|n| ["700", "770"][n % 2]) {
        done(&mut c, "Chmod", json!({"name": "many", "mode": mode}));
    }
    let mut asked = |what: Value| {
        let log = done(&mut c, "Log", what);
        let numbers = log["records"].as_array().unwrap().iter();
        let numbers: Vec<u64> = numbers.map(|r| r["seq"].as_u64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        numbers
    };
    let all = asked(json!({"after": 0, "limit": 1000}));
    assert!(all.len() >= 602);
    let last = |n: usize| &all[all.len() - n..];
    assert_eq!(asked(json!({"limit": 1000})), all);
    assert_eq!(asked(json!({"limit": 250})), last(250));
    assert_eq!(asked(json!({"after": 0, "limit": 250})), &all[..250]);
    assert_eq!(asked(json!({"after": all[9], "limit": 150})), &all[10..160]);
    // It lies behind all the others.
    assert_eq!(asked(json!({"subject": "first"})).len(), 1);
}

#[test]
fn rights_that_nothing_enforces_are_given_to_nobody_and_taken_back() {
    if !is_root_for("net tickets of base are refused") {
        return;
    }
    let tixd = Tixd::start();
    let mut c = tixd.connect();
    for name in ["a", "b"] {
        done(&mut c, "Create", json!({"name": name}));
    }
    let net = |more: Value| {
        let mut call = json!({"holder": "b", "issuer": "a", "resource": "net"});
        let fields = more.as_object().unwrap().clone();
        call.as_object_mut().unwrap().extend(fields);
        call
    };
    let offer = |give: &str, want: &str| json!({"principal": "a", "give": give, "want": want});
    for (method, call) in [
        ("Fund", net(json!({"amount": 5}))),
        ("Reserve", net(json!({"milli": 250}))),
        ("Offer", offer("net:1", "cpu:1")),
        ("Offer", offer("cpu:1", "net:1")),
    ] {
        let reply = c.call(method, call);
        let refused = (&reply["error"], &reply["parameters"]["message"]);
        assert_eq!(refused.0, "org.tix.Tix.BadParameter", "{method}: {reply}");
        assert!(refused.1.as_str().unwrap().contains("does not enforce"));
    }
    let limit = json!({"name": "b", "resource": "net", "milli": 100});
    assert_eq!(c.error("Limit", limit), "BadLimit");
    // A ledger from before has some: kept, told of, and taken back.
    let before = export(&mut c);
    let ticket = |kind: &str, amount: u64| {
        let (resource, by, bytes) = ("net", 0, false);
        json!({"ticket": {
            "from": "a", "to": "b", "resource": resource, "kind": kind, "amount": amount,
            "bytes": bytes, "by": by
        }})
    };
    let text = format!("{before}{}\n{}\n", ticket("soft", 7), ticket("hard", 250));
    let reply = import(&mut c, &text, false);
    assert_eq!(reply["parameters"]["applied"], true, "{reply}");
    let kept = export(&mut c);
    assert_eq!(
        import(&mut c, &kept, false)["parameters"]["changes"],
        json!([])
    );
    assert_eq!(find(&mut c, "b")["funding"].as_array().unwrap().len(), 2);
    let told = |c: &mut Client| {
        let status = done(c, "Status", json!({}));
        let all = status["problems"].as_array().unwrap().clone();
        let of_net = |p: &&Value| {
            p["message"]
                .as_str()
                .unwrap()
                .contains("does not enforce net")
        };
        all.iter().find(of_net).cloned()
    };
    let message = told(&mut c).expect("nothing is said of it")["message"].clone();
    assert!(
        message.as_str().unwrap().contains("rights of b"),
        "{message}"
    );
    done(&mut c, "Unfund", net(json!({})));
    done(&mut c, "Unreserve", net(json!({})));
    assert_eq!(find(&mut c, "b")["funding"], json!([]));
    assert_eq!(told(&mut c), None);
}

/// All parts of the document.
fn export(c: &mut Client) -> String {
    use std::io::Write;
    let call = json!({"method": "org.tix.Tix.Export", "more": true});
    c.0.write_all(format!("{call}\0").as_bytes()).unwrap();
    let mut text = String::new();
    loop {
        let part = c.message().unwrap();
        text += part["parameters"]["chunk"]
            .as_str()
            .unwrap_or_else(|| panic!("{part}"));
        if part["continues"] != true {
            return text;
        }
    }
}

fn import(c: &mut Client, text: &str, dry_run: bool) -> Value {
    let id = done(c, "ImportBegin", json!({}))["id"].clone();
    for chunk in text.as_bytes().chunks(1000) {
        let chunk = std::str::from_utf8(chunk).unwrap();
        done(c, "ImportChunk", json!({"id": id, "chunk": chunk}));
    }
    c.call("ImportEnd", json!({"id": id, "dry_run": dry_run}))
}

#[test]
fn a_ledger_is_exported_and_imported_elsewhere() {
    if !is_root_for("a ledger is exported and imported elsewhere") {
        return;
    }
    let (here, there) = (Tixd::start(), Tixd::start());
    let (mut a, mut b) = (here.connect(), there.connect());
    for i in 0..300 {
        let name = format!("a-currency-with-a-long-name-{i}");
        done(&mut a, "Create", json!({"name": name}));
        let fund = json!({"holder": name, "issuer": "base", "resource": "cpu", "amount": i + 1});
        done(&mut a, "Fund", fund);
    }
    let limit = json!({"name": "a-currency-with-a-long-name-7", "resource": "cpu", "milli": 1500});
    done(&mut a, "Limit", limit);
    done(&mut b, "Create", json!({"name": "not-in-it"}));
    let text = export(&mut a);
    assert!(text.len() > 20_000, "{}", text.len());
    let dry = import(&mut b, &text, true);
    let changes = dry["parameters"]["changes"].as_array().unwrap().clone();
    assert_eq!(changes.len(), 602);
    assert_eq!(dry["parameters"]["applied"], false);
    assert!(
        !find(&mut b, "not-in-it").is_null(),
        "it was only to be looked at"
    );
    let real = import(&mut b, &text, false);
    assert_eq!(real["parameters"]["changes"], json!(changes));
    assert_eq!(export(&mut b), text);
    assert!(find(&mut b, "not-in-it").is_null());
    let again = import(&mut b, &text, false);
    assert_eq!(again["parameters"]["changes"], json!([]));
    // And it is there after a restart.
    let there = Tixd::start_in(there.end());
    let mut b = there.connect();
    assert_eq!(export(&mut b), text);
    // Nonsense changes nothing.
    let cycle = "{\"format\":\"tix ledger\",\"version\":1}\n\
        {\"currency\":{\"name\":\"p\",\"owner\":0,\"group\":0,\"mode\":\"fci------\",\"by\":0}}\n\
        {\"currency\":{\"name\":\"q\",\"owner\":0,\"group\":0,\"mode\":\"fci------\",\"by\":0}}\n\
        {\"ticket\":{\"from\":\"p\",\"to\":\"q\",\"resource\":\"cpu\",\"kind\":\"soft\",\"amount\":1,\"bytes\":false,\"by\":0}}\n\
        {\"ticket\":{\"from\":\"q\",\"to\":\"p\",\"resource\":\"cpu\",\"kind\":\"soft\",\"amount\":1,\"bytes\":false,\"by\":0}}\n";
    let refused = import(&mut b, cycle, false);
    assert_eq!(refused["error"], "org.tix.Tix.WouldCycle", "{refused}");
    let base = "{\"format\":\"tix ledger\",\"version\":1}\n\
        {\"limit\":{\"name\":\"/\",\"resource\":\"cpu\",\"milli\":100,\"by\":0}}\n";
    let refused = import(&mut b, base, false);
    assert_eq!(refused["error"], "org.tix.Tix.BadLimit", "{refused}");
    for bad in ["", "noise", &text[..text.len() - 10]] {
        assert_eq!(
            import(&mut b, bad, false)["error"],
            "org.tix.Tix.BadParameter"
        );
    }
    assert_eq!(export(&mut b), text);
}
