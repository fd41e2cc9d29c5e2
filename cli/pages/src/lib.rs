// SPDX-License-Identifier: GPL-2.0-only
//! What people and shells read about a program, made from the very command line that it parses: the
//! program itself writes it, so the pages that are installed are those of the program that is
//! installed.

use clap::{Arg, Command, Parser, value_parser};
use clap_complete::Shell;
use clap_mangen::Man;
use roff::{Roff, roman};
use std::fs::create_dir_all;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};

/// Parses the command line of a program that has no commands; its manual page is in this section.
///
/// It has one more option, which the help does not show: `--pages DIR` has it [`write()`] and end.
pub fn parse<P: Parser>(section: &str) -> P {
    let pages = Arg::new("pages")
        .long("pages")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .hide(true)
        .exclusive(true);
    let matches = P::command().arg(pages).get_matches();
    if let Some(share) = matches.get_one::<PathBuf>("pages") {
        let fixed = |shell| Ok(fixed(shell, P::command()));
        match write(P::command(), &[], section, share, &fixed) {
            Ok(()) => std::process::exit(0),
            Err(e) => {
                eprintln!("error: {e}");
                std::process::exit(1);
            }
        }
    }
    P::from_arg_matches(&matches).unwrap_or_else(|e| e.exit())
}

/// What a group of commands is for, and their names.
pub type Group<'a> = (&'a str, &'a [&'a str]);

/// Writes the manual page of `command`, which shows its commands by group, one more for each of its
/// commands, and completions for bash, zsh and fish, which are what `script` says, to where Debian
/// has them below `share` (`/usr/share`).
///
/// # Errors
/// The first file or directory that cannot be written, with its path; or what `script` says.
pub fn write(
    command: Command,
    groups: &[Group<'_>],
    section: &str,
    share: &Path,
    script: &dyn Fn(Shell) -> Result<Vec<u8>>,
) -> Result<()> {
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
        std::fs::write(&path, script(shell)?).map_err(|e| at(&path, e))?;
    }
    let pages = directory_in(share, &format!("man/man{section}"))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    manual(&command, groups, section, &pages)
}

/// Completions that are the command line's alone.
fn fixed(shell: Shell, mut command: Command) -> Vec<u8> {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
}

fn manual(command: &Command, groups: &[Group<'_>], section: &str, pages: &Path) -> Result<()> {
    for below in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        manual(below, &[], section, pages)?;
    }
    let page = Man::new(command.clone()).section(section);
    let path = pages.join(page.get_filename());
    let mut text = Vec::new();
    match groups {
        [] => page.render(&mut text)?,
        groups => render(&page, command, groups, section, &mut text)?,
    }
    std::fs::write(&path, text).map_err(|e| at(&path, e))
}

/// As [`Man::render`], but for a section for each group in place of one for all commands.
fn render(
    page: &Man,
    command: &Command,
    groups: &[Group<'_>],
    section: &str,
    out: &mut Vec<u8>,
) -> Result<()> {
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    let mut roff = Roff::default();
    for (title, names) in groups {
        roff.control("SH", [title.to_uppercase().as_str()]);
        for name in *names {
            let below = command.find_subcommand(name);
            let about = below.and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            roff.control("TP", []);
            roff.text([roman(format!("{}-{name}({section})", command.get_name()))]);
            roff.text([roman(about)]);
        }
    }
    roff.to_writer(out)?;
    page.render_options_section(out)?;
    if command.get_after_help().is_some() {
        page.render_extra_section(out)?;
    }
    match command.get_version() {
        Some(_) => page.render_version_section(out),
        None => Ok(()),
    }
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
        let script = |shell| Ok(fixed(shell, two()));
        let groups: &[Group<'_>] = &[("Look around", &["show"])];
        write(two(), groups, "8", dir.path(), &script).unwrap();
        let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(read("man/man8/trial.8").contains(".SH \"LOOK AROUND\""));
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
        let script = |shell| Ok(fixed(shell, two()));
        let said = write(two(), &[], "1", dir.path(), &script).unwrap_err();
        let said = said.to_string();
        assert!(
            said.contains("man/man1") && said.contains("cannot write"),
            "{said}"
        );
    }
}
