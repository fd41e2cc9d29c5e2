// SPDX-License-Identifier: GPL-2.0-only
//! The offers of one pair of resources in order of price, then time: a balanced tree (AVL) that
//! knows of each subtree how small a part somebody in it takes. So the first who takes what there
//! is, is found without a look at all those that want more: offers that are all or none do not slow
//! down others.

use super::Offer;
use std::cmp::Ordering;

const NONE: u32 = u32::MAX;

/// Where an offer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub id: u64,
    pub turn: u64,
    pub gives: u64,
    pub wants: u64,
    /// It takes no less.
    pub least: u64,
}

impl Place {
    pub(super) fn of(o: &Offer) -> Place {
        Place {
            id: o.id,
            turn: o.turn,
            gives: o.gives(),
            wants: o.left,
            least: o.least,
        }
    }

    /// Who gives most for what it wants goes first, then who came first.
    fn order(&self, other: &Place) -> Ordering {
        let mine = u128::from(self.gives) * u128::from(other.wants);
        let theirs = u128::from(other.gives) * u128::from(self.wants);
        (theirs.cmp(&mine))
            .then(self.turn.cmp(&other.turn))
            .then(self.id.cmp(&other.id))
    }
}

#[derive(Debug, Clone)]
struct Node {
    place: Place,
    left: u32,
    right: u32,
    height: u8,
    /// The smallest `least` in this subtree.
    least: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Queue {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            nodes: Vec::new(),
            free: Vec::new(),
            root: NONE,
        }
    }
}

