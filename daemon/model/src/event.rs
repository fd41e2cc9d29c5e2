// SPDX-License-Identifier: GPL-2.0-only
//! What can happen.

/// Has `$with!` written with all kinds of events, so that the wire's are those that tixd has.
#[macro_export]
macro_rules! event_kinds {
    ($with:ident) => {
        $with! {
            Created,
            Destroyed,
            /// A soft ticket's amount changed; `amount` is the new one, 0: it is gone.
            Funded,
            /// A hard ticket's amount changed; `amount` is the new one (thousandths, or bytes of
            /// memory), 0: it is gone.
            Reserved,
            /// A limit was set; `amount` is thousandths of one CPU.
            Limited,
            /// A limit was lifted.
            Unlimited,
            /// The owner, the group or the mode changed.
            Brokered,
            /// Rights to resources were exchanged, or given up for a job.
            Exchanged,
            /// An exchange was revoked; `message` says why.
            Revoked,
            /// An offer is on the book, new or amended.
            Offered,
            /// An offer went off the book without being matched, or what was left of it did;
            /// `message` says why.
            Unoffered,
            /// A guarantee cannot be held at present; `message` says why.
            Unheld,
            /// It can be held again.
            Held,
            /// Funding that somebody else gave was taken away or lowered.
            Withdrawn,
            Bound,
            Unbound,
            /// A cgroup appeared, went, or changed its owner.
            CgroupCreated,
            CgroupRemoved,
            CgroupChanged,
            /// The scheduler was loaded, ejected or given up; `message` says why.
            Scheduler,
            /// The policy was read again, or it changed something.
            Policy,
            /// The ledger cannot be written, or can be again; `message` says which, and why.
            Store,
        }
    };
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// What happened to a currency.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum EventKind {
            $($(#[$doc])* $kind,)*
        }
    };
}

event_kinds!(kinds);
