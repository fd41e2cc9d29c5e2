// SPDX-License-Identifier: GPL-2.0-only
//! Names of currencies, and the templates they are filled in from.
//!
//! What is filled in was chosen by others (a user's name, a unit's), so it is made legal: `@`, `.`
//! and `:` become `-`, as do other characters that no name has. If more was lost than that (other
//! characters, capitals, length), a checksum of the whole keeps apart what would otherwise fall
//! together.

use super::glob::unit_stem;
use super::problem::nearest;
use super::subject::Subject;

/// The longest name (model.md §1).
pub(super) const MAX: usize = 63;

/// `[a-z][a-z0-9_-]{0,62}`.
pub(super) fn legal(name: &str) -> bool {
    name.len() <= MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(legal_char)
}

fn legal_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-'
}

/// A currency's name with places to be filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(Place),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The user whose slice it is, else the owner of the cgroup's directory.
    Uid,
    /// The user's name; `uid-1000` if there is none.
    User,
    /// The last component.
    Unit,
    /// The last component without .slice, .service or .scope.
    Name,
    /// What is behind the @ of an instance, else as `Name`.
    Instance,
}

const PLACES: [(&str, Place); 5] = [
    ("uid", Place::Uid),
    ("user", Place::User),
    ("unit", Place::Unit),
    ("name", Place::Name),
    ("instance", Place::Instance),
];

impl Template {
    /// What is wrong, and what to write instead.
    pub(super) fn parse(text: &str) -> Result<Template, (String, String)> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((place, behind)) = after.split_once('}') else {
                return Err((
                    format!("{text:?} has a {{ without }}"),
                    "write {uid}".into(),
                ));
            };
            parts.push(Part::Text(before.to_owned()));
            match PLACES.iter().find(|(word, _)| *word == place) {
                Some((_, place)) => parts.push(Part::Place(*place)),
                None => {
                    let known = PLACES.map(|(word, _)| word);
                    let instead = match nearest(place, &known) {
                        Some(word) => format!("write {{{word}}}"),
                        None => "write {uid}, {user}, {unit}, {name} or {instance}".into(),
                    };
                    let place = format!("{{{place}}}");
                    return Err((format!("{place:?} is nothing that is filled in"), instead));
                }
            }
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|p| !matches!(p, Part::Text(t) if t.is_empty()));
        let template = Template(parts);
        match template.literal() {
            Some("base") => Err((
                "base is the machine's own currency and funds no cgroup".into(),
                "write another name, and fund = [ { from = \"base\", … } ]".into(),
            )),
            Some(name) if !legal(name) => Err(bad_name(name)),
            _ if template.text_is_legal() => Ok(template),
            _ => Err(bad_name(text)),
        }
    }

    fn text_is_legal(&self) -> bool {
        let text = self.0.iter().filter_map(|p| match p {
            Part::Text(t) => Some(t.as_str()),
            Part::Place(_) => None,
        });
        let begins = match self.0.first() {
            Some(Part::Text(t)) => t.starts_with(|c: char| c.is_ascii_lowercase()),
            // It gets a letter in front if it needs one.
            Some(Part::Place(_)) => true,
            None => false,
        };
        begins
            && text.clone().map(str::len).sum::<usize>() < MAX
            && text.flat_map(str::chars).all(legal_char)
    }

    /// The name, if there is nothing to fill in.
    pub(super) fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(t)] => Some(t),
            _ => None,
        }
    }

    /// Nothing in it was chosen by anybody but the administrator.
    fn is_by_number(&self) -> bool {
        self.0
            .iter()
            .all(|p| matches!(p, Part::Text(_) | Part::Place(Place::Uid)))
    }

    /// A legal name. One that somebody had a part in never is a `declared` currency's: who may name
    /// a unit would choose its funding.
    pub(super) fn fill(&self, subject: &Subject<'_>, declared: impl Fn(&str) -> bool) -> String {
        if let Some(name) = self.literal() {
            return name.to_owned();
        }
        let mut raw = String::new();
        for part in &self.0 {
            match part {
                Part::Text(t) => raw.push_str(t),
                Part::Place(place) => place.fill(subject, &mut raw),
            }
        }
        let mut name = legalise(&raw);
        if !self.is_by_number() {
            while declared(&name) || name == "base" {
                name = legalise(&format!("x-{name}"));
            }
        }
        name
    }
}

impl Place {
    fn fill(self, subject: &Subject<'_>, out: &mut String) {
        let last = || unescape(subject.path.rsplit('/').next().unwrap_or_default());
        match self {
            Place::Uid => out.push_str(&subject.uid().to_string()),
            Place::User => match subject.user.as_ref().and_then(|u| u.name.as_deref()) {
                Some(name) => out.push_str(name),
                None => out.push_str(&format!("uid-{}", subject.uid())),
            },
            Place::Unit => out.push_str(&last()),
            Place::Name => {
                let last = last();
                out.push_str(unit_stem(&last).unwrap_or(&last));
            }
            Place::Instance => {
                let last = last();
                let stem = unit_stem(&last).unwrap_or(&last);
                let instance = stem.split_once('@').map(|(_, i)| i);
                out.push_str(instance.filter(|i| !i.is_empty()).unwrap_or(stem));
            }
        }
    }
}

