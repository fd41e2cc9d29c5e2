// SPDX-License-Identifier: GPL-2.0-only
//! Why a request is not answered, as the wire has it.

use crate::writer::Failure;
use tix_api::Error;
use tix_ledger::Refusal;

pub fn refusal(r: &Refusal) -> Error {
    use Error as E;
    let (message, hint) = (r.to_string(), r.hint().into_owned());
    match r {
        Refusal::NoSuchCurrency(_) => E::NoSuchCurrency { message, hint },
        Refusal::Ambiguous { .. } => E::Ambiguous { message, hint },
        Refusal::NoSuchCgroup(_) => E::NoSuchCgroup { message, hint },
        Refusal::AlreadyExists(_) => E::AlreadyExists { message, hint },
        Refusal::BadName(_) | Refusal::OtherSpace { .. } => E::BadName { message, hint },
        Refusal::BadAmount(_) => E::BadAmount { message, hint },
        Refusal::BadMode(_) => E::BadMode { message, hint },
        Refusal::BadHard(_) => E::BadHard { message, hint },
        Refusal::BadLimit(_) => E::BadLimit { message, hint },
        Refusal::NotLimited(_) => E::NotLimited { message, hint },
        Refusal::NotPermitted { .. } => E::NotPermitted { message, hint },
        Refusal::WouldCycle { .. } => E::WouldCycle { message, hint },
        Refusal::LimitReached(_) => E::LimitReached { message, hint },
        Refusal::NotFunded { .. } | Refusal::TooFew { .. } => E::NotFunded { message, hint },
        Refusal::NotBound { .. } => E::NotBound { message, hint },
        Refusal::AlreadyBound { .. } => E::AlreadyBound { message, hint },
        Refusal::NotNamed(..) => E::NotNamed { message, hint },
        Refusal::TooMuch { left, asked, .. } => E::TooMuch {
            message,
            hint,
            left: *left,
            asked: *asked,
        },
        Refusal::TooLittle { .. } => E::TooLittle { message, hint },
        Refusal::NoSuchOffer(_) => E::NoSuchOffer { message, hint },
        Refusal::BadOffer(_) => E::BadOffer { message, hint },
        Refusal::SelfTrade { .. } => E::SelfTrade { message, hint },
        Refusal::Lifeline(_) | Refusal::OwnPlace { .. } => E::NotPermitted { message, hint },
        Refusal::NotEnforced(_) => E::BadParameter { message, hint },
    }
}

pub fn internal(e: Failure) -> Error {
    let text =
        |e: &dyn std::fmt::Display| (e.to_string(), "`journalctl -u tixd` says more".to_owned());
    match e {
        Failure::Refused(r) => refusal(&r),
        Failure::Store(e) => {
            let (message, hint) = text(&e);
            Error::NotDurable { message, hint }
        }
        Failure::NotKept(message) => Error::NotDurable {
            message: format!("nothing was changed: {message}"),
            hint: "`tixctl status` says when the ledger can be written again".into(),
        },
        Failure::Overtaken(..) => Error::BadParameter {
            message: e.to_string(),
            hint: "`tixctl log` shows what was done; try again, which looks at it".to_owned(),
        },
        Failure::Undone(_) => {
            let hint = "`tixctl log --mine` shows what you did, with its numbers".to_owned();
            Error::BadParameter {
                message: e.to_string(),
                hint,
            }
        }
        Failure::Beside(e) => Error::Internal {
            message: e.to_string(),
            hint: "try again; if it stays so, `journalctl -u tixd` says more".into(),
        },
        Failure::Ending => Error::Internal {
            message: "tixd is ending".into(),
            hint: "try again".into(),
        },
    }
}

pub fn bad(message: String, hint: &str) -> Error {
    Error::BadParameter {
        message,
        hint: hint.into(),
    }
}
