// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl chown`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use crate::users::{self, Names};
use clap_complete::ArgValueCandidates;
use tix_api::Tix;

/// Change whose a currency is
///
/// Only root may give it to another user; its owner may give it to a group that the owner is in.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The new owner, and after a colon the new group; by name or by number
    #[arg(value_name = "USER[:GROUP]", value_parser = owner)]
    owner: Owner,
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::currencies))]
    name: String,
    #[command(flatten)]
    step: Step,
}

/// Names or numbers; one of them may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    user: Option<String>,
    group: Option<String>,
}

fn owner(text: &str) -> Result<Owner, String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let user = (!user.is_empty()).then(|| user.to_owned());
    match group {
        Some(group) if group.is_empty() || group.contains(':') => {
            Err("after the colon stands the group".into())
        }
        None if user.is_none() => Err("USER, USER:GROUP or :GROUP".into()),
        group => Ok(Owner {
            user,
            group: group.map(str::to_owned),
        }),
    }
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let Args { owner, name, step } = args;
    let user = owner.user.as_deref().map(users::uid).transpose()?;
    let group = owner.group.as_deref().map(users::gid).transpose()?;
    change(&name, user, group, step).await
}

/// Asks tixd for it; what is not given stays.
pub async fn change(
    name: &str,
    user: Option<u32>,
    group: Option<u32>,
    step: Step,
) -> Result<(), Failure> {
    let mut client = step.connect().await?;
    let reply = client.call(|tixd| tixd.chown(name, user, group)).await?;
    let (mut names, name) = (Names::default(), reply.name);
    let owner = names.user(reply.owner).to_owned();
    let group = names.group(reply.group);
    step.done(
        &mut client,
        &format!("{name} is {owner}'s, of the group {group}."),
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_group() {
        let some = |user: Option<&str>, group: Option<&str>| {
            Ok(Owner {
                user: user.map(str::to_owned),
                group: group.map(str::to_owned),
            })
        };
        assert_eq!(owner("alice"), some(Some("alice"), None));
        assert_eq!(owner("alice:staff"), some(Some("alice"), Some("staff")));
        assert_eq!(owner(":staff"), some(None, Some("staff")));
        assert_eq!(owner("1000:50"), some(Some("1000"), Some("50")));
        for wrong in ["", ":", "alice:", "a:b:c", "::"] {
            assert!(owner(wrong).is_err(), "{wrong:?}");
        }
    }
}
