// SPDX-License-Identifier: GPL-2.0-only
//! The command line as a whole.

use crate::elsewhere::{self, Cgroups};
use crate::failure::Failure;
use crate::runtime::wait;
use crate::{groups, pager, usage};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;

/// Look at and change who gets how much of this machine
///
/// tix shares CPU, disk and memory by tickets. A currency issues tickets and is backed by tickets;
/// its share is the fraction that its tickets are of all the active tickets of those who issued
/// them, and what was reserved for it is its own whatever others are given. Every cgroup with the
/// cpu controller is a currency, funded by its parent with as many tickets as its cpu.weight.
#[derive(Debug, Parser)]
#[command(
    name = "tixctl",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "`tixctl help COMMAND` explains a command.\n\nWords:\n  \
                  currency   what has a share, and divides it by tickets of its own\n  \
                  base       the currency that is the whole machine\n  \
                  ticket     a part of what its issuer has: 3 of 4 issued are three quarters\n  \
                  fund       to give a currency (the holder) tickets of another (the issuer)\n  \
                  reserve    to guarantee it a fixed part instead: a hard ticket\n  \
                  bind       to have a currency fund a cgroup, instead of the cgroup's parent\n  \
                  active     wants some now; what is not active is idle, and others use it\n  \
                  owner      the user whose a currency is: the maker, until root says otherwise\n  \
                  mode       who may fund (f), change (c) and issue (i): owner, group, others\n  \
                  unit       what systemd runs in a cgroup: x.service, user-1000.slice\n  \
                  lifeline   a currency of root's that keeps a part of the CPU for logins\n\n\
                  A CURRENCY is named by its name, by its cgroup's path below the cgroup root \
                  (/user.slice/…), or by a systemd unit (user-1000.slice); `base` is the root of \
                  them all. What a user has created is called USER/NAME, and that user may leave \
                  USER/ out.\n\nExit status: 0 done, 1 refused, 2 wrong usage, 3 tixd not \
                  reachable.\nEnvironment: TIX_SOCKET, tixd's socket (/run/tix/tixd.sock); \
                  NO_COLOR, no colours; PAGER, what shows long output (less; root's is always \
                  that)."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    everywhere: Everywhere,
}

/// What every command takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Everywhere")]
struct Everywhere {
    /// The socket of the tixd to speak to
    #[arg(long, global = true, hide_short_help = true, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Colours: auto is on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "WHEN",
        default_value = "auto"
    )]
    color: clap::ColorChoice,
    /// Print long output at once, also on a terminal
    #[arg(long, global = true, hide_short_help = true)]
    no_pager: bool,
}

