// SPDX-License-Identifier: GPL-2.0-only
//! What people and shells read about a program, made from the very command line that it parses: the program itself writes it, so
//! the pages that are installed are those of the program that is installed.

use clap::{Arg, Command, Parser, value_parser};
use clap_complete::Shell;
use clap_mangen::Man;
use std::fs::{File, create_dir_all};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};

/// Parses the command line of a program that has no commands; its manual page is in this section.
///
/// It has one more option, which the help does not show: `--pages DIR` has it [`write`] and end.
pub fn parse<P: Parser>(section: &str) -> P {
    let pages = Arg::new("pages")
        .long("pages")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .hide(true)
        .exclusive(true);
    let matches = P::command().arg(pages).get_matches();
    if let Some(share) = matches.get_one::<PathBuf>("pages") {
        match write(P::command(), section, share) {
            Ok(()) => std::process::exit(0),
            Err(e) => {
                eprintln!("error: {e}");
                std::process::exit(1);
            }
        }
    }
    P::from_arg_matches(&matches).unwrap_or_else(|e| e.exit())
}

/// Writes the manual page of `command`, one more for each of its commands, and completions for bash, zsh and fish, to where Debian has
/// them below `share` (`/usr/share`).
///
/// # Errors
/// The first file or directory that cannot be written, with its path.
pub fn write(command: Command, section: &str, share: &Path) -> Result<()> {
    let name = command.get_name().to_owned();
    for (shell, directory, file) in [
        (Shell::Bash, "bash-completion/completions", name.clone()),
        (Shell::Zsh, "zsh/vendor-completions", format!("_{name}")),
        (
            Shell::Fish,
            "fish/vendor_completions.d",
            format!("{name}.fish"),
        ),
    ] {
        let path = directory_in(share, directory)?.join(file);
        let mut out = File::create(&path).map_err(|e| at(&path, e))?;
        clap_complete::generate(shell, &mut command.clone(), &name, &mut out);
    }
    let pages = directory_in(share, &format!("man/man{section}"))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    manual(&command, section, &pages)
}

fn manual(command: &Command, section: &str, pages: &Path) -> Result<()> {
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        manual(below, section, pages)?;
    }
    let page = Man::new(command.clone()).section(section);
    let written = page.generate_to(pages).map(drop);
    written.map_err(|e| at(&pages.join(page.get_filename()), e))
}

fn directory_in(share: &Path, below: &str) -> Result<PathBuf> {
    let path = share.join(below);
    create_dir_all(&path).map_err(|e| at(&path, e))?;
    Ok(path)
}

fn at(path: &Path, e: Error) -> Error {
    Error::new(e.kind(), format!("cannot write {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Command {
        let hidden = Command::new("inside").hide(true);
        let show = Command::new("show").about("Show it").arg(Arg::new("NAME"));
        Command::new("trial")
            .about("Try")
            .subcommands([show, hidden])
    }

    #[test]
    fn a_page_for_each_command_that_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        write(two(), "8", dir.path()).unwrap();
        let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(read("man/man8/trial.8").contains("trial\\-show(8)"));
        assert!(read("man/man8/trial-show.8").contains("NAME"));
        let pages = std::fs::read_dir(dir.path().join("man/man8")).unwrap();
        assert_eq!(pages.count(), 2);
        for file in [
            "bash-completion/completions/trial",
            "zsh/vendor-completions/_trial",
            "fish/vendor_completions.d/trial.fish",
        ] {
            assert!(read(file).contains("show"), "{file}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("man"), "").unwrap();
        let said = write(two(), "1", dir.path()).unwrap_err().to_string();
        assert!(
            said.contains("man/man1") && said.contains("cannot write"),
            "{said}"
        );
    }
}
