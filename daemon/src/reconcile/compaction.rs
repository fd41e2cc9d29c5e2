// SPDX-License-Identifier: GPL-2.0-only
//! Memory that the kernel compacts ahead of need: not where an administrator asks tixd to see to
//! that (`--compact-on-demand`).
//!
//! For the sake of huge pages that somebody might ask for, kcompactd moves pages about in the
//! background (the kernel's admin-guide/sysctl/vm.rst, `compaction_proactiveness`). Thirty at a
//! time are locked meanwhile, and whoever touches one of them waits for a thread that has next to
//! no share: a login for up to 8 s on a machine without free memory whose pages of libc 3,500
//! processes share. What is asked for is made room for all the same, by who asks.
//!
//! What an administrator has set stays: tixd sets it once a boot, where it is the kernel's default,
//! and sets it back when it is asked no more.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The kernel's, of 0 (not at all) to 100.
const DEFAULT: u32 = 20;
const OFF: u32 = 0;

/// What of it was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// The default; it is off now.
    Default,
    /// It has been off, or tixd has seen to it before; whatever it says now is somebody's choice.
    Settled(u32),
    /// A kernel that does not compact.
    Nothing,
}

/// The kernel's setting, and tixd's note of what it said before.
pub struct Compaction {
    setting: PathBuf,
    /// Says of which boot it is: after another the setting is the default again.
    note: PathBuf,
    boot: PathBuf,
}

impl Compaction {
    /// That of `/proc/sys` below `root` (`/`, except in tests). `state`: tixd's own folder, where
    /// nobody else can write.
    pub fn new(root: &Path, state: &Path) -> Compaction {
        Compaction {
            setting: root.join("proc/sys/vm/compaction_proactiveness"),
            note: state.join("compaction_proactiveness"),
            boot: root.join("proc/sys/kernel/random/boot_id"),
        }
    }

    /// Switches it off, where nobody has set it.
    ///
    /// # Errors
    /// It could not be read or written, as in a container whose /proc/sys is not its own; nothing
    /// is changed then.
    pub fn switch_off(&self) -> io::Result<Found> {
        let said = match number(&self.setting) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            said => said?,
        };
        if said != DEFAULT || self.noted()?.is_some() {
            return Ok(Found::Settled(said));
        }
        // First, so that nothing is changed that could not be given back.
        fs::write(&self.note, format!("{} {said}\n", self.boot()?))?;
        self.set(OFF).inspect_err(|_| {
            // Without the change there is nothing to be noted.
            let _ = fs::remove_file(&self.note);
        })?;
        Ok(Found::Default)
    }

    /// Sets it to what it was, if tixd has changed it and nobody else since. What it is now then.
    ///
    /// # Errors
    /// It could not be read or written; it can be given back later.
    pub fn give_back(&self) -> io::Result<Option<u32>> {
        let Some(was) = self.noted()? else {
            return Ok(None);
        };
        let back = number(&self.setting)? == OFF;
        if back {
            self.set(was)?;
        }
        fs::remove_file(&self.note)?;
        Ok(back.then_some(was))
    }

    /// What tixd has noted since the machine was booted.
    fn noted(&self) -> io::Result<Option<u32>> {
        let text = match fs::read_to_string(&self.note) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let boot = self.boot()?;
        let was = text.strip_prefix(&boot).map(str::trim);
        Ok(was.and_then(|was| was.parse().ok()))
    }

    fn boot(&self) -> io::Result<String> {
        Ok(fs::read_to_string(&self.boot)?.trim().to_owned())
    }

    fn set(&self, to: u32) -> io::Result<()> {
        // It is there: a file is never made.
        let mut file = fs::OpenOptions::new().write(true).open(&self.setting)?;
        file.write_all(format!("{to}\n").as_bytes())
    }
}

fn number(file: &Path) -> io::Result<u32> {
    let text = fs::read_to_string(file)?;
    let number = text.trim().parse();
    number.map_err(|e| {
        let what = format!("{} says {text:?}: {e}", file.display());
        io::Error::new(ErrorKind::InvalidData, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose setting says that, or that has none, as after a boot.
    fn machine(says: Option<u32>) -> (tempfile::TempDir, Compaction) {
        let dir = tempfile::tempdir().unwrap();
        let of = Compaction::new(dir.path(), dir.path());
        fs::create_dir_all(of.setting.parent().unwrap()).unwrap();
        fs::create_dir_all(of.boot.parent().unwrap()).unwrap();
        fs::write(&of.boot, "1f-a\n").unwrap();
        if let Some(says) = says {
            somebody_sets(&of, says);
        }
        (dir, of)
    }

    fn somebody_sets(of: &Compaction, to: u32) {
        fs::write(&of.setting, format!("{to}\n")).unwrap();
    }

    fn says(of: &Compaction) -> u32 {
        number(&of.setting).unwrap()
    }

    #[test]
    fn the_default_is_switched_off_and_given_back() {
        let (_dir, of) = machine(Some(DEFAULT));
        assert_eq!(of.switch_off().unwrap(), Found::Default);
        assert_eq!(says(&of), OFF);
        // tixd starts again.
        assert_eq!(of.switch_off().unwrap(), Found::Settled(OFF));
        assert_eq!(of.give_back().unwrap(), Some(DEFAULT));
        assert_eq!(says(&of), DEFAULT);
        assert_eq!(of.give_back().unwrap(), None);
        // And once more, after it was given back.
        assert_eq!(of.switch_off().unwrap(), Found::Default);
    }

    #[test]
    fn what_somebody_has_set_stays() {
        for chosen in [OFF, 1, 100] {
            let (_dir, of) = machine(Some(chosen));
            assert_eq!(of.switch_off().unwrap(), Found::Settled(chosen));
            assert_eq!(of.give_back().unwrap(), None);
            assert_eq!(says(&of), chosen);
        }
        // Meanwhile: also if it is the default.
        for chosen in [DEFAULT, 7] {
            let (_dir, of) = machine(Some(DEFAULT));
            of.switch_off().unwrap();
            somebody_sets(&of, chosen);
            assert_eq!(of.switch_off().unwrap(), Found::Settled(chosen));
            assert_eq!(of.give_back().unwrap(), None);
            assert_eq!(says(&of), chosen);
        }
    }

    #[test]
    fn after_a_boot_it_is_the_default_again() {
        let (_dir, of) = machine(Some(DEFAULT));
        of.switch_off().unwrap();
        fs::write(&of.boot, "2f-b\n").unwrap();
        somebody_sets(&of, DEFAULT);
        assert_eq!(of.give_back().unwrap(), None);
        assert_eq!(of.switch_off().unwrap(), Found::Default);
        assert_eq!(of.give_back().unwrap(), Some(DEFAULT));
    }

    #[test]
    fn a_kernel_that_has_none_and_one_that_says_nonsense() {
        let (_dir, of) = machine(None);
        assert_eq!(of.switch_off().unwrap(), Found::Nothing);
        assert_eq!(of.give_back().unwrap(), None);
        fs::write(&of.setting, "much\n").unwrap();
        let said = of.switch_off().unwrap_err().to_string();
        assert!(said.contains("much"), "{said}");
    }

    #[test]
    fn what_cannot_be_noted_is_not_changed() {
        let (dir, of) = machine(Some(DEFAULT));
        let nowhere = Compaction::new(dir.path(), &dir.path().join("not there"));
        nowhere.switch_off().unwrap_err();
        assert_eq!(says(&of), DEFAULT);
    }
}
