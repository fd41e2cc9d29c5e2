// SPDX-License-Identifier: GPL-2.0-only
//! The commands by what they are for, as the help and the manual page show them.

use clap::Command;
use std::fmt::Write;

/// What a group is for, and its commands.
pub type Group = (&'static str, &'static [&'static str]);

pub const GROUPS: &[Group] = &[
    (
        "Look",
        &["status", "tree", "top", "explain", "log", "doctor"],
    ),
    (
        "Share",
        &[
            "create", "destroy", "fund", "unfund", "bind", "unbind", "run", "nice", "undo",
        ],
    ),
    (
        "Guarantee and limit",
        &["reserve", "unreserve", "limit", "unlimit"],
    ),
    ("Trade", &["offer", "accept", "exchange"]),
    (
        "Administer",
        &[
            "chmod",
            "chown",
            "chgrp",
            "disk",
            "export",
            "import",
            "completions",
        ],
    ),
];

/// What is before a command's description: two blanks, the longest name, two blanks.
pub const NAMES: usize = 12;

/// `command`, whose help lists its commands by group.
pub fn grouped(command: Command) -> Command {
    let header = command.get_styles().get_header();
    let literal = command.get_styles().get_literal();
    let mut list = String::new();
    for (title, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{header}{title}:{header:#}");
        for name in *names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(list, "  {literal}{name:<NAMES$}{literal:#} {about}");
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n\
         {{options}}{{after-help}}"
    );
    command.help_template(template)
}
