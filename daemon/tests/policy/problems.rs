// SPDX-License-Identifier: GPL-2.0-only
//! What is said of a policy that is wrong: where, what, and what to write instead.

use super::{good, parse};

/// The text, and every line that is said of it.
fn refused(text: &str, want: &[&str]) {
    match parse(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(said) => assert_eq!(said, want, "{text}"),
    }
}

#[test]
fn problems_say_where_what_and_what_instead() {
    refused(
        "[[rule]\n",
        &["a.toml:1: this is not TOML: unclosed array table, expected `]`"],
    );
    refused(
        "[[curency]]\nname = \"a\"\n[[rules]]\n",
        &[
            "a.toml:1: a policy has no \"curency\": did you mean \"currency\"?",
            "a.toml:3: a policy has no \"rules\": did you mean \"rule\"?",
        ],
    );
    refused(
        "\n[[rule]]\nmatch = { grop = \"staff\" }\ncurency = \"x\"\n",
        &[
            "a.toml:2: this rule does not say which currency funds what it matches: write currency = \"user-{uid}\" or the like, or skip = true",
            "a.toml:3: match has no \"grop\": did you mean \"group\"?",
            "a.toml:4: a rule has no \"curency\": did you mean \"currency\"?",
        ],
    );
    refused(
        "[[rule]]\ncurrency = \"x\"",
        &[
            "a.toml:1: this rule does not say what it is about: write match = { group = \"staff\" } or the like; match = {} is for all that is left",
        ],
    );
    refused(
        "[[rule]]\nmatch = {}\nskip = true\nfund = { from = \"base\", cpu = 1 }",
        &["a.toml:4: a rule that skips has no fund: leave out one of the two"],
    );
    refused(
        "[[rule]]\nmatch = {}\ncurrency = \"user-{uid}\"",
        &[
            "a.toml:3: nothing funds \"user-{uid}\": add fund = [ { from = \"base\", cpu = 100 } ] or the like",
        ],
    );
    refused(
        "[[currency]]\nname = \"Staff\"\n[[currency]]\nname = 7\n[[currency]]\n",
        &[
            "a.toml:2: \"Staff\" is no currency's name: begin with a small letter; up to 63 small letters, digits, - and _",
            "a.toml:4: name cannot be of type integer: write it in quotes",
            "a.toml:5: this currency has no name: write name = \"staff\" or the like",
        ],
    );
    refused(
        "[[currency]]\nname = \"alice/gold\"\n",
        &[
            "a.toml:2: \"alice/gold\" is no plain name, and a policy makes no others: leave out \
             what is before the / (USER/NAME is what that user creates)",
        ],
    );
    refused(
        "[[currency]]\nname = \"a\"\nowner = \"carol\"\ngroup = -1\nmode = \"rwx------\"\n[[currency]]\nname = \"b\"\nowner = \"away\"",
        &[
            "a.toml:3: there is no user \"carol\": write a name that the system knows, or a number",
            "a.toml:4: -1 is no group's number: write its name or number",
            "a.toml:5: \"rwx------\" is no mode: write nine characters, fci for the owner, the group and others, with - for what is not allowed (\"fci------\"), or octal (\"700\")",
            "a.toml:8: cannot look up the user \"away\" (the directory server is away): write its number, which needs no looking up",
        ],
    );
}

