// SPDX-License-Identifier: GPL-2.0-only
//! A tree of weighted groups, written `A:1{A1:1,A2:2},B:3`, and what each leaf is due.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

/// One group. A leaf has no children and some busy threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub weight: u32,
    pub children: Vec<Node>,
}

/// The groups directly below the experiment's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree(pub Vec<Node>);

/// A leaf with its path and the fraction of the machine it is due.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    pub path: PathBuf,
    pub weight: u32,
    pub ideal: f64,
}

impl Tree {
    /// Parse `NAME:WEIGHT{…},…`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut rest = text.trim();
        let nodes = siblings(&mut rest).with_context(|| format!("tree {text:?}"))?;
        ensure!(rest.is_empty(), "tree {text:?}: {rest:?} is left over");
        Ok(Self(nodes))
    }

    /// Groups side by side with these weights, named `g1`, `g2`, ….
    pub fn flat(weights: &[u32]) -> Self {
        let node = |(i, &weight)| Node {
            name: format!("g{}", i + 1),
            weight,
            children: Vec::new(),
        };
        Self(weights.iter().enumerate().map(node).collect())
    }

    /// The leaves, in the order written, with what each is due on `cpus` CPUs when every leaf has
    /// `threads(path)` threads that always want one; 0 is a leaf that sleeps.
    ///
    /// A leaf with k threads can use k CPUs at most. What it cannot use goes to its siblings by
    /// weight, and further up only when all of them are capped (model.md §2).
    pub fn leaves(&self, cpus: usize, threads: impl Fn(&std::path::Path) -> usize) -> Vec<Leaf> {
        let mut out = Vec::new();
        let count = |path: &std::path::Path| threads(path) as f64 / cpus as f64;
        divide(&self.0, &PathBuf::new(), 1.0, &count, &mut out);
        out
    }
}

fn siblings(rest: &mut &str) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    loop {
        let end = rest
            .find([':', '{', '}', ','])
            .context("a group is NAME:WEIGHT")?;
        let name = rest[..end].to_owned();
        ensure!(!name.is_empty(), "a group without a name before {rest:?}");
        let Some(after) = rest[end..].strip_prefix(':') else {
            bail!("group {name} has no :WEIGHT");
        };
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let weight = after[..digits]
            .parse()
            .with_context(|| format!("the weight of {name}"))?;
        ensure!(weight > 0, "the weight of {name} is 0");
        *rest = &after[digits..];
        let mut children = Vec::new();
        if let Some(inner) = rest.strip_prefix('{') {
            *rest = inner;
            children = siblings(rest)?;
            *rest = rest
                .strip_prefix('}')
                .with_context(|| format!("group {name} is not closed by }}"))?;
        }
        nodes.push(Node {
            name,
            weight,
            children,
        });
        match rest.strip_prefix(',') {
            Some(more) => *rest = more,
            None => return Ok(nodes),
        }
    }
}

/// The most of the machine that the leaves below `node` can use.
fn cap(node: &Node, path: &std::path::Path, threads: &dyn Fn(&std::path::Path) -> f64) -> f64 {
    let path = path.join(&node.name);
    if node.children.is_empty() {
        return threads(&path);
    }
    node.children.iter().map(|c| cap(c, &path, threads)).sum()
}

fn divide(
    nodes: &[Node],
    path: &std::path::Path,
    amount: f64,
    threads: &dyn Fn(&std::path::Path) -> f64,
    out: &mut Vec<Leaf>,
) {
    let caps: Vec<f64> = nodes.iter().map(|n| cap(n, path, threads)).collect();
    let mut given = vec![0.0; nodes.len()];
    let mut open: Vec<usize> = (0..nodes.len()).collect();
    let mut left = amount;
    loop {
        let total: f64 = open.iter().map(|&i| f64::from(nodes[i].weight)).sum();
        let due = |i: usize| left * f64::from(nodes[i].weight) / total;
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&i| due(i) >= caps[i] - 1e-12);
        if full.is_empty() {
            for &i in &rest {
                given[i] = due(i);
            }
            break;
        }
        for &i in &full {
            given[i] = caps[i];
        }
        left -= full.iter().map(|&i| caps[i]).sum::<f64>();
        open = rest;
    }
    for (node, share) in nodes.iter().zip(given) {
        let path = path.join(&node.name);
        if node.children.is_empty() {
            out.push(Leaf {
                path,
                weight: node.weight,
                ideal: share,
            });
        } else {
            divide(&node.children, &path, share, threads, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ideals(spec: &str, cpus: usize, threads: impl Fn(&str) -> usize) -> Vec<f64> {
        let tree = Tree::parse(spec).unwrap();
        let count = |path: &std::path::Path| threads(&path.to_string_lossy());
        let leaves = tree.leaves(cpus, count);
        leaves.iter().map(|l| l.ideal).collect()
    }

    fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() < 1e-9, "{got:?} is not {want:?}");
        }
    }

    #[test]
    fn shares_follow_the_weights_down_the_tree() {
        let figure = "A:1{A1:1,A2:2},B:1{B1:1,B2:2,B3:3}";
        close(
            &ideals(figure, 1, |_| 1),
            &[1.0 / 6.0, 1.0 / 3.0, 1.0 / 12.0, 1.0 / 6.0, 1.0 / 4.0],
        );
    }

    #[test]
    fn a_sleeper_leaves_its_share_to_its_siblings() {
        let figure = "A:1{A1:1,A2:2},B:1{B1:1,B2:2,B3:3}";
        let awake = |path: &str| usize::from(path != "B/B3");
        close(
            &ideals(figure, 1, awake),
            &[1.0 / 6.0, 1.0 / 3.0, 1.0 / 6.0, 1.0 / 3.0, 0.0],
        );
    }

    #[test]
    fn one_thread_uses_one_cpu_at_most_and_siblings_get_the_rest_first() {
        close(&ideals("a:9,b:1", 2, |_| 1), &[0.5, 0.5]);
        // x can use a quarter of four CPUs, y as many threads as it likes: what x leaves stays in A.
        let spec = "A:1{x:3,y:1},B:1";
        let threads = |path: &str| if path == "A/x" { 1 } else { 8 };
        close(&ideals(spec, 4, threads), &[0.25, 0.25, 0.5]);
    }

    #[test]
    fn malformed_trees_are_refused() {
        for bad in [
            "", "A", "A:", "A:0", ":1", "A:1{", "A:1{B:1", "A:1}", "A:1,,B:1", "A:1x",
        ] {
            assert!(Tree::parse(bad).is_err(), "{bad:?} was taken");
        }
    }
}
