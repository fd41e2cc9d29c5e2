// SPDX-License-Identifier: GPL-2.0-only
//! Is this call one that the interface has? If not, what every Varlink service answers
//! (`org.varlink.service`).
//!
//! zlink hangs up on a call that it cannot take apart, whatever the reason. So each call is held
//! against the interface's own description before it gets there.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::OnceLock;
use zlink::idl::{CustomType, Interface, Type};

/// The interface as `varlinkctl introspect` prints it; a test compares it with what the service
/// says.
const TEXT: &str = include_str!("../../api/org.tix.Tix.varlink");

/// zlink answers these itself.
const STANDARD: &str = "org.varlink.service";
const STANDARD_METHODS: [(&str, Option<&str>); 2] = [
    ("GetInfo", None),
    ("GetInterfaceDescription", Some("interface")),
];

/// The methods that change nothing: they look, or speak of what is tried.
const LOOKS: [&str; 12] = [
    "Status",
    "Tree",
    "ListCurrencies",
    "Explain",
    "Offers",
    "Exchanges",
    "ShowExchange",
    "Log",
    "Export",
    "Watch",
    "Rehearse",
    "Rehearsed",
];

/// Is `message` a call that may change something? What is not known is.
pub fn may_change(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        method: Cow<'a, str>,
    }
    let Ok(Call { method }) = serde_json::from_slice(message) else {
        return true;
    };
    match method.rsplit_once('.') {
        Some((tix_api::INTERFACE, method)) => !LOOKS.contains(&method),
        Some((STANDARD, _)) => false,
        _ => true,
    }
}

fn interface() -> Option<&'static Interface<'static>> {
    static PARSED: OnceLock<Option<Interface<'static>>> = OnceLock::new();
    PARSED.get_or_init(|| TEXT.try_into().ok()).as_ref()
}

/// The error that answers `message`, if it is a call and makes no sense. What is no call at all is
/// left to zlink, which hangs up.
pub fn complaint(message: &[u8]) -> Option<Vec<u8>> {
    let call: Map<String, Value> = serde_json::from_slice(message).ok()?;
    let method = call.get("method")?.as_str()?;
    let empty = Map::new();
    let parameters = match call.get("parameters") {
        None | Some(Value::Null) => &empty,
        Some(Value::Object(parameters)) => parameters,
        Some(_) => return Some(error("InvalidParameter", "parameter", "parameters")),
    };
    let (name, of) = method.rsplit_once('.').unwrap_or((method, ""));
    let wrong = match name {
        STANDARD => standard(of, parameters)?,
        tix_api::INTERFACE => own(of, parameters)?,
        _ => Wrong::Interface,
    };
    Some(match wrong {
        Wrong::Interface => error("InterfaceNotFound", "interface", name),
        Wrong::Method => error("MethodNotFound", "method", method),
        Wrong::Parameter(parameter) => error("InvalidParameter", "parameter", &parameter),
    })
}

enum Wrong {
    Interface,
    Method,
    Parameter(String),
}

fn error(name: &str, key: &str, value: &str) -> Vec<u8> {
    let parameters = json!({ key: value });
    let answer = json!({ "error": format!("{STANDARD}.{name}"), "parameters": parameters });
    [answer.to_string().as_bytes(), &[0]].concat()
}

fn standard(method: &str, parameters: &Map<String, Value>) -> Option<Wrong> {
    match STANDARD_METHODS.iter().find(|(name, _)| *name == method) {
        None => Some(Wrong::Method),
        Some((_, Some(key))) if !parameters.get(*key).is_some_and(Value::is_string) => {
            Some(Wrong::Parameter((*key).to_owned()))
        }
        Some(_) => None,
    }
}

/// The longest text in a call, bytes: what the kernel takes for a path. Errors repeat what they are
/// about, and zlink takes time with the square of an error's length.
const LONGEST: usize = 4096;
/// The one that is only stored, not looked up.
const DOCUMENT: &str = "chunk";

fn own(method: &str, parameters: &Map<String, Value>) -> Option<Wrong> {
    let interface = interface()?;
    let Some(method) = interface.methods().find(|m| m.name().as_str() == method) else {
        return Some(Wrong::Method);
    };
    method
        .inputs()
        .find(|p| {
            let value = parameters.get(p.name().as_str()).unwrap_or(&Value::Null);
            let name = p.name().as_str();
            !fits(interface, p.ty(), value) || (name != DOCUMENT && is_long(value))
        })
        .map(|p| Wrong::Parameter(p.name().to_string()))
}

fn is_long(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() > LONGEST)
}