#[test]
fn problems_with_what_is_matched() {
    let rule = |m: &str| format!("[[rule]]\nmatch = {{ {m} }}\nskip = true");
    for (m, said) in [
        (
            "uid = \"bob\"",
            "this is no uid: write a number (1000), a range (\"1000-1999\") or a list of them; a name goes to user =",
        ),
        (
            "gid = \"9-3\"",
            "this is no gid: write a number (1000), a range (\"1000-1999\") or a list of them; a name goes to group =",
        ),
        (
            "uid = []",
            "uid is an empty list, which nothing is in: leave the key out if it does not matter",
        ),
        (
            "user = 7",
            "user cannot be of type integer: write it in quotes",
        ),
        (
            "unit = \"nginx\"",
            "unit = \"nginx\" matches nothing: a unit's name ends in .service, .scope or .slice: write it out (\"nginx.service\")",
        ),
        (
            "cgroup = \"system.slice\"",
            "cgroup = \"system.slice\" matches nothing: a cgroup's path begins with / at the root of the cgroup tree (\"/machine.slice/*\"), and is not / itself",
        ),
        (
            "cgroup = \"/a/[ab]\"",
            "cgroup = \"/a/[ab]\" matches nothing: * is all there is in a pattern: ? and [ ] and { } are not; write a list of patterns",
        ),
        (
            "unit = \"a.service\", user = \"alice\"",
            "only a user's slice has a user with a name and groups, not a service or scope: write uid = or gid =, which is the owner of the cgroup's directory",
        ),
    ] {
        refused(&rule(m), &[&format!("a.toml:2: {said}")]);
    }
}

#[test]
fn problems_with_amounts() {
    for (line, said) in [
        (
            "fund = { from = \"base\", cpu = 0 }",
            "cpu: \"0\" is no number of tickets: write 1 to 2147483648",
        ),
        (
            "fund = { from = \"base\", cpu = \"25%\" }",
            "cpu: \"25%\" is no number of tickets: write 1 to 2147483648; a guarantee goes to reserve =",
        ),
        (
            "reserve = { from = \"base\", cpu = \"33.33%\" }",
            "cpu: \"33.33%\" is no whole number of thousandths: write at most one decimal (\"12.5%\")",
        ),
        (
            "reserve = { from = \"base\", cpu = \"2G\" }",
            "cpu: \"2G\" is no part of the issuer: write per cent (\"25%\") or thousandths (250)",
        ),
        (
            "reserve = { from = \"base\", cpu = 12.5 }",
            "cpu: \"12.5\" is no part of the issuer: write per cent (\"25%\") or thousandths (250)",
        ),
        (
            "reserve = { from = \"base\", memory = \"2GB\" }",
            "memory: \"2GB\" is ambiguous: write K, M, G or T, without B; K is 1024",
        ),
        (
            "reserve = { from = \"base\", memory = \"25%\" }",
            "memory guaranteed by base is a size, not a part of it: write \"512M\" or \"2G\"",
        ),
        (
            "reserve = { from = \"base\", cpu = true }",
            "cpu cannot be of type boolean: write a number, or in quotes \"25%\" or \"2G\"",
        ),
        (
            "fund = { from = \"base\" }",
            "fund does not say how much of what: write fund = [ { from = \"base\", cpu = 100 } ]; \
             there are cpu, disk and memory",
        ),
        (
            "fund = { from = \"base\", cpu = 1, net = 1 }",
            "net is not enforced yet: leave it out; cpu, disk and memory are shared",
        ),
        (
            "reserve = { from = \"base\", net = \"10%\" }",
            "net is not enforced yet: leave it out; cpu, disk and memory are shared",
        ),
        (
            "fund = { cpu = 1 }",
            "fund does not say from whom: write fund = [ { from = \"base\", cpu = 100 } ]",
        ),
        (
            "fund = { from = \"base\", memroy = 1, cpu = 1 }",
            "fund has no \"memroy\": did you mean \"memory\"?",
        ),
        (
            "fund = { from = \"/\", cpu = 1 }",
            "\"/\" is no currency's name: write \"base\"",
        ),
        (
            "fund = { from = \"user-{uid}\", cpu = 1 }",
            "\"user-{uid}\" is no currency's name: what pays is not filled in: write a name of its own",
        ),
        (
            "fund = { from = \"alice/gold\", cpu = 1 }",
            "\"alice/gold\" is no plain name, and a policy makes no others: from is \"base\", \
             the plain name of a currency that a policy declares or root has created (\"staff\"), \
             or a cgroup's path (\"/system.slice\"); what a user has created (USER/NAME) pays for \
             nothing in a policy",
        ),
        (
            "fund = { from = \"root/gold\", cpu = 1 }",
            "\"root/gold\" is no plain name, and a policy makes no others: from is \"base\", \
             the plain name of a currency that a policy declares or root has created (\"staff\"), \
             or a cgroup's path (\"/system.slice\"); what a user has created (USER/NAME) pays for \
             nothing in a policy; write \"gold\"",
        ),
        (
            "fund = { from = \"Gold\", cpu = 1 }",
            "\"Gold\" is no currency's name: from is \"base\", \
             the plain name of a currency that a policy declares or root has created (\"staff\"), \
             or a cgroup's path (\"/system.slice\"); what a user has created (USER/NAME) pays for \
             nothing in a policy",
        ),
        (
            "fund = [ { from = \"b\", cpu = 1 }, { from = \"b\", cpu = 1 } ]",
            "a is given 1 tickets of cpu by b at a.toml:1 already: say it once",
        ),
    ] {
        let at = if said.ends_with("say it once") { 1 } else { 3 };
        refused(
            &format!("[[currency]]\nname = \"a\"\n{line}"),
            &[&format!("a.toml:{at}: {said}")],
        );
    }
}

