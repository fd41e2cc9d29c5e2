// SPDX-License-Identifier: GPL-2.0-only
//! Imports go one way: no module imports, over others or not, what imports it. (Of crates cargo
//! sees to that.)
//!
//! A module and those inside it are one to whoever is outside. So for each module there is a graph
//! of its own parts, with an arrow where any file of one names something of another; no circle is
//! in it. What parts name of the module that they make up is no arrow. A name is followed through
//! what `use` brings it along. Tests are left out.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, ItemMod, ItemUse, Macro, Token, UseTree, punctuated::Punctuated};

/// From the root of a crate, which is empty.
type Module = Vec<String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The folders with a Cargo.toml of a member.
fn crates() -> Vec<PathBuf> {
    let workspace = read_to_string(root().join("Cargo.toml")).unwrap();
    let members = workspace.split("members = [").nth(1).unwrap();
    let members = members.split(']').next().unwrap();
    let names = members.split('"').skip(1).step_by(2);
    names.map(|name| root().join(name)).collect()
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg")
            && a.parse_args::<syn::Ident>()
                .is_ok_and(|what| what == "test")
    })
}

fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// What a file says of other modules.
#[derive(Default)]
struct Said {
    /// Each path that begins with `crate`, `super`, `self` or `tix_api`, and each that `use` names.
    paths: Vec<Vec<String>>,
    /// What `use` brings in, by the name that it has here.
    names: BTreeMap<String, Vec<String>>,
    /// What `use` brings in all of.
    all_of: Vec<Vec<String>>,
    /// What is defined here.
    items: BTreeSet<String>,
}

