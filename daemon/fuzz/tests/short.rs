// SPDX-License-Identifier: GPL-2.0-only
//! The corpus of the fuzz targets, and a short run of inputs made at random: without the
//! sanitizers, but with every check of a debug build. The long one is `make fuzz`.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::path::Path;
use tix_fuzz::{api, policy, world};

fn corpus(target: &str, run: impl Fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let mut inputs = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        run(&std::fs::read(path).unwrap());
        inputs += 1;
    }
    assert!(inputs > 0, "{} is empty", dir.display());
}

fn messages(input: &[u8]) {
    world::with(&world::runtime(), async |world| {
        api::run(world, input).await
    });
}

#[test]
fn the_corpus_of_the_api() {
    corpus("api", messages);
}

#[test]
fn the_corpus_of_the_policies() {
    corpus("policy", |input| {
        policy::run(input);
    });
}

fn lines() -> impl Strategy<Value = String> {
    let methods = [
        "Create",
        "Destroy",
        "Fund",
        "Unfund",
        "Reserve",
        "Unreserve",
        "Limit",
        "Unlimit",
        "Chmod",
        "Chown",
        "Bind",
        "Unbind",
        "RunBegin",
        "NiceBegin",
        "Offer",
        "Amend",
        "Accept",
        "Cancel",
        "Explain",
        "Tree",
        "Log",
        "Watch+",
        "Export+",
        "ImportBegin",
        "ImportChunk",
        "ImportEnd",
    ];
    let words = [
        "x",
        "y",
        "alice",
        "bob",
        "base",
        "/",
        world::ALICES,
        world::BOBS,
        world::SERVICE,
        "web.service",
        "/user.slice/user-1000.slice/a",
        "cpu",
        "disk",
        "memory",
        "1",
        "2",
        "100",
        "-1",
        "2147483648",
        "1e300",
        "null",
        "true",
        "777",
        "g+f",
        "cpu:1",
        "disk:10%",
        "_",
        "{}",
        "\"\\u0000\"",
    ];
    let call = (
        prop::sample::select(methods.to_vec()),
        prop::collection::vec(prop::sample::select(words.to_vec()), 0..6),
    );
    let line = prop_oneof![
        8 => (prop::sample::select(vec!['r', 'a', 'b', 'A']), call).prop_map(|(who, (method, words))| format!("{who} {method} {}", words.join(" "))),
        1 => "[rab] !\\PC{0,60}",
        1 => Just("+a /user.slice/user-1000.slice/a".to_owned()),
        1 => Just("-a /user.slice/user-1000.slice/a".to_owned()),
    ];
    prop::collection::vec(line, 1..40).prop_map(|lines| lines.join("\n"))
}

#[test]
fn messages_at_random() {
    let config = ProptestConfig::with_cases(100);
    let done = TestRunner::new(config).run(&lines(), |input| {
        messages(input.as_bytes());
        Ok(())
    });
    done.unwrap_or_else(|e| panic!("{e}"));
}
