// SPDX-License-Identifier: GPL-2.0-only
//! A command that changes the ledger: tried first if that is what was asked for, and said when
//! done.

use crate::failure::Failure;
use crate::out;
use crate::report::Report;
use tix_api::{RehearsedReply, Tix};
use tix_client::Client;

/// Every command that changes the ledger takes this.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Step {
    /// Change nothing: show what would be done, and whose share would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    report: Report,
}

impl Step {
    /// Is nothing to be changed?
    pub fn is_dry(self) -> bool {
        self.dry_run
    }

    /// A connection for one change.
    pub async fn connect(self) -> Result<Client, Failure> {
        let mut client = Client::connect().await?;
        if self.dry_run {
            client.call(|tixd| tixd.rehearse()).await?;
        }
        Ok(client)
    }

    /// Says what is in force now, or what would be.
    pub async fn done(self, client: &mut Client, text: &str) -> Result<(), Failure> {
        if !self.dry_run {
            return self.report.print(text);
        }
        let tried = client.call(|tixd| tixd.rehearsed()).await?;
        self.report.print(&render(&tried, out::width()))
    }
}

fn render(tried: &RehearsedReply, width: Option<u16>) -> String {
    let mut text: Vec<String> = match tried.acts.as_slice() {
        [] => vec!["Nothing would be done: it is so already.".into()],
        acts => acts
            .iter()
            .map(|act| format!("Would be done: {act}."))
            .collect(),
    };
    let rows = tried.effects.iter().map(|effect| {
        vec![
            effect.currency.clone(),
            effect.resource.name().to_owned(),
            out::percent(effect.before),
            out::percent(effect.after),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if !rows.is_empty() {
        let columns = ["CURRENCY", "RESOURCE", ">ENTITLED NOW", ">THEN"];
        text.push(out::table(&columns, rows, width));
    }
    if tried.more > 0 {
        text.push(format!("… and {} more shares.", tried.more));
    }
    text.push("Nothing was changed.".into());
    text.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tix_api::{Effect, Resource};

    #[test]
    fn what_would_be_done_and_to_whom() {
        let effect = |currency: &str, before, after| Effect {
            currency: currency.into(),
            resource: Resource::Cpu,
            before,
            after,
        };
        let mut tried = RehearsedReply {
            acts: vec!["alice holds 300 cpu tickets of base".into()],
            effects: vec![
                effect("alice", 0.0, 0.75),
                effect("/user.slice", 0.5, 0.125),
            ],
            more: 3,
        };
        let text = |tried: &_| anstream::adapter::strip_str(&render(tried, None)).to_string();
        insta::assert_snapshot!(text(&tried), @r"
        Would be done: alice holds 300 cpu tickets of base.
        CURRENCY     RESOURCE  ENTITLED NOW     THEN
        alice        cpu             0.00 %  75.00 %
        /user.slice  cpu            50.00 %  12.50 %
        … and 3 more shares.
        Nothing was changed.
        ");
        tried.acts.clear();
        tried.effects.clear();
        tried.more = 0;
        insta::assert_snapshot!(text(&tried), @r"
        Nothing would be done: it is so already.
        Nothing was changed.
        ");
    }
}
