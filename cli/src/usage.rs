// SPDX-License-Identifier: GPL-2.0-only
//! What is said of a command line that makes no sense.

use crate::failure::HINT;
use clap::Command;
use clap::error::{Error, ErrorKind};

/// What clap ends such a message with: it does not say of which command.
const MORE: &str = "\nFor more information";

/// Says what is wrong, or shows the help that was asked for, and ends the process.
pub fn exit(err: &Error, grammar: &Command) -> ! {
    let explains = err.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !err.use_stderr() || explains {
        err.exit();
    }
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let message = err.render().ansi().to_string();
    let message = message.split(MORE).next().unwrap_or_default().trim_end();
    let command = command(grammar, &typed);
    anstream::eprintln!("{message}\n\n{HINT}hint:{HINT:#} `{command} --help` says what it takes");
    std::process::exit(err.exit_code());
}

/// The command that was typed, as far as there is one.
fn command(grammar: &Command, typed: &[String]) -> String {
    let (mut found, mut name) = (grammar, grammar.get_name().to_owned());
    for word in typed.iter().take_while(|word| *word != "--") {
        if let Some(below) = found.find_subcommand(word) {
            found = below;
            name = format!("{name} {}", below.get_name());
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_was_meant() {
        let enable = Command::new("enable");
        let disk = Command::new("disk").subcommand(enable);
        let all = Command::new("tixctl").subcommands([disk, Command::new("run")]);
        for (typed, name) in [
            ("", "tixctl"),
            ("--color never disk enable --fast", "tixctl disk enable"),
            ("disk enabel", "tixctl disk"),
            ("run --cpu x -- disk", "tixctl run"),
        ] {
            let typed: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            assert_eq!(command(&all, &typed), name);
        }
    }
}
