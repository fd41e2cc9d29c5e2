// SPDX-License-Identifier: GPL-2.0-only
//! Something that listens where tixd would.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Output};

/// Runs tixctl against a peer that gives these answers, one to each call (several, if it is an
/// array), and then hangs up; the calls, and what came of it.
pub fn talk(arguments: &[&str], answers: &[Value]) -> (Vec<Value>, Output) {
    talk_with(&[], arguments, answers)
}

/// The same, with these variables.
pub fn talk_with(
    variables: &[(&str, &str)],
    arguments: &[&str],
    answers: &[Value],
) -> (Vec<Value>, Output) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("tixd.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let answers = answers.to_vec();
    let peer = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut calls: Vec<Value> = Vec::new();
        for answer in &answers {
            let mut call = Vec::new();
            reader.read_until(0, &mut call).unwrap();
            assert_eq!(call.pop(), Some(0), "no call but {calls:?}");
            calls.push(serde_json::from_slice(&call).unwrap());
            let one = std::slice::from_ref(answer);
            for answer in answer.as_array().map_or(one, Vec::as_slice) {
                let message = [answer.to_string().as_bytes(), &[0]].concat();
                (&stream).write_all(&message).unwrap();
            }
        }
        calls
    });
    let output = Command::new(env!("CARGO_BIN_EXE_tixctl"))
        .args(arguments)
        .env("TIX_SOCKET", &socket)
        .env("TZ", "UTC")
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    // Should it not have called at all, then the peer waits still.
    drop(UnixStream::connect(&socket));
    (peer.join().unwrap(), output)
}

/// A command that makes one call and is granted it.
pub fn granted(arguments: &[&str], reply: Value) -> (String, Value, String) {
    let answer = match reply.as_object().is_some_and(|all| all.is_empty()) {
        true => json!({}),
        false => json!({ "parameters": reply }),
    };
    let (calls, output) = talk(arguments, &[answer]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    let method = calls[0]["method"].as_str().unwrap();
    let method = method.strip_prefix("org.tix.Tix.").unwrap();
    let mut parameters = calls[0]["parameters"].clone();
    // What is not said may be left out or null.
    if let Some(all) = parameters.as_object_mut() {
        all.retain(|_, value| !value.is_null());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (method.to_owned(), parameters, text)
}