impl Everywhere {
    /// Holds for all that this process does.
    fn apply(self) {
        match self.color {
            clap::ColorChoice::Auto => {}
            clap::ColorChoice::Always => anstream::ColorChoice::Always.write_global(),
            clap::ColorChoice::Never => anstream::ColorChoice::Never.write_global(),
        }
        if let Some(socket) = self.socket {
            tix_client::use_socket(socket);
        }
        if self.no_pager {
            pager::off();
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Status(crate::status::Args),
    Tree(crate::tree::Args),
    Top(crate::top::Args),
    Explain(crate::explain::Args),
    Run(crate::run::Args),
    Nice(crate::nice::Args),
    Create(crate::create::Args),
    Destroy(crate::destroy::Args),
    Fund(crate::fund::Args),
    Unfund(crate::unfund::Args),
    Reserve(crate::reserve::Args),
    Unreserve(crate::unreserve::Args),
    Limit(crate::limit::Args),
    Unlimit(crate::unlimit::Args),
    Bind(crate::bind::Args),
    Unbind(crate::unbind::Args),
    Chmod(crate::chmod::Args),
    Chown(crate::chown::Args),
    Chgrp(crate::chgrp::Args),
    Offer(crate::offer::Args),
    Accept(crate::accept::Args),
    Exchange(crate::exchange::Args),
    Disk(crate::disk::Args),
    Log(crate::log::Args),
    Undo(crate::undo::Args),
    Export(crate::export::Args),
    Import(crate::import::Args),
    Doctor(crate::doctor::Args),
    Completions(crate::completions::Args),
    // As they were called before; what was written for that goes on working.
    #[command(hide = true)]
    Offers(crate::offer::list::Args),
    #[command(hide = true)]
    Amend(crate::offer::amend::Args),
    #[command(hide = true)]
    Cancel(crate::cancel::Args),
    #[command(hide = true)]
    Exchanges(crate::exchange::list::Args),
    #[command(hide = true)]
    Pages(crate::pages::Args),
    #[command(hide = true)]
    RemoveWhenEmpty(crate::job::janitor::Args),
}

impl Command {
    /// What it says to tixd of cgroups.
    fn cgroups(&self) -> Cgroups {
        match self {
            Command::Disk(_)
            | Command::Export(_)
            | Command::Doctor(_)
            | Command::Completions(_)
            | Command::Pages(_)
            | Command::RemoveWhenEmpty(_) => Cgroups::None,
            Command::Import(_) => Cgroups::Made("a document"),
            Command::Run(_) | Command::Nice(_) => Cgroups::Made("the command's cgroup"),
            Command::Tree(_) | Command::Top(_) => Cgroups::Shown,
            _ => Cgroups::Named,
        }
    }
}

/// The grammar, and the help that shows the commands by group.
pub fn grammar() -> clap::Command {
    let all = groups::grouped(Cli::command());
    all.mut_subcommand("offer", crate::offer::as_before)
}

/// Parses the command line and does what it says. Wrong usage and help end the process in here,
/// with 2 and 0.
pub fn main() -> Result<(), Failure> {
    crate::completions::answer(grammar);
    let grammar = grammar();
    let matches = grammar.clone().try_get_matches();
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let Cli {
        command,
        everywhere,
    } = parsed.unwrap_or_else(|err| usage::exit(&err, &grammar));
    everywhere.apply();
    elsewhere::check(command.cgroups())?;
    match command {
        Command::Status(args) => wait(crate::status::main(args)),
        Command::Tree(args) => wait(crate::tree::main(args)),
        Command::Top(args) => wait(crate::top::main(args)),
        Command::Explain(args) => wait(crate::explain::main(args)),
        Command::Run(args) => crate::run::main(args),
        Command::Nice(args) => crate::nice::main(args),
        Command::Create(args) => wait(crate::create::main(args)),
        Command::Destroy(args) => wait(crate::destroy::main(args)),
        Command::Fund(args) => wait(crate::fund::main(args)),
        Command::Unfund(args) => wait(crate::unfund::main(args)),
        Command::Reserve(args) => wait(crate::reserve::main(args)),
        Command::Unreserve(args) => wait(crate::unreserve::main(args)),
        Command::Limit(args) => wait(crate::limit::main(args)),
        Command::Unlimit(args) => wait(crate::unlimit::main(args)),
        Command::Bind(args) => wait(crate::bind::main(args)),
        Command::Unbind(args) => wait(crate::unbind::main(args)),
        Command::Chmod(args) => wait(crate::chmod::main(args)),
        Command::Chown(args) => wait(crate::chown::main(args)),
        Command::Chgrp(args) => wait(crate::chgrp::main(args)),
        Command::Offer(args) => wait(crate::offer::main(args)),
        Command::Offers(args) => wait(crate::offer::list::main(args)),
        Command::Accept(args) => wait(crate::accept::main(args)),
        Command::Amend(args) => wait(crate::offer::amend::main(args)),
        Command::Cancel(args) => wait(crate::cancel::main(args)),
        Command::Exchanges(args) => wait(crate::exchange::list::main(args)),
        Command::Exchange(args) => wait(crate::exchange::main(args)),
        Command::Disk(args) => wait(crate::disk::main(args)),
        Command::Log(args) => wait(crate::log::main(args)),
        Command::Undo(args) => wait(crate::undo::main(args)),
        Command::Export(args) => wait(crate::export::main(args)),
        Command::Import(args) => wait(crate::import::main(args)),
        Command::Doctor(args) => crate::doctor::main(args),
        Command::Completions(args) => crate::completions::main(args),
        Command::Pages(args) => crate::pages::main(args, grammar),
        Command::RemoveWhenEmpty(args) => crate::job::janitor::main(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_grammar_is_sound() {
        grammar().debug_assert();
    }

    #[test]
    fn each_command_is_in_one_group_and_fits_into_a_line() {
        let all = grammar();
        let named: Vec<&str> = (groups::GROUPS.iter())
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        for command in all.get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = command.get_name();
            let count = named.iter().filter(|n| **n == name).count();
            assert_eq!(count, 1, "{name}");
            let about = command.get_about().unwrap().to_string();
            let length = about.chars().count();
            assert!(length + groups::NAMES + 3 <= 80, "{name}: {about}");
        }
        for name in named {
            let found = all.find_subcommand(name);
            assert!(found.is_some_and(|c| !c.is_hide_set()), "{name}");
        }
    }

    /// The Rust sources below `dir`, a line that is continued joined with the next one.
    fn sources(dir: &Path, all: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, all);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let lines = text.split("\\\n").map(str::trim_start);
                all.push((path, lines.collect::<Vec<_>>().concat()));
            }
        }
    }

