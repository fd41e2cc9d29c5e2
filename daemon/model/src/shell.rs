// SPDX-License-Identifier: GPL-2.0-only
//! What is to be typed into a shell.

/// `text` as one word of a shell: whoever makes a cgroup chooses its name.
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_.@:-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn what_is_to_be_typed_is_one_word_of_a_shell() {
        assert_eq!(word("/sys/fs/cgroup/a.slice/b"), "/sys/fs/cgroup/a.slice/b");
        assert_eq!(word("/a $(reboot)"), "'/a $(reboot)'");
        assert_eq!(word("/it's"), r"'/it'\''s'");
        assert_eq!(word(""), "''");
    }
}
