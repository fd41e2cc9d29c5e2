// SPDX-License-Identifier: GPL-2.0-only
//! Numbers as callers may write them.

/// An amount as a caller may write it: a number beyond all bounds is refused like any other bad amount, not as a malformed message.
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
