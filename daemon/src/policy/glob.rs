// SPDX-License-Identifier: GPL-2.0-only
//! Patterns of cgroup paths and unit names. Matching allocates nothing: it is asked of every cgroup
//! of the machine.
//!
//! `*` stands for any part of one component. `**` as a component stands for any number of
//! components, at the end for at least one: `/a/**` is what is below `/a`, `/a/**/b` every `b`
//! below `/a`. Backtracking is to the last star only, which is enough, so the worst pattern costs
//! the product of the lengths.

/// A pattern of a unit's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit(String);

/// A pattern of a cgroup's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(Vec<Component>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Component {
    Any,
    Like(String),
}

/// What a unit's cgroup is called.
const SUFFIXES: [&str; 3] = [".service", ".scope", ".slice"];

/// The name without its unit suffix, if it has one.
pub(super) fn unit_stem(name: &str) -> Option<&str> {
    SUFFIXES
        .iter()
        .find_map(|s| name.strip_suffix(s))
        .filter(|stem| !stem.is_empty())
}

/// The unit of the system's manager whose cgroup this is.
///
/// Those live in slices only. A unit's name further down was chosen by whoever that subtree is
/// delegated to: alice's own manager has its units below `user@1000.service`, and one she calls
/// `nginx.service` must not get what nginx gets.
pub(super) fn system_unit(path: &str) -> Option<&str> {
    let (_, name) = path.rsplit_once('/')?;
    unit_stem(name)?;
    in_slices(path).then_some(name)
}

/// Is there nothing but slices above it?
pub fn in_slices(path: &str) -> bool {
    let Some(below) = path.strip_prefix('/') else {
        return false;
    };
    let above = below.rsplit_once('/').map(|(above, _)| above);
    above.is_none_or(|above| above.split('/').all(|c| c.ends_with(".slice")))
}

impl Unit {
    pub(super) fn parse(text: &str) -> Result<Unit, &'static str> {
        if text.contains('/') {
            return Err("a unit has no path: write its name, or match cgroup = \"/…\" instead");
        }
        plain(text)?;
        if unit_stem(text).is_none() && !text.ends_with('*') {
            return Err(
                "a unit's name ends in .service, .scope or .slice: write it out \
                 (\"nginx.service\")",
            );
        }
        Ok(Unit(text.to_owned()))
    }

    /// Only slices have users.
    pub(super) fn may_be_slice(&self) -> bool {
        self.0.ends_with(".slice") || self.0.ends_with('*')
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        system_unit(path).is_some_and(|name| like(&self.0, name))
    }
}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Path, &'static str> {
        let Some(below) = text.strip_prefix('/').filter(|b| !b.is_empty()) else {
            return Err(
                "a cgroup's path begins with / at the root of the cgroup tree \
                 (\"/machine.slice/*\"), and is not / itself",
            );
        };
        let components = below
            .trim_end_matches('/')
            .split('/')
            .map(|c| match c {
                "" | "." | ".." => {
                    Err("write each component of the path once, without //, . and ..")
                }
                "**" => Ok(Component::Any),
                c if c.contains("**") => Err("** stands for whole components: write /a/**/b"),
                c => plain(c).map(|()| Component::Like(c.to_owned())),
            })
            .collect::<Result<_, _>>()?;
        Ok(Path(components))
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        let Some(below) = path.strip_prefix('/').filter(|b| !b.is_empty()) else {
            return false;
        };
        let mut rest = Some(below);
        let mut at = 0;
        // Where to go on when a component does not fit: behind the last `**`, one component further
        // than last time.
        let mut retry: Option<(usize, &str)> = None;
        loop {
            match (self.0.get(at), rest) {
                (None, None) => return true,
                (Some(Component::Any), Some(r)) => {
                    at += 1;
                    if at == self.0.len() {
                        return true;
                    }
                    retry = Some((at, r));
                    continue;
                }
                (Some(Component::Like(pattern)), Some(r)) => {
                    let (first, next) = split(r);
                    if like(pattern, first) {
                        at += 1;
                        rest = next;
                        continue;
                    }
                }
                _ => {}
            }
            let Some((from, r)) = retry else {
                return false;
            };
            let Some(next) = split(r).1 else {
                return false;
            };
            retry = Some((from, next));
            at = from;
            rest = Some(next);
        }
    }
}

fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    }
}

/// What other programs' patterns have and these have not is refused, not taken literally.
fn plain(text: &str) -> Result<(), &'static str> {
    if text.contains(['?', '[', ']', '{', '}']) {
        return Err(
            "* is all there is in a pattern: ? and [ ] and { } are not; write a list of patterns",
        );
    }
    if text.chars().any(char::is_control) {
        return Err("no name has control characters");
    }
    Ok(())
}

