// SPDX-License-Identifier: GPL-2.0-only
//! What tixd refuses, and why. Every error says what happened to whom (`message`) and what to do
//! (`hint`).

use std::fmt;
use zlink::{ReplyError, introspect};

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $({ $($(#[$what:meta])* $more:ident: $ty:ty,)* })?,)*) => {
        /// A refusal.
        #[derive(Debug, Clone, PartialEq, Eq, ReplyError, introspect::ReplyError)]
        #[zlink(interface = "org.tix.Tix")]
        pub enum Error {
            $($(#[$doc])* $name {
                message: String,
                hint: String,
                $($($(#[$what])* $more: $ty,)*)?
            },)*
        }

        impl Error {
            /// What happened, and to whom.
            pub fn message(&self) -> &str {
                match self { $(Error::$name { message, .. } => message,)* }
            }

            /// What to do about it; may be empty.
            pub fn hint(&self) -> &str {
                match self { $(Error::$name { hint, .. } => hint,)* }
            }

            /// The error's name in the interface, without the interface.
            pub fn name(&self) -> &'static str {
                match self { $(Error::$name { .. } => stringify!($name),)* }
            }
        }
    };
}

errors! {
    /// Nothing is called that: no currency, no cgroup, no unit.
    NoSuchCurrency,
    /// The name means two things to the caller, or one that the caller has not made: to destroy it,
    /// the name is given in full.
    Ambiguous,
    /// The cgroup or unit does not exist (any more).
    NoSuchCgroup,
    /// The name is taken.
    AlreadyExists,
    /// Names are `[a-z][a-z0-9_-]{0,62}`, and not `base`; what a user makes has `USER/` in front,
    /// the user's own, which may be left out.
    BadName,
    /// Amounts are 1 … 2^31 tickets, the sum in one ticket included.
    BadAmount,
    /// That is no hard share: 1 … 999 thousandths or, of memory, bytes.
    BadHard,
    /// That is no limit: 1 … 1,024,000 thousandths of one CPU, of any currency but base.
    BadLimit,
    /// It has no limit of its own that could be lifted.
    NotLimited,
    /// That is no mode: symbolic (`g+f`), nine characters, or octal.
    BadMode,
    /// Another parameter is out of its range.
    BadParameter,
    /// The caller may not do this to that currency.
    NotPermitted,
    /// The ticket would let a currency fund itself.
    WouldCycle,
    /// A limit of the funding graph or of the caller's quota is reached.
    LimitReached,
    /// The issuer has not that much left to guarantee.
    TooMuch {
        /// What it could still guarantee, and what was asked for: both thousandths of the issuer,
        /// or both bytes.
        left: u64,
        asked: u64,
    },
    /// The giver has too little to give that much up.
    TooLittle,
    /// There is no offer and no exchange of that number (any more).
    NoSuchOffer,
    /// That makes no offer: one resource for another, and a minimum within what is wanted.
    BadOffer,
    /// An offer would be matched with another one of the same currency.
    SelfTrade,
    /// There is no such ticket to withdraw.
    NotFunded,
    /// The currency is not bound there; or the cgroup is bound to another one already.
    NotBound,
    /// The cgroup is bound to another currency already.
    AlreadyBound,
    /// A currency that mirrors a cgroup, or that tixd keeps for itself, cannot be treated so.
    NotNamed,
    /// The operation could not be made durable; nothing was changed.
    NotDurable,
    /// tixd failed; the journal has more.
    Internal,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())?;
        if !self.hint().is_empty() {
            write!(f, " ({})", self.hint())?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