impl Queue {
    pub(super) fn insert(&mut self, place: Place) {
        let node = Node {
            least: place.least,
            place,
            left: NONE,
            right: NONE,
            height: 1,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
            }
        };
        self.root = self.put(self.root, at);
    }

    pub(super) fn remove(&mut self, place: &Place) {
        self.root = self.take(self.root, place);
    }

    /// The first that takes as little as `amount`.
    pub(super) fn first(&self, amount: u64) -> Option<u64> {
        let mut at = self.root;
        while at != NONE && self.node(at).least <= amount {
            let node = self.node(at);
            if self.least(node.left) <= amount {
                at = node.left;
            } else if node.place.least <= amount {
                return Some(node.place.id);
            } else {
                at = node.right;
            }
        }
        None
    }

    /// All in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let mut above = Vec::new();
        let mut at = self.root;
        std::iter::from_fn(move || {
            while at != NONE {
                above.push(at);
                at = self.node(at).left;
            }
            let next = above.pop()?;
            at = self.node(next).right;
            Some(self.node(next).place.id)
        })
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    fn height(&self, at: u32) -> u8 {
        if at == NONE { 0 } else { self.node(at).height }
    }

    fn least(&self, at: u32) -> u64 {
        if at == NONE {
            u64::MAX
        } else {
            self.node(at).least
        }
    }

    /// Puts the node `new` into the subtree `at`; its root then.
    fn put(&mut self, at: u32, new: u32) -> u32 {
        if at == NONE {
            return new;
        }
        match self.node(new).place.order(&self.node(at).place) {
            Ordering::Less => {
                let left = self.put(self.node(at).left, new);
                self.node_mut(at).left = left;
            }
            _ => {
                let right = self.put(self.node(at).right, new);
                self.node_mut(at).right = right;
            }
        }
        self.balance(at)
    }

    /// Takes the node of `place` out of the subtree `at`; its root then.
    fn take(&mut self, at: u32, place: &Place) -> u32 {
        if at == NONE {
            return NONE;
        }
        let (left, right) = (self.node(at).left, self.node(at).right);
        match place.order(&self.node(at).place) {
            Ordering::Less => {
                let left = self.take(left, place);
                self.node_mut(at).left = left;
            }
            Ordering::Greater => {
                let right = self.take(right, place);
                self.node_mut(at).right = right;
            }
            Ordering::Equal => {
                self.free.push(at);
                if left == NONE || right == NONE {
                    return if left == NONE { right } else { left };
                }
                let (rest, first) = self.take_first(right);
                let next = self.node_mut(first);
                (next.left, next.right) = (left, rest);
                return self.balance(first);
            }
        }
        self.balance(at)
    }

    /// The subtree `at` without its first node, and that node.
    fn take_first(&mut self, at: u32) -> (u32, u32) {
        let left = self.node(at).left;
        if left == NONE {
            return (self.node(at).right, at);
        }
        let (left, first) = self.take_first(left);
        self.node_mut(at).left = left;
        (self.balance(at), first)
    }

    /// Brings what is known of the subtree `at` in step, and its sides; its root then.
    fn balance(&mut self, at: u32) -> u32 {
        let (left, right) = (self.node(at).left, self.node(at).right);
        let (high, low) = (self.height(left), self.height(right));
        if high > low + 1 {
            let inner = self.node(left).right;
            if self.height(inner) > self.height(self.node(left).left) {
                let turned = self.turn_left(left);
                self.node_mut(at).left = turned;
            }
            return self.turn_right(at);
        }
        if low > high + 1 {
            let inner = self.node(right).left;
            if self.height(inner) > self.height(self.node(right).right) {
                let turned = self.turn_right(right);
                self.node_mut(at).right = turned;
            }
            return self.turn_left(at);
        }
        self.sum_up(at);
        at
    }

    fn turn_left(&mut self, at: u32) -> u32 {
        let up = self.node(at).right;
        self.node_mut(at).right = self.node(up).left;
        self.node_mut(up).left = at;
        self.sum_up(at);
        self.sum_up(up);
        up
    }

    fn turn_right(&mut self, at: u32) -> u32 {
        let up = self.node(at).left;
        self.node_mut(at).left = self.node(up).right;
        self.node_mut(up).right = at;
        self.sum_up(at);
        self.sum_up(up);
        up
    }

    fn sum_up(&mut self, at: u32) {
        let (left, right) = (self.node(at).left, self.node(at).right);
        let height = 1 + self.height(left).max(self.height(right));
        let least = self.least(left).min(self.least(right));
        let node = self.node_mut(at);
        node.height = height;
        node.least = least.min(node.place.least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(q: &Queue, at: u32) -> (u8, u64) {
        if at == NONE {
            return (0, u64::MAX);
        }
        let node = q.node(at);
        let (l, r) = (check(q, node.left), check(q, node.right));
        assert!(l.0.abs_diff(r.0) <= 1, "unbalanced");
        let known = (1 + l.0.max(r.0), l.1.min(r.1).min(node.place.least));
        assert_eq!((node.height, node.least), known);
        known
    }

    proptest! {
        #[test]
        fn it_is_what_a_sorted_list_is(
            steps in prop::collection::vec(
                (1..20_u64, 1..20_u64, 1..20_u64, any::<bool>()),
                1..200,
            ),
        ) {
            let (mut queue, mut list): (Queue, Vec<Place>) = Default::default();
            for (n, (gives, wants, least, remove)) in steps.into_iter().enumerate() {
                if remove && !list.is_empty() {
                    let at = usize::try_from(gives * wants).unwrap_or(0) % list.len();
                    let place = list.remove(at);
                    queue.remove(&place);
                } else {
                    let id = n as u64;
                    let place = Place { id, turn: id, gives, wants, least };
                    queue.insert(place);
                    list.push(place);
                    list.sort_by(|a, b| {
                        let by_price = (b.gives * a.wants).cmp(&(a.gives * b.wants));
                        by_price.then(a.turn.cmp(&b.turn))
                    });
                }
                check(&queue, queue.root);
                let ids: Vec<u64> = list.iter().map(|p| p.id).collect();
                prop_assert_eq!(queue.iter().collect::<Vec<_>>(), ids);
                for amount in 0..20 {
                    let first = list.iter().find(|p| p.least <= amount).map(|p| p.id);
                    prop_assert_eq!(queue.first(amount), first);
                }
            }
        }
    }
}