impl Said {
    fn tree(&mut self, tree: &UseTree, mut path: Vec<String>) {
        match tree {
            UseTree::Path(p) => {
                path.push(p.ident.to_string());
                self.tree(&p.tree, path);
            }
            UseTree::Group(g) => g.items.iter().for_each(|t| self.tree(t, path.clone())),
            UseTree::Glob(_) => {
                self.paths.push(path.clone());
                self.all_of.push(path);
            }
            UseTree::Name(_) | UseTree::Rename(_) => {
                let (what, called) = match tree {
                    UseTree::Name(n) => (&n.ident, &n.ident),
                    UseTree::Rename(r) => (&r.ident, &r.rename),
                    _ => return,
                };
                let own = what == "self";
                let called = match path.last().filter(|_| own && what == called) {
                    Some(last) => last.clone(),
                    None => called.to_string(),
                };
                if !own {
                    path.push(what.to_string());
                }
                self.paths.push(path.clone());
                self.names.insert(called, path);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Said {
    fn visit_item_mod(&mut self, m: &'ast ItemMod) {
        if !is_for_tests(&m.attrs) {
            visit::visit_item_mod(self, m);
        }
    }

    fn visit_item_use(&mut self, u: &'ast ItemUse) {
        if !is_for_tests(&u.attrs) {
            self.tree(&u.tree, Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let begins = ["crate", "super", "self", "tix_api"];
        if names.len() > 1 && begins.contains(&names[0].as_str()) {
            self.paths.push(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, m: &'ast Macro) {
        if let Ok(all) = m.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated) {
            all.iter().for_each(|e| self.visit_expr(e));
        }
        visit::visit_macro(self, m);
    }
}

/// The modules of a crate, with what each says.
struct Crate(BTreeMap<Module, Said>);

impl Crate {
    fn read(dir: &Path) -> Crate {
        let mut crate_ = Crate(BTreeMap::new());
        crate_.add(&dir.join("src"), &Module::new());
        crate_
    }

    fn add(&mut self, dir: &Path, of: &Module) {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let inside = |name: &str| [of.as_slice(), &[name.to_owned()]].concat();
            if path.is_dir() {
                self.add(&path, &inside(&stem));
                continue;
            }
            if path.extension().is_none_or(|e| e != "rs") || stem.ends_with("tests") {
                continue;
            }
            let module = match stem.as_str() {
                "mod" => of.clone(),
                "lib" | "main" if of.is_empty() => of.clone(),
                name => inside(name),
            };
            let text = read_to_string(&path).unwrap();
            let file = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let said = self.0.entry(module).or_default();
            said.visit_file(&file);
            said.items.extend(file.items.iter().filter_map(defined));
        }
    }

    /// The module that has what `path` says in `from`; `None`: another crate has. `steps`: names
    /// that may be followed.
    fn find(&self, from: &Module, path: &[String], steps: usize) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Module::new(),
            "self" => from.clone(),
            "super" => from.split_last()?.1.to_vec(),
            _ => {
                // What `use` names without any of these is in this module or another crate.
                rest = path;
                from.clone()
            }
        };
        let begins_here = rest.len() == path.len();
        loop {
            let Some((name, left)) = rest.split_first() else {
                return Some(at);
            };
            if name == "super" {
                at.pop()?;
                rest = left;
                continue;
            }
            let inner = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.0.contains_key(&inner) {
                (at, rest) = (inner, left);
                continue;
            }
            let said = self.0.get(&at);
            let known = said.and_then(|s| s.names.get(name)).filter(|_| steps > 0);
            if let Some(known) = known.filter(|k| !begins_here || *k != path) {
                let known = [known.as_slice(), left].concat();
                return self.find(&at, &known, steps - 1);
            }
            let all_of = said.into_iter().flat_map(|s| &s.all_of);
            let all_of = all_of.filter_map(|path| self.find(&at, path, steps.checked_sub(1)?));
            let has = |m: &Module| self.0.get(m).is_some_and(|s| s.items.contains(name));
            if let Some(has) = all_of.into_iter().find(has) {
                return Some(has);
            }
            return (!begins_here || at != *from).then_some(at);
        }
    }

    /// Each module, what it names of others, and where that is.
    fn imports(&self) -> impl Iterator<Item = (&Module, &Vec<String>, Module)> {
        self.0.iter().flat_map(move |(from, said)| {
            let all = said.paths.iter();
            all.filter_map(move |path| Some((from, path, self.find(from, path, 8)?)))
        })
    }

    /// The circles among the parts of each module, in words.
    fn circles(&self, name: &str) -> Vec<String> {
        // Of each module: its parts, each with those that it imports and an example.
        type Parts<'a> = BTreeMap<&'a str, BTreeMap<String, String>>;
        let mut parts: BTreeMap<&[String], Parts<'_>> = BTreeMap::new();
        for (from, path, to) in self.imports() {
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                let example = format!("{} names {}", from.join("::"), path.join("::"));
                let its = parts.entry(&from[..common]).or_default();
                let its = its.entry(a.as_str()).or_default();
                its.entry(b.clone()).or_insert(example);
            }
        }
        let mut told = Vec::new();
        for (module, parts) in parts {
            for circle in circles(&parts) {
                let inside = [&[name.to_owned()], module].concat().join("::");
                let ties = circle.iter().flat_map(|a| {
                    let its = parts.get(a.as_str()).into_iter().flatten();
                    its.filter(|(b, _)| circle.contains(*b))
                        .map(|(_, example)| example.as_str())
                });
                let ties: Vec<&str> = ties.collect();
                told.push(format!("in {inside}: {circle:?}: {}", ties.join("; ")));
            }
        }
        told
    }
}

/// The parts that reach each other.
fn circles(parts: &BTreeMap<&str, BTreeMap<String, String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &str| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(a) = left.pop() {
            for b in parts.get(a).into_iter().flat_map(|its| its.keys()) {
                if seen.insert(b.clone()) {
                    left.push(b);
                }
            }
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<String>> = parts.keys().map(|a| (*a, reached(a))).collect();
    let with = |a: &str| {
        let mutual = |b: &&String| all.get(b.as_str()).is_some_and(|its| its.contains(a));
        all[a].iter().filter(mutual).cloned().collect()
    };
    let groups = all.keys().map(|a| with(a));
    groups.filter(|c: &BTreeSet<String>| c.len() > 1).collect()
}

#[test]
fn no_module_imports_what_imports_it() {
    let mut told = Vec::new();
    let mut imports = 0;
    for dir in crates() {
        let name = dir.strip_prefix(root()).unwrap().display().to_string();
        let crate_ = Crate::read(&dir);
        imports += crate_.imports().count();
        told.extend(crate_.circles(&name));
    }
    assert!(imports > 1000, "{imports}");
    assert!(
        told.is_empty(),
        "{} circles:\n{}",
        told.len(),
        told.join("\n")
    );
}

/// What `use` says is followed to where a name is defined, in groups, by other names and through
/// others' `use`, and a circle over three modules is found.
#[test]
fn circles_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join("src").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file(
        "lib.rs",
        "mod a; mod b; mod c; mod d; pub use b::B as Other;",
    );
    file(
        "a/mod.rs",
        "mod inner; use super::d; use inner::X; pub struct A(X);",
    );
    file(
        "a/inner.rs",
        "use super::A; use crate::{Other, d::{self as e}}; pub struct X;",
    );
    file("b.rs", "pub struct B; fn f() { g!(crate::c::C, 1); }");
    file(
        "c.rs",
        "pub struct C; #[cfg(test)] mod tests { use crate::d::D; }",
    );
    file(
        "d.rs",
        "pub struct D; #[cfg(test)] mod tests { use crate::a::A; }",
    );
    assert_eq!(Crate::read(dir.path()).circles("it"), Vec::<String>::new());
    file("c.rs", "pub struct C; impl crate::a::T for C {}");
    let told = Crate::read(dir.path()).circles("it");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with(r#"in it: {"a", "b", "c"}: "#),
        "{told:?}"
    );
}

/// The crates that `dir` is made of, of tix's.
fn below(dir: &str) -> BTreeSet<String> {
    let text = read_to_string(root().join(dir).join("Cargo.toml")).unwrap();
    let its = text
        .split("\n[")
        .find(|part| part.starts_with("dependencies]"));
    let names = its.unwrap().lines().filter_map(|l| l.split(' ').next());
    let tix = names.filter(|name| name.starts_with("tix"));
    tix.map(str::to_owned).collect()
}

#[test]
fn below_the_service_is_the_model_alone() {
    assert_eq!(below("daemon/model"), BTreeSet::new());
    let model = BTreeSet::from(["tix-model".to_owned()]);
    for name in ["ledger", "store", "cgroupfs", "systemd", "api"] {
        assert_eq!(below(&format!("daemon/{name}")), model, "{name}");
    }
    assert!(below("daemon").len() > 5);
}

/// Below the server nobody knows what is on the wire.
#[test]
fn the_server_alone_names_the_wires_types() {
    let tixd = Crate::read(&root().join("daemon"));
    let names = |said: &Said| said.paths.iter().any(|path| path[0] == "tix_api");
    let those = tixd.0.iter().filter(|(_, said)| names(said));
    let parts: BTreeSet<&str> = those
        .map(|(module, _)| module.first().map_or("main.rs", String::as_str))
        .collect();
    assert_eq!(parts, BTreeSet::from(["server"]));
}