fn fits(interface: &Interface<'_>, ty: &Type<'_>, value: &Value) -> bool {
    match ty {
        Type::Bool => value.is_boolean(),
        // Any number: one that is no integer, or too large for one, is refused by name where it is
        // used.
        Type::Int | Type::Float => value.is_number(),
        Type::String => value.is_string(),
        Type::ForeignObject => value.is_object(),
        Type::Any => true,
        Type::Optional(inner) => value.is_null() || fits(interface, inner, value),
        Type::Array(inner) => value
            .as_array()
            .is_some_and(|all| all.iter().all(|v| fits(interface, inner, v))),
        Type::Map(inner) => value
            .as_object()
            .is_some_and(|all| all.values().all(|v| fits(interface, inner, v))),
        Type::Enum(variants) => value
            .as_str()
            .is_some_and(|v| variants.iter().any(|known| known.name().as_str() == v)),
        Type::Object(_) => value.is_object(),
        Type::Custom(name) => match interface.custom_types().find(|t| t.name() == name) {
            Some(CustomType::Enum(known)) => value
                .as_str()
                .is_some_and(|v| known.variants().any(|k| k.name().as_str() == v)),
            _ => value.is_object(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str) -> Option<Value> {
        let answer = complaint(message.as_bytes())?;
        let (end, text) = answer.split_last().unwrap();
        assert_eq!(*end, 0);
        Some(serde_json::from_slice(text).unwrap())
    }

    #[test]
    fn what_looks_is_told_from_what_changes() {
        let of = |method: &str| format!(r#"{{"method":"{method}","parameters":{{}}}}"#);
        let own = |method: &str| of(&format!("{}.{method}", tix_api::INTERFACE));
        for looks in LOOKS {
            let mut all = interface().unwrap().methods();
            assert!(all.any(|m| m.name().as_str() == looks), "{looks}");
            assert!(!may_change(own(looks).as_bytes()), "{looks}");
        }
        assert!(!may_change(of("org.varlink.service.GetInfo").as_bytes()));
        for changes in [
            own("Fund"),
            own("Fond"),
            of("Status"),
            of("a.Status"),
            "{".into(),
        ] {
            assert!(may_change(changes.as_bytes()), "{changes}");
        }
    }

    #[test]
    fn calls_that_the_interface_has_pass() {
        assert!(interface().is_some(), "the description does not parse");
        for good in [
            r#"{"method":"org.tix.Tix.Status"}"#,
            r#"{"method":"org.tix.Tix.Status","parameters":{}}"#,
            r#"{"method":"org.tix.Tix.Status","parameters":null}"#,
            r#"{"method":"org.tix.Tix.Fund",
                "parameters":{"holder":"a","issuer":"b","resource":"cpu","amount":1e300}}"#,
            r#"{"method":"org.tix.Tix.Unfund",
                "parameters":{"holder":"a","issuer":"b","resource":"net"}}"#,
            r#"{"method":"org.tix.Tix.Watch","more":true,
                "parameters":{"processes":null,"interval_ms":200}}"#,
            r#"{"method":"org.varlink.service.GetInfo"}"#,
            // Not ours to answer: zlink hangs up on these.
            r#"{"method":7}"#,
            "{}",
            "[]",
            "noise",
        ] {
            assert_eq!(said(good), None, "{good}");
        }
    }

    #[test]
    fn only_a_document_may_be_long() {
        let call = |method: &str, parameters: Value| {
            let call = json!({"method": format!("org.tix.Tix.{method}"), "parameters": parameters});
            said(&call.to_string())
        };
        let text = |n: usize| "x".repeat(n);
        assert_eq!(call("Destroy", json!({"name": text(LONGEST)})), None);
        let answer = call("Destroy", json!({"name": text(LONGEST + 1)})).unwrap();
        assert_eq!(answer["parameters"], json!({"parameter": "name"}));
        let import = json!({"id": 1, "chunk": text(60_000)});
        assert_eq!(call("ImportChunk", import), None);
    }

    #[test]
    fn others_are_answered_as_varlink_has_it() {
        for (bad, error, key, value) in [
            (
                r#"{"method":"org.tix.Tix.Frob"}"#,
                "MethodNotFound",
                "method",
                "org.tix.Tix.Frob",
            ),
            (
                r#"{"method":"org.tix.Tix."}"#,
                "MethodNotFound",
                "method",
                "org.tix.Tix.",
            ),
            (
                r#"{"method":"org.varlink.service.X"}"#,
                "MethodNotFound",
                "method",
                "org.varlink.service.X",
            ),
            (
                r#"{"method":"a.b.C"}"#,
                "InterfaceNotFound",
                "interface",
                "a.b",
            ),
            (r#"{"method":""}"#, "InterfaceNotFound", "interface", ""),
            (
                r#"{"method":"org.tix.Tix.Create"}"#,
                "InvalidParameter",
                "parameter",
                "name",
            ),
            (
                r#"{"method":"org.tix.Tix.Create","parameters":{"name":7}}"#,
                "InvalidParameter",
                "parameter",
                "name",
            ),
            (
                r#"{"method":"org.tix.Tix.Create","parameters":[1]}"#,
                "InvalidParameter",
                "parameter",
                "parameters",
            ),
            (
                r#"{"method":"org.tix.Tix.Fund",
                    "parameters":{"holder":"a","issuer":"b","resource":"gold","amount":1}}"#,
                "InvalidParameter",
                "parameter",
                "resource",
            ),
        ] {
            let answer = said(bad).unwrap_or_else(|| panic!("{bad} passes"));
            assert_eq!(
                answer["error"],
                format!("org.varlink.service.{error}"),
                "{bad}"
            );
            assert_eq!(answer["parameters"][key], value, "{bad}");
        }
    }
}
