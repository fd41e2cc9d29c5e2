// SPDX-License-Identifier: GPL-2.0-only
//! Talking to tixd: what the market is like, and having done what was decided.

use std::time::Duration;
use tix_api::{Exchange, Offer, Tix};
use tix_client::{Client, Error};
use tix_negotiate::{Act, Deal, Each, Holding, Market, Offered, TRADED};

/// Offers or exchanges in one answer of tixd's.
const PAGE: i64 = 1000;
/// Pages that are looked at: a book of any size costs the same.
const PAGES: usize = 4;

/// A conversation about one principal.
pub struct House {
    client: Client,
    /// As tixd calls it.
    principal: String,
    pub cgroup: Option<String>,
    holds: Each<Holding>,
    /// Exchanges up to this number are over, or not the principal's.
    over: u64,
}

impl House {
    /// Begins one about `principal`, however the caller calls it.
    pub async fn enter(principal: &str) -> Result<House, Error> {
        let client = Client::connect().await?;
        let mut house = House {
            client,
            principal: principal.to_owned(),
            cgroup: None,
            holds: Each::default(),
            over: 0,
        };
        house.look().await?;
        Ok(house)
    }

    /// What the principal holds now.
    pub async fn look(&mut self) -> Result<(), Error> {
        for (i, resource) in TRADED.into_iter().enumerate() {
            let name = &self.principal;
            let reply = self.client.call(|t| t.explain(name, Some(resource)));
            let reply = reply.await?;
            self.holds[i] = Holding::of(&reply);
            self.principal = reply.currency.name;
            self.cgroup = reply.currency.cgroup;
        }
        Ok(())
    }

    /// The book, and what has been exchanged: in this order, so that what is matched meanwhile is in both.
    pub async fn market(&mut self) -> Result<Market, Error> {
        let offers = self.offers().await?;
        let exchanges = self.exchanges().await?;
        let principal = &self.principal;
        let offers = offers.iter().map(|o| Offered::of(o, principal));
        let deals = exchanges.iter().filter_map(|x| Deal::of(x, principal));
        let deals: Vec<Deal> = deals.collect();
        // What came before the oldest that is in force need not be asked for again.
        let newest = exchanges.iter().map(|x| x.id).max().unwrap_or(self.over);
        let oldest = deals.iter().map(|d| d.id.saturating_sub(1)).min();
        self.over = oldest.unwrap_or(newest);
        Ok(Market {
            holds: self.holds,
            offers: offers.collect(),
            deals,
        })
    }

    async fn offers(&mut self) -> Result<Vec<Offer>, Error> {
        let (mut all, mut after) = (Vec::new(), None);
        for _ in 0..PAGES {
            let page = self.client.call(|t| t.offers(None, after, Some(PAGE)));
            let page = page.await?;
            all.extend(page.offers);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(all)
    }

    async fn exchanges(&mut self) -> Result<Vec<Exchange>, Error> {
        let (mut all, mut after) = (Vec::new(), Some(self.over));
        while after.is_some() {
            let name = &self.principal;
            let page = (self.client).call(|t| t.exchanges(Some(name), after, Some(PAGE)));
            let page = page.await?;
            all.extend(page.exchanges);
            after = page.next;
        }
        Ok(all)
    }

    /// Has it done; the number of a new offer.
    pub async fn act(&mut self, act: &Act) -> Result<Option<u64>, Error> {
        let seconds = |d: &Duration| i64::try_from(d.as_secs().max(1)).unwrap_or(i64::MAX);
        match act {
            Act::Offer { give, want, lasts } => {
                let (give, want, lasts) = (give.text(), want.text(), seconds(lasts));
                let name = &self.principal;
                let offer = |t| Tix::offer(t, name, &give, &want, None, None, Some(lasts));
                Ok(Some(self.client.call(offer).await?.id))
            }
            Act::Amend {
                id,
                give,
                want,
                lasts,
            } => {
                let (give, want, lasts) = (give.text(), want.text(), seconds(lasts));
                let (give, want) = (Some(give.as_str()), Some(want.as_str()));
                let amend = self
                    .client
                    .call(|t| t.amend(*id, give, want, None, None, Some(lasts)));
                amend.await.map(|_| None)
            }
            Act::Cancel { id } => self.client.call(|t| t.cancel(*id)).await.map(|_| None),
        }
    }
}
