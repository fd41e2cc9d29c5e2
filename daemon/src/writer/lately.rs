// SPDX-License-Identifier: GPL-2.0-only
//! Names of currencies that were changed lately. `undo` reads the log beside the writer, and
//! meanwhile a currency may be changed again: here the writer sees whether it was. A *place* is the
//! number of a change since the start; what is too old to be known counts as changed.

use std::collections::VecDeque;

/// Names that are kept, at most.
const NAMES: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Lately {
    names: VecDeque<String>,
    /// The place of the first of them; of what was before nothing is known.
    first: u64,
}

impl Lately {
    /// The place of the next name.
    pub(super) fn here(&self) -> u64 {
        self.first + self.names.len() as u64
    }

    pub(super) fn changed(&mut self, names: impl IntoIterator<Item = String>) {
        self.names.extend(names);
        let over = self.names.len().saturating_sub(NAMES);
        self.names.drain(..over);
        self.first += over as u64;
    }

    /// There is no telling what an import changes.
    pub(super) fn all_changed(&mut self) {
        self.first = self.here() + 1;
        self.names.clear();
    }

    /// May `name` have been changed at `place`, or after it?
    pub(super) fn may_have_changed(&self, name: &str, place: u64) -> bool {
        let Some(known) = place.checked_sub(self.first) else {
            return true;
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        self.names.iter().skip(known).any(|n| n == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_after_a_place_is_known_or_may_have_been() {
        let mut lately = Lately::default();
        lately.changed(["a".to_owned()]);
        let place = lately.here();
        assert!(!lately.may_have_changed("a", place));
        lately.changed(["b".to_owned()]);
        assert!(!lately.may_have_changed("a", place));
        assert!(lately.may_have_changed("b", place));
        assert!(lately.may_have_changed("a", place - 1));
        // As many as are kept are known, and with one more nobody can say.
        lately.changed((1..NAMES).map(|n| n.to_string()));
        assert!(!lately.may_have_changed("a", place));
        lately.changed(["c".to_owned()]);
        assert!(lately.may_have_changed("a", place));
        assert!(!lately.may_have_changed("a", lately.here()));
    }

    #[test]
    fn an_import_may_change_everything() {
        let mut lately = Lately::default();
        let place = lately.here();
        lately.all_changed();
        assert!(lately.may_have_changed("a", place));
        assert!(!lately.may_have_changed("a", lately.here()));
    }
}