    /// What stands for a name or a number in a message: `{}`, `{name}`; or for a `{resource}`.
    fn filled(command: &str) -> String {
        let command = command.replace("{resource}", "cpu");
        let mut parts = command.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        let rest =
            parts.map(|part| format!("1{}", part.split_once('}').map_or("", |(_, rest)| rest)));
        first + &rest.collect::<String>()
    }

    /// Why `words` are no command line: a command by its name alone refers to it.
    fn wrong(words: &[&str]) -> Option<String> {
        let mut command = grammar();
        let mut verbs = words.iter().skip(1);
        let named = verbs.all(|verb| match command.find_subcommand(verb).cloned() {
            Some(found) => {
                command = found;
                true
            }
            None => false,
        });
        if named {
            return None;
        }
        let parsed = grammar().try_get_matches_from(words);
        let failed = parsed.err().filter(|why| why.use_stderr());
        failed.map(|why| why.to_string())
    }

    /// Whatever names a command, in a hint, a message or a comment, names one that there is, with
    /// arguments that it takes.
    #[test]
    fn commands_that_are_named_can_be_typed() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut all = Vec::new();
        let tixd = ["src", "api/src", "ledger/src", "model/src", "store/src"];
        let tixd = tixd.map(|dir| Path::new("daemon").join(dir));
        let own = ["cli/src", "cli/client/src"].map(PathBuf::from);
        for dir in tixd.iter().chain(&own) {
            sources(&top.join(dir), &mut all);
        }
        let (mut count, mut all_wrong) = (0, Vec::new());
        // This file has the word for what is looked for.
        let others = all
            .iter()
            .filter(|(path, _)| !path.ends_with("cli/src/cli.rs"));
        for (path, text) in others {
            for (at, _) in text.match_indices("`tixctl ") {
                let command = text[at + 1..].split('`').next().unwrap_or_default();
                let command = filled(command);
                let words: Vec<&str> = command.split_whitespace().collect();
                count += 1;
                if let Some(why) = wrong(&words) {
                    all_wrong.push(format!("{}: `{command}`: {why}", path.display()));
                }
            }
        }
        assert!(count > 60, "only {count} were found");
        assert!(all_wrong.is_empty(), "{}", all_wrong.join("\n"));
        assert!(wrong(&["tixctl", "fund", "alice"]).is_some());
        assert!(wrong(&["tixctl", "explian", "alice"]).is_some());
    }

    /// The help of `command`, called `name`, and of those below it.
    fn help(command: &mut clap::Command, name: &str, text: &mut String) {
        *text += &format!("\n──── {name} ────\n\n{}", command.render_long_help());
        for below in command.get_subcommands_mut() {
            if below.get_name() != "help" {
                help(below, &format!("{name} {}", below.get_name()), text);
            }
        }
    }

    /// Every command's help, in one place: a change of the grammar shows here.
    #[test]
    fn reference() {
        let mut all = grammar().term_width(100);
        all.build();
        let mut text = all.render_long_help().to_string();
        for name in groups::GROUPS.iter().flat_map(|(_, names)| *names) {
            help(all.find_subcommand_mut(name).unwrap(), name, &mut text);
        }
        let text: Vec<&str> = text.lines().map(str::trim_end).collect();
        insta::assert_snapshot!("reference", text.join("\n"));
    }
}
