// SPDX-License-Identifier: GPL-2.0-only
//! What went wrong, what to do about it, and the exit status that says so.

use crate::harmless::harmless;
use anstyle::{AnsiColor, Style};
use std::path::Path;
use std::process::ExitCode;

const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const HINT: Style = AnsiColor::Cyan.on_default();

/// Why a command was not done. (Most wrong usage, exit status 2, is found by the argument parser.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Exit status 1: understood, and refused.
    Refused { message: String, hint: String },
    /// Exit status 2: makes no sense, whatever there is.
    Usage { message: String, hint: String },
    /// Exit status 3: nobody to ask.
    Unreachable { message: String, hint: String },
    /// Exit status 1: what was printed on stdout says it all.
    Said,
    /// Whoever read our output has gone: nothing to say, and nobody to say it to.
    ReaderGone,
}

impl Failure {
    pub fn refused(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::Refused {
            message: message.into(),
            hint: hint.into(),
        }
    }

    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Failure {
        Failure::Usage {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// A file operation that failed: every such error carries the path.
    pub fn io(doing: &str, path: &Path, err: &std::io::Error, hint: impl Into<String>) -> Failure {
        Failure::refused(format!("cannot {doing} {}: {err}", path.display()), hint)
    }

    /// Says it on stderr; the exit status to end with.
    pub fn report(&self) -> ExitCode {
        let (code, message, hint) = match self {
            Failure::Refused { message, hint } => (1, message, hint),
            Failure::Usage { message, hint } => (2, message, hint),
            Failure::Unreachable { message, hint } => (3, message, hint),
            Failure::Said => return ExitCode::from(1),
            Failure::ReaderGone => return ExitCode::SUCCESS,
        };
        let (message, hint) = (harmless(message), harmless(hint));
        anstream::eprintln!("{ERROR}error:{ERROR:#} {message}");
        if !hint.is_empty() {
            anstream::eprintln!("{HINT}hint:{HINT:#} {hint}");
        }
        ExitCode::from(code)
    }
}

impl From<tix_api::Error> for Failure {
    fn from(err: tix_api::Error) -> Failure {
        tix_client::Error::from(err).into()
    }
}

impl From<tix_client::Error> for Failure {
    fn from(err: tix_client::Error) -> Failure {
        let message = err.message();
        let hint = match err.hint() {
            "" => "`tixctl status` says whether all is well".to_owned(),
            hint => hint.to_owned(),
        };
        match err {
            tix_client::Error::Unreachable { .. } => Failure::Unreachable { message, hint },
            _ => Failure::Refused { message, hint },
        }
    }
}
