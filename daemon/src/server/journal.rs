// SPDX-License-Identifier: GPL-2.0-only
//! Pages of the log, read in slices beside the writer.

use super::errors::{self, bad};
use super::session::{Session, written};
use super::whole::Written;
use super::{names, view};
use crate::writer::Core;
use tix_api::{Error, LogReply};
use tix_store::{Page, Query, SCAN};

/// Records of the log that are looked at, and told, before others' requests have their turn.
pub(super) const SLICE: i64 = 500;
pub(super) const SLICE_TOLD: usize = 100;

/// What a caller asks of the log.
pub struct Asked {
    pub after: Option<i64>,
    pub limit: i64,
    pub subject: Option<String>,
    pub since_usec: Option<i64>,
    pub mine: bool,
}

impl Session {
    pub(super) async fn log_page(&self, asked: Asked) -> Result<Written<LogReply>, Error> {
        let Asked {
            after,
            limit,
            subject,
            since_usec,
            mine,
        } = asked;
        if !(1..=1000).contains(&limit) {
            return Err(bad(format!("a limit of {limit} records"), "1 to 1000"));
        }
        let uid = self.caller.uid;
        // What is others' business is the readers' to read.
        let concerning = (mine || !self.reads_all).then_some(uid);
        self.pace.wait(self.user, 5.0).await;
        let subject = match subject {
            Some(s) => {
                let known = move |core: &mut Core| names::known_or_gone(&core.ledger, &s, uid);
                Some(self.ask(known).await?)
            }
            None => None,
        };
        let newest = after.is_none() && since_usec.is_none();
        let limit = usize::try_from(limit).unwrap_or(1);
        let mut page = Page {
            next: Some(if newest { i64::MAX } else { after.unwrap_or(0) }),
            ..Page::default()
        };
        for _ in 0..SCAN / SLICE {
            let (Some(from), left) = (page.next, limit - page.records.len()) else {
                break;
            };
            if left == 0 {
                break;
            }
            self.pace.wait(self.user, 1.0).await;
            let subject = subject.clone();
            let slice = self.handle.read(move |store| {
                store.log(&Query {
                    after: if newest { 0 } else { from },
                    before: if newest { from } else { i64::MAX },
                    newest,
                    limit: left.min(SLICE_TOLD),
                    subject: subject.as_deref(),
                    since_usec: since_usec.map_or(0, i64::unsigned_abs),
                    concerning,
                    scan: SLICE,
                    ..Query::default()
                })
            });
            let slice = slice.await.map_err(errors::internal)?;
            let slice = slice.map_err(|e| errors::internal(e.into()))?;
            page.records.extend(slice.records);
            page.next = slice.next;
        }
        if newest {
            page.records.reverse();
        }
        let records = page.records.into_iter();
        let reply = LogReply {
            records: records.map(|(seq, r)| view::record(seq, r)).collect(),
            next: page.next.filter(|_| !newest).map(i64::unsigned_abs),
        };
        written(reply).await
    }
}
