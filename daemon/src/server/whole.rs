// SPDX-License-Identifier: GPL-2.0-only
//! Replies of any length, at a cost in proportion to it.
//!
//! zlink puts a reply into words in a buffer that grows by 256 bytes whenever it is too small, and
//! begins anew each time: twice the length takes four times as long. So a long reply is put into
//! words here, once; zlink gets a placeholder for it, and the guard, which is asked to write as
//! soon as zlink has done that, writes the text in its place.

use serde::ser::{Error as _, Serialize, SerializeStruct, Serializer};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use tix_api::*;
use zlink::idl;
use zlink::introspect::Type;

// zlink names what it makes of a method after the last word of its reply's type.
pub type WholeStatus = Whole<StatusReply>;
pub type WholeTree = Written<TreeReply>;
pub type WholeList = Written<ListReply>;
pub type WholeExplain = Whole<ExplainReply>;
pub type WholeLog = Written<LogReply>;
pub type WholeExport = Whole<ExportReply>;
pub type WholeWatch = Written<WatchReply>;
pub type WholeOffer = Whole<OfferReply>;
pub type WholeOffers = Whole<OffersReply>;
pub type WholeExchange = Whole<ExchangeReply>;
pub type WholeExchanges = Whole<ExchangesReply>;

/// What fits into zlink's buffer as it is at first, bytes.
const SHORT: usize = 200;

thread_local! {
    /// The text that the last placeholder stands for, and its number.
    static TEXT: RefCell<Option<(u64, Vec<u8>)>> = const { RefCell::new(None) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// A reply that may be long.
#[derive(Debug)]
pub struct Whole<T>(pub T);

impl<T: Type> Type for Whole<T> {
    const TYPE: &'static idl::Type<'static> = T::TYPE;
}

impl<T: Serialize> Serialize for Whole<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_vec(&self.0).map_err(S::Error::custom)?;
        if text.len() < SHORT {
            return self.0.serialize(s);
        }
        let number = NEXT.get();
        NEXT.set(number + 1);
        TEXT.set(Some((number, text)));
        let mut placeholder = s.serialize_struct("Whole", 1)?;
        placeholder.serialize_field("whole", &number)?;
        placeholder.end()
    }
}

/// A reply that is in words already: one that is as long as the machine has cgroups is put into
/// words on another thread.
#[derive(Debug)]
pub struct Written<T> {
    text: RefCell<Vec<u8>>,
    /// The number of its placeholder.
    number: Cell<Option<u64>>,
    of: PhantomData<T>,
}

impl<T: Serialize> Written<T> {
    /// Takes as long as the reply does.
    ///
    /// # Errors
    /// It cannot be put into words.
    pub fn of(reply: &T) -> serde_json::Result<Written<T>> {
        Ok(Written {
            text: RefCell::new(serde_json::to_vec(reply)?),
            number: Cell::new(None),
            of: PhantomData,
        })
    }
}

impl<T: Type> Type for Written<T> {
    const TYPE: &'static idl::Type<'static> = T::TYPE;
}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let number = self.number.get().unwrap_or_else(|| {
            let number = NEXT.get();
            NEXT.set(number + 1);
            TEXT.set(Some((number, self.text.take())));
            number
        });
        self.number.set(Some(number));
        let mut placeholder = s.serialize_struct("Whole", 1)?;
        placeholder.serialize_field("whole", &number)?;
        placeholder.end()
    }
}

/// `message` with the text in it, if it is one with a placeholder, and the last.
pub fn fill(message: &[u8]) -> Option<Vec<u8>> {
    let (number, text) = TEXT.take()?;
    let placeholder = format!(r#"{{"parameters":{{"whole":{number}}}"#);
    let rest = message.strip_prefix(placeholder.as_bytes())?;
    let start = br#"{"parameters":"#;
    Some([start, text.as_slice(), rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zlink::Reply;

    fn written<T: Serialize>(reply: T) -> String {
        let reply = Reply::new(Some(Whole(reply))).set_continues(Some(true));
        let text = serde_json::to_vec(&reply).expect("a reply is JSON");
        let text = fill(&text).unwrap_or(text);
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn what_is_in_words_already_is_the_reply() {
        for n in [0, 10, 100_000] {
            let all: Vec<usize> = (0..n).collect();
            let whole = serde_json::to_string(&Reply::new(Some(&all)).set_continues(Some(true)));
            let ready = Written::of(&all).expect("a reply is JSON");
            let reply = Reply::new(Some(ready)).set_continues(Some(true));
            // Twice, as zlink does where its buffer was too short.
            let _short = serde_json::to_vec(&reply).expect("a reply is JSON");
            let text = serde_json::to_vec(&reply).expect("a reply is JSON");
            let text = fill(&text).expect("a placeholder");
            assert_eq!(text, whole.expect("a reply is JSON").into_bytes());
        }
    }

    #[test]
    fn long_or_short_it_is_the_reply() {
        for n in [0, 10, 1_000, 100_000] {
            let all: Vec<usize> = (0..n).collect();
            let whole = serde_json::to_string(&Reply::new(Some(&all)).set_continues(Some(true)));
            assert_eq!(written(&all), whole.expect("a reply is JSON"));
        }
    }

    #[test]
    fn another_message_stays_what_it_is() {
        let placeholder = serde_json::to_vec(&Whole("x".repeat(1000))).expect("JSON");
        assert!(placeholder.len() < SHORT);
        assert_eq!(fill(b"{\"parameters\":{\"whole\":77777}}\0"), None);
        assert_eq!(fill(b"{}\0"), None);
    }
}
