// SPDX-License-Identifier: GPL-2.0-only
//! How much passes when offers go together: two, or three in a ring, by one rule.

/// What is left of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Half {
    /// At most.
    pub gives: u64,
    /// At least.
    pub wants: u64,
    /// Who came first.
    pub turn: u64,
}

/// What one of them does of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// What it gives to the next in the ring.
    pub gives: u64,
    /// What it gets from the one before.
    pub gets: u64,
    /// How much of what it wants that is as it asked; `gets` has the surplus, too.
    pub asked: u64,
}

/// Rounds until the parts of a ring fit. Two are enough for a pair; with three, each may lose a
/// unit to rounding.
const ROUNDS: usize = 64;

/// Does what is given in the ring come to what is wanted? In two or three resources, of whatever
/// size.
pub fn crosses(ring: &[Half]) -> bool {
    product(ring.iter().map(|h| h.gives)) >= product(ring.iter().map(|h| h.wants))
}

/// Of at most three numbers, in 192 bits: the high ones first.
fn product(factors: impl Iterator<Item = u64>) -> (u128, u64) {
    let (mut high, mut low) = (0_u128, 1_u64);
    for f in factors.map(u128::from) {
        let carried = u128::from(low) * f;
        high = high * f + (carried >> 64);
        low = u64::try_from(carried & u128::from(u64::MAX)).unwrap_or(u64::MAX);
    }
    (high, low)
}

/// `n · m / d`, rounded down.
fn part(n: u64, m: u64, d: u64) -> u64 {
    u64::try_from(u128::from(n) * u128::from(m) / u128::from(d.max(1))).unwrap_or(u64::MAX)
}

/// What passes when each of `ring` gives to the next, and the last to the first; `None` if they do
/// not go together.
///
/// Each gets as much of what it wants as the one before can give for what that one gets: the
/// largest parts for which everybody is at its own rate or better. What one gives at most and the
/// next asks at least is divided in the middle.
pub fn fill(ring: &[Half]) -> Option<Vec<Part>> {
    if ring.len() < 2 || !crosses(ring) {
        return None;
    }
    let n = ring.len();
    let most = |i: usize, asked: &[u64]| part(asked[i], ring[i].gives, ring[i].wants);
    let mut asked: Vec<u64> = ring.iter().map(|h| h.wants).collect();
    for _ in 0..ROUNDS {
        let mut fits = true;
        for i in 0..n {
            let (to, most) = ((i + 1) % n, most(i, &asked));
            if asked[to] > most {
                (asked[to], fits) = (most, false);
            }
        }
        if asked.contains(&0) {
            return None;
        }
        if !fits {
            continue;
        }
        let mut parts = vec![Part::default(); n];
        for i in 0..n {
            let to = (i + 1) % n;
            let span = most(i, &asked) - asked[to];
            // The odd unit is the gain of whoever came first.
            let odd = u64::from(ring[to].turn < ring[i].turn);
            let passes = asked[to] + (span + odd) / 2;
            parts[i].gives = passes;
            (parts[to].gets, parts[to].asked) = (passes, asked[to]);
        }
        return Some(parts);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(gives: u64, wants: u64, turn: u64) -> Half {
        Half { gives, wants, turn }
    }

    fn given(ring: &[Half]) -> Option<Vec<u64>> {
        fill(ring).map(|parts| parts.iter().map(|p| p.gives).collect())
    }

    #[test]
    fn the_surplus_is_split_evenly() {
        // The paper's example, with a rate on each side that leaves room (§3.2.1).
        assert_eq!(
            given(&[half(20, 10, 2), half(10, 10, 1)]),
            Some(vec![15, 10])
        );
        assert_eq!(
            given(&[half(100, 50, 2), half(100, 50, 1)]),
            Some(vec![75, 75])
        );
        assert_eq!(
            given(&[half(50, 20, 2), half(20, 50, 1)]),
            Some(vec![50, 20])
        );
        // A conflicting rate is no match.
        assert_eq!(given(&[half(20, 10, 2), half(10, 21, 1)]), None);
    }

    #[test]
    fn the_larger_is_matched_in_part() {
        // 10 of the 40 that are wanted, at the middle of 1/2 and 1.
        assert_eq!(given(&[half(10, 5, 2), half(40, 40, 1)]), Some(vec![10, 7]));
        assert_eq!(
            given(&[half(40, 40, 2), half(10, 5, 1)]),
            Some(vec![8, 10]),
            "the newcomer is the larger"
        );
    }

    #[test]
    fn three_in_a_ring() {
        let ring = [half(10, 10, 3), half(10, 10, 1), half(10, 10, 2)];
        assert_eq!(given(&ring), Some(vec![10, 10, 10]));
        let ring = [half(30, 10, 3), half(10, 10, 1), half(10, 10, 2)];
        assert_eq!(given(&ring), Some(vec![20, 10, 10]));
        let ring = [half(10, 10, 3), half(9, 10, 1), half(10, 10, 2)];
        assert_eq!(given(&ring), None);
    }

    #[test]
    fn the_largest_amounts_are_compared_exactly() {
        let most = u64::MAX;
        assert!(crosses(&[
            half(most, most, 1),
            half(most, most, 2),
            half(most, most, 3)
        ]));
        assert!(!crosses(&[
            half(most, most, 1),
            half(most, most, 2),
            half(most - 1, most, 3)
        ]));
    }
}
