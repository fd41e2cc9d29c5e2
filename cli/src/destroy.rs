// SPDX-License-Identifier: GPL-2.0-only
//! `tixctl destroy`

use crate::candidates;
use crate::failure::Failure;
use crate::step::Step;
use clap_complete::ArgValueCandidates;
use tix_api::{DestroyReply, Tix};

/// Destroy a currency, with all the tickets it issued or holds
///
/// A cgroup bound to it is funded by its parent again, with its cpu.weight. The currency of a
/// cgroup itself goes when the cgroup is removed, never by this.
///
/// A bare name must be that of a currency that you have made, and no plain one's too; any other is
/// typed in full: USER/NAME, or root/NAME for a plain one.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The currency
    #[arg(add = ArgValueCandidates::new(candidates::created))]
    name: String,
    #[command(flatten)]
    step: Step,
}

pub async fn main(args: Args) -> Result<(), Failure> {
    let mut client = args.step.connect().await?;
    let gone = client.call(|tixd| tixd.destroy(&args.name)).await?;
    args.step.done(&mut client, &render(&gone)).await
}

fn render(gone: &DestroyReply) -> String {
    let mut text = format!("{} is destroyed", gone.name);
    match gone.tickets {
        0 => {}
        1 => text += ", and with it 1 ticket that it held or had issued",
        n => text += &format!(", and with it {n} tickets that it held or had issued"),
    }
    match gone.cgroups.as_slice() {
        [] => {}
        [one] => text += &format!("; {one} is funded by its parent again"),
        all => text += &format!("; {} are funded by their parents again", all.join(", ")),
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_one_line() {
        let told = |tickets, cgroups: &[&str]| {
            render(&DestroyReply {
                name: "alice/gold".into(),
                tickets,
                cgroups: cgroups.iter().map(|c| (*c).to_owned()).collect(),
            })
        };
        let all = [told(0, &[]), told(1, &["/a"]), told(12, &["/a", "/b"])];
        insta::assert_snapshot!(all.join("\n"), @r"
        alice/gold is destroyed.
        alice/gold is destroyed, and with it 1 ticket that it held or had issued; /a is funded by its parent again.
        alice/gold is destroyed, and with it 12 tickets that it held or had issued; /a, /b are funded by their parents again.
        ");
    }
}
