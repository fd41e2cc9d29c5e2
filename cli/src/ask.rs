// SPDX-License-Identifier: GPL-2.0-only
//! Questions on the terminal.

use std::io::IsTerminal;

/// Is there a terminal to ask on, and did whoever sits there say yes? `question` is shown as it is,
/// with what may be answered behind it.
pub fn agrees(question: &str) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    anstream::eprint!("{} [y/N] ", crate::harmless::harmless(question));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