#[test]
fn problems_of_the_whole() {
    let currency = |name: &str, rest: &str| format!("[[currency]]\nname = \"{name}\"\n{rest}\n");
    let base = |part: &str| format!("reserve = {{ from = \"base\", cpu = \"{part}\" }}");
    refused(
        &(currency("a", &base("50%")) + &currency("b", &base("45.1%"))),
        &["a.toml:4: with this, 95.1% of the cpu of base is reserved: reserve at most 95%"],
    );
    good(&(currency("a", &base("50%")) + &currency("b", &base("45%"))));
    refused(
        &(currency("a", "") + &currency("a", "")),
        &["a.toml:4: a is declared at a.toml:1 already: declare it once"],
    );
    let fund = |from: &str| format!("fund = {{ from = \"{from}\", cpu = 1 }}");
    refused(
        &(currency("a", &fund("b")) + &currency("b", &fund("c")) + &currency("c", &fund("a"))),
        &["a.toml:1: a would fund itself: a ← b ← c ← a: tickets go one way: take one of them out"],
    );
    refused(
        &currency("a", &fund("a")),
        &["a.toml:1: a would fund itself: a ← a: tickets go one way: take one of them out"],
    );
    refused(
        "[[rule]]\nmatch = {}\ncurrency = \"u-{uid}\"\nreserve = { from = \"base\", cpu = \"96%\" }",
        &["a.toml:1: 96% of the cpu of base cannot be reserved: reserve at most 95%"],
    );
    // Long, but a line: neither a cycle nor slow, only too deep.
    let long: String = (0..3000)
        .map(|i| currency(&format!("c{i}"), &fund(&format!("c{}", i + 1))))
        .collect();
    assert_eq!(parse(&long).map_err(|e| e.len()).err(), Some(1));
    let many: String = (0..17)
        .map(|i| format!("{{ from = \"f{i}\", cpu = 1 }},"))
        .collect();
    refused(
        &currency("a", &format!("fund = [{many}]")),
        &["a.toml:1: a has 17 funders for cpu: a currency has at most 16"],
    );
}

#[test]
fn a_currency_that_is_made_elsewhere_is_noted() {
    let policy = good(
        "[[currency]]\nname = \"a\"\n[[rule]]\nmatch = {}\ncurrency = \"u-{uid}\"\nfund = { from = \"b\", cpu = 1 }",
    );
    let notes: Vec<String> = policy.notes().iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "a.toml:3: b is not declared here: it must exist by then (tixctl create), or nothing comes of this",
            "a.toml:1: nothing here funds a: whom it funds gets next to nothing until somebody does (tixctl fund)",
        ]
    );
    assert_eq!(policy.declared()[0].grants, []);
}