/// `*` is any bytes, none included.
fn like(pattern: &str, name: &str) -> bool {
    let (p, n) = (pattern.as_bytes(), name.as_bytes());
    let (mut i, mut j) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while j < n.len() {
        if p.get(i) == Some(&b'*') {
            i += 1;
            retry = Some((i, j));
        } else if p.get(i) == Some(&n[j]) {
            i += 1;
            j += 1;
        } else if let Some((from, at)) = retry {
            i = from;
            j = at + 1;
            retry = Some((from, j));
        } else {
            return false;
        }
    }
    p[i..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(pattern: &str, path: &str) -> bool {
        Path::parse(pattern).is_ok_and(|p| p.matches(path))
    }

    fn unit(pattern: &str, path: &str) -> bool {
        Unit::parse(pattern).is_ok_and(|p| p.matches(path))
    }

    #[test]
    fn paths() {
        for (pattern, yes, no) in [
            ("/a/*", "/a/b", "/a/b/c"),
            ("/a/*", "/a/b", "/a"),
            ("/a/b*", "/a/bc", "/a/cb"),
            ("/a/*-*.scope", "/a/x-y.scope", "/a/x.scope"),
            ("/a/**", "/a/b/c", "/a"),
            ("/a/**/b", "/a/b", "/a/b/c"),
            ("/a/**/b", "/a/c/d/b", "/b"),
            ("/**/b/*/c", "/b/b/x/c", "/b/c"),
            ("/**", "/a", "/"),
            ("/**/a/**", "/a/a", "/b/a"),
            ("/a/", "/a", "/a/b"),
        ] {
            assert!(path(pattern, yes), "{pattern} {yes}");
            assert!(!path(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn units_are_the_systems_own() {
        for (pattern, cgroup, yes) in [
            ("nginx.service", "/system.slice/nginx.service", true),
            (
                "php@*.service",
                r"/system.slice/system-php.slice/php@a.service",
                true,
            ),
            ("user-*.slice", "/user.slice/user-1000.slice", true),
            ("init.scope", "/init.scope", true),
            ("*", "/system.slice/a.mount", false),
            (
                "nginx.service",
                "/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service",
                false,
            ),
            (
                "nginx.service",
                "/system.slice/x.service/nginx.service",
                false,
            ),
            ("nginx.service", "/mine/nginx.service", false),
            ("nginx.service", "/", false),
            ("nginx.service", "", false),
        ] {
            assert_eq!(unit(pattern, cgroup), yes, "{pattern} {cgroup}");
        }
    }

    #[test]
    fn refused() {
        for text in [
            "", "/", "a/b", "/a//b", "/a/../b", "/a/b**", "/a/[ab]", "/a/?", "/a/{x}",
        ] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
        for text in [
            "",
            "nginx",
            "/a.service",
            ".service",
            "a?.service",
            "a.mount",
        ] {
            assert!(Unit::parse(text).is_err(), "{text}");
        }
    }

    /// By recursion, as it is said.
    fn oracle(p: &[&str], n: &[&str]) -> bool {
        match p {
            [] => n.is_empty(),
            ["**"] => !n.is_empty(),
            ["**", rest @ ..] => (0..=n.len()).any(|i| oracle(rest, &n[i..])),
            [c, rest @ ..] => n.split_first().is_some_and(|(first, others)| {
                letters(c.as_bytes(), first.as_bytes()) && oracle(rest, others)
            }),
        }
    }

    fn letters(p: &[u8], n: &[u8]) -> bool {
        match p {
            [] => n.is_empty(),
            [b'*', rest @ ..] => (0..=n.len()).any(|i| letters(rest, &n[i..])),
            [c, rest @ ..] => n.first() == Some(c) && letters(rest, &n[1..]),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn as_the_oracle(
            p in prop::collection::vec(
                prop_oneof![
                    Just("**".to_owned()),
                    "[ab*]{1,4}".prop_filter("whole", |c| !c.contains("**")),
                ],
                1..6,
            ),
            n in prop::collection::vec("[ab]{1,4}", 1..7),
        ) {
            let pattern = Path::parse(&format!("/{}", p.join("/"))).expect("legal");
            let p: Vec<&str> = p.iter().map(String::as_str).collect();
            let parts: Vec<&str> = n.iter().map(String::as_str).collect();
            prop_assert_eq!(pattern.matches(&format!("/{}", n.join("/"))), oracle(&p, &parts));
        }
    }
}
