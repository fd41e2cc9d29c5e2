// SPDX-License-Identifier: GPL-2.0-only
//! A Varlink client that can misbehave.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// How long an answer may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Wire(pub UnixStream);

impl Wire {
    pub fn connect(socket: &str) -> Result<Wire> {
        let stream = UnixStream::connect(socket).with_context(|| format!("connect to {socket}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Wire(stream))
    }

    /// The next message; `None` if the other side has hung up.
    pub fn message(&mut self) -> Result<Option<Value>> {
        let mut text = Vec::new();
        let mut byte = [0];
        loop {
            match self.0.read(&mut byte) {
                Ok(1) if byte[0] == 0 => return Ok(Some(serde_json::from_slice(&text)?)),
                Ok(1) => text.push(byte[0]),
                Ok(_) => return Ok(None),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(None),
                Err(e) => return Err(e).context("no answer"),
            }
        }
    }

    /// Calls a method by its full name.
    pub fn raw(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let call = json!({ "method": method, "parameters": parameters });
        self.0.write_all(call.to_string().as_bytes())?;
        self.0.write_all(&[0])?;
        match self.message()? {
            Some(answer) => Ok(answer),
            None => bail!("the connection was closed after {call}"),
        }
    }

    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let answer = self.raw(&format!("org.tix.Tix.{method}"), parameters)?;
        ensure!(answer.get("error").is_none(), "{method}: {answer}");
        Ok(answer["parameters"].clone())
    }

    /// The name of the error that this call must have.
    pub fn error(&mut self, method: &str, parameters: Value) -> Result<String> {
        let answer = self.raw(&format!("org.tix.Tix.{method}"), parameters)?;
        let name = answer["error"]
            .as_str()
            .with_context(|| format!("{method} is not refused: {answer}"))?;
        if let Some(own) = name.strip_prefix("org.tix.Tix.") {
            for text in ["message", "hint"] {
                let said = answer["parameters"][text].as_str().unwrap_or_default();
                ensure!(!said.is_empty(), "an error without a {text}: {answer}");
            }
            return Ok(own.to_owned());
        }
        Ok(name.to_owned())
    }
}
