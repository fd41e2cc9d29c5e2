// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as callers may write them.

use super::errors::bad;
use tix_api::Error;
use tix_ledger::Hard;

/// A hard share as callers write it.
pub fn hard(milli: Option<Amount>, bytes: Option<Amount>) -> Result<Hard, Error> {
    let positive = |a: Amount| u64::try_from(a.0).unwrap_or(0);
    match (milli, bytes) {
        (Some(m), None) => Ok(Hard::Milli(positive(m))),
        (None, Some(b)) => Ok(Hard::Bytes(positive(b))),
        _ => {
            let what = "a hard share is either thousandths or bytes".to_owned();
            Err(bad(what, "give exactly one of milli and bytes"))
        }
    }
}

/// An amount as a caller may write it: a number beyond all bounds is refused like any other bad
/// amount, not as a malformed message.
#[derive(Debug, Clone, Copy)]
pub struct Amount(pub i64);

impl zlink::introspect::Type for Amount {
    const TYPE: &'static zlink::idl::Type<'static> = &zlink::idl::Type::Int;
}

impl<'de> serde::Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Amount, D::Error> {
        let n = serde_json::Number::deserialize(d)?;
        let fraction = n.as_f64().unwrap_or(f64::MAX);
        // What is no integer is no amount: 0 is refused.
        Ok(Amount(n.as_i64().unwrap_or(if fraction.abs() >= 9e18 {
            i64::MAX
        } else {
            0
        })))
    }
}

impl serde::Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.serialize_i64(self.0)
    }
}
