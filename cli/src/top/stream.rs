// SPDX-License-Identifier: GPL-2.0-only
//! What tixd streams: samples, and events between them.

use crate::failure::Failure;
use futures_util::{Stream, StreamExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use tix_api::{Event, Sample, WatchReply};
use tix_client::{Client, Error};

/// What tixd streams.
pub enum Piece {
    Sample(Box<Sample>),
    Event(Box<Event>),
}

pub struct News<S> {
    pub replies: Pin<Box<S>>,
    pub socket: PathBuf,
}

impl<S: Stream<Item = zlink::Result<Result<WatchReply, tix_api::Error>>>> News<S> {
    pub async fn next(&mut self) -> Result<Piece, Failure> {
        let socket: &Path = &self.socket;
        loop {
            match self.replies.next().await {
                None => return Err(Error::unreachable(socket, "it closed the connection").into()),
                Some(Err(err)) => return Err(Client::lost(socket, &err).into()),
                Some(Ok(Err(refusal))) => return Err(refusal.into()),
                Some(Ok(Ok(WatchReply {
                    sample: Some(sample),
                    ..
                }))) => return Ok(Piece::Sample(Box::new(sample))),
                Some(Ok(Ok(WatchReply {
                    event: Some(event), ..
                }))) => return Ok(Piece::Event(Box::new(event))),
                Some(Ok(Ok(WatchReply { .. }))) => {}
            }
        }
    }

    pub async fn sample(&mut self) -> Result<Box<Sample>, Failure> {
        loop {
            if let Piece::Sample(sample) = self.next().await? {
                return Ok(sample);
            }
        }
    }
}