/// `\x2d` is how systemd writes - in a part of a name.
fn unescape(name: &str) -> String {
    let mut out = Vec::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once("\\x") {
        out.extend_from_slice(before.as_bytes());
        match after.get(..2).and_then(|h| u8::from_str_radix(h, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.extend_from_slice(b"\\x");
                rest = after;
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

fn legalise(raw: &str) -> String {
    let mut lost = false;
    let mut name = String::new();
    for c in raw.chars() {
        name.push(match c {
            c if legal_char(c) => c,
            '@' | '.' | ':' => '-',
            c => {
                lost = true;
                match c.to_ascii_lowercase() {
                    low if legal_char(low) => low,
                    _ => '-',
                }
            }
        });
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "x-");
    }
    if lost || name.len() > MAX {
        name.truncate(MAX - 9);
        name.push_str(&format!("-{:08x}", checksum(raw)));
    }
    name
}

/// FNV-1a: the same at every start and in every version, which std's hashes do not promise.
fn checksum(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    })
}

/// What is wrong with a name, and what one looks like.
pub(super) fn bad_name(name: &str) -> (String, String) {
    let shown: String = name.chars().take(MAX + 1).collect();
    if name.contains('/') && !name.starts_with('/') {
        return (
            format!("{shown:?} is no plain name, and a policy makes no others"),
            "leave out what is before the / (USER/NAME is what that user creates)".into(),
        );
    }
    (
        format!("{shown:?} is no currency's name"),
        "begin with a small letter; up to 63 small letters, digits, - and _".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::User;
    use proptest::prelude::*;

    fn filled(template: &str, path: &str, owner: u32, name: Option<&str>) -> String {
        let user = name.map(|n| User {
            uid: 1000,
            gid: 1000,
            name: Some(n.to_owned()),
            groups: vec![],
        });
        let subject = Subject {
            path,
            owner,
            group: 0,
            user,
        };
        Template::parse(template)
            .expect("a template")
            .fill(&subject, |n| n == "gold")
    }

    #[test]
    fn filled_in() {
        let slice = "/user.slice/user-1000.slice";
        for (template, path, name, want) in [
            ("user-{uid}", slice, Some("alice"), "user-1000"),
            ("{user}", slice, Some("alice"), "alice"),
            ("{user}", slice, None, "uid-1000"),
            ("{user}", slice, Some("gold"), "x-gold"),
            ("{user}", slice, Some("base"), "x-base"),
            ("{user}", slice, Some("1st"), "x-1st"),
            ("{name}", slice, None, "user-1000"),
            (
                "{unit}",
                "/system.slice/nginx.service",
                None,
                "nginx-service",
            ),
            (
                "{name}",
                "/system.slice/php-fpm@alice.service",
                None,
                "php-fpm-alice",
            ),
            (
                "c-{instance}",
                "/system.slice/php-fpm@alice.service",
                None,
                "c-alice",
            ),
            (
                "c-{instance}",
                r"/s.slice/php@a\x2db.service",
                None,
                "c-a-b",
            ),
            (
                "c-{instance}",
                "/system.slice/nginx.service",
                None,
                "c-nginx",
            ),
            (
                "c-{instance}",
                "/system.slice/nginx@.service",
                None,
                "c-nginx-",
            ),
            ("u{uid}-{name}", "/system.slice/ci.service", None, "u7-ci"),
            ("{name}", "/a/Capital", None, "capital-11caa64b"),
            ("{name}", "/a/capital", None, "capital"),
        ] {
            let got = filled(template, path, 7, name);
            assert_eq!(got, want, "{template} {path}");
        }
    }

    #[test]
    fn long_names_keep_apart() {
        let a = filled("{name}", &format!("/{}1", "a".repeat(90)), 0, None);
        let b = filled("{name}", &format!("/{}2", "a".repeat(90)), 0, None);
        assert!(a != b && legal(&a) && legal(&b), "{a} {b}");
    }

    #[test]
    fn refused() {
        for (text, what) in [
            ("user-{uid", "\"user-{uid\" has a { without }"),
            ("user-{uuid}", "\"{uuid}\" is nothing that is filled in"),
            ("User-{uid}", "\"User-{uid}\" is no currency's name"),
            ("1-{uid}", "\"1-{uid}\" is no currency's name"),
            ("a b", "\"a b\" is no currency's name"),
            ("", "\"\" is no currency's name"),
            ("a}", "\"a}\" is no currency's name"),
            (
                "base",
                "base is the machine's own currency and funds no cgroup",
            ),
        ] {
            assert_eq!(Template::parse(text).map_err(|e| e.0), Err(what.to_owned()));
        }
        assert_eq!(
            Template::parse("{uuid}").map_err(|e| e.1),
            Err("write {uid}".to_owned())
        );
    }

    proptest! {
        #[test]
        fn always_legal(
            template in "([a-z{}]|\\{(uid|user|unit|name|instance)\\}|-){0,12}",
            path in "(/(\\PC|\\\\x|2d|@|\\.service){0,30}){1,4}",
            owner: u32,
            name in prop::option::of("\\PC{0,80}"),
        ) {
            if let Ok(t) = Template::parse(&template) {
                let user = name.map(|n| User { uid: owner, gid: 0, name: Some(n), groups: vec![] });
                let subject = Subject { path: &path, owner, group: 0, user };
                let filled = t.fill(&subject, |n| n.len() < 4);
                prop_assert!(legal(&filled), "{:?}", filled);
                prop_assert!(t.literal().is_some() || filled != "base");
            }
        }
    }
}
