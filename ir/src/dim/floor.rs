//! Quotients rounded down, such as the places of a strided window over a size that is not known.
//!
//! For integers m, n and whole q, r, a, b with a, b > 0 the canonical form uses
//!
//! ```text
//! ⌊(q·b·m + n) / b⌋ = q·m + ⌊n / b⌋              whole multiples come out
//! ⌊(g·m + n) / (g·b)⌋ = ⌊(m + ⌊n / g⌋) / b⌋      common divisors go
//! ⌊(⌊m / a⌋ + n) / b⌋ = ⌊(m + a·n) / (a·b)⌋      quotients of quotients merge
//! ```
//!
//! so that a quotient that stays has coefficients from 0 to b − 1 without a common divisor.

use super::{Atom, Dim, Term};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most quotients inside one another.
pub(super) const MAX_DEPTH: u32 = 16;
/// The most symbols and quotients, those inside quotients counted too, of a sum that has quotients.
const MAX_ATOMS: u32 = 256;

/// `⌊numerator / by⌋` in canonical form, `by` over 1.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Floor {
    pub numerator: Dim,
    pub by: i64,
    /// Symbols and quotients inside, itself included.
    atoms: u32,
    /// Quotients from itself to the innermost.
    depth: u32,
}

/// Whether a sum stays inside the limits of quotients; one without any does.
pub(super) fn fits(terms: &[Term]) -> bool {
    let (atoms, depth) = measure(terms);
    depth == 0 || (depth <= MAX_DEPTH && atoms <= MAX_ATOMS)
}

/// Atoms in all, and the depth of quotients.
fn measure(terms: &[Term]) -> (u32, u32) {
    let (mut atoms, mut depth) = (0u32, 0);
    for atom in terms.iter().flat_map(|(m, _)| m) {
        match atom {
            Atom::Symbol(_) => atoms = atoms.saturating_add(1),
            Atom::Floor(floor) => {
                atoms = atoms.saturating_add(floor.atoms);
                depth = depth.max(floor.depth);
            }
        }
    }
    (atoms, depth)
}

impl Dim {
    /// The quotient rounded down, for every value of the symbols. `None` where `by` is not positive,
    /// or beyond limits: an overflow, more than 16 quotients inside one another, or more than 256
    /// symbols and quotients in all.
    pub fn div_floor(&self, by: i64) -> Option<Dim> {
        if by <= 0 {
            return None;
        }
        if let Some(n) = self.as_const() {
            return n.checked_div_euclid(by).map(Dim::constant);
        }
        let (mut whole, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (m, c) in self.terms().iter() {
            whole.insert(m.clone(), c.div_euclid(by));
            rest.insert(m.clone(), c.rem_euclid(by));
        }
        let (whole, rest) = (Dim::from_map(whole)?, Dim::from_map(rest)?);
        match rest.as_const() {
            // It is below `by`.
            Some(_) => Some(whole),
            None => whole.add(&quotient(&rest, by)?),
        }
    }
}

/// `⌊rest / by⌋` where the coefficients lie from 0 to `by` − 1 and one of a product is not 0.
fn quotient(rest: &Dim, by: i64) -> Option<Dim> {
    let terms = rest.terms();
    let divisor = terms.iter().filter(|(m, _)| !m.is_empty()).fold(by, |g, (_, c)| common_divisor(g, *c));
    if divisor > 1 {
        // The constant term rounds down; all are at least 0.
        let less = terms.iter().map(|(m, c)| (m.clone(), c / divisor)).collect();
        return quotient(&Dim::from_map(less)?, by / divisor);
    }
    for (m, c) in terms.iter() {
        if let ([Atom::Floor(inner)], 1) = (m.as_slice(), c) {
            let own = Dim::from_map(BTreeMap::from([(m.clone(), 1)]))?;
            let others = rest.sub(&own)?.mul(&Dim::constant(inner.by))?;
            return inner.numerator.add(&others)?.div_floor(inner.by.checked_mul(by)?);
        }
    }
    let (atoms, depth) = measure(&terms);
    let floor = Floor { numerator: rest.clone(), by, atoms: atoms.saturating_add(1), depth: depth + 1 };
    Dim::from_map(BTreeMap::from([(vec![Atom::Floor(Arc::new(floor))], 1)]))
}

/// The greatest common divisor of two numbers that are not negative.
fn common_divisor(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bindings;

    fn dim(text: &str) -> Dim {
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn quotients_have_one_form() {
        let floor = |text: &str, by| dim(text).div_floor(by).map(|d| d.to_string());
        assert_eq!(floor("7", 2).unwrap(), "3");
        assert_eq!(floor("-7", 2).unwrap(), "-4");
        assert_eq!(floor("2*S - 1", 2).unwrap(), "S - 1");
        assert_eq!(floor("4*S*P + 6*S + 5", 2).unwrap(), "2*P*S + 3*S + 2");
        assert_eq!(floor("S", 1).unwrap(), "S");
        assert_eq!(floor("S", 0), None);
        assert_eq!(floor("S", -2), None);
        assert_eq!(floor("S", 2).unwrap(), "floor(S/2)");
        assert_eq!(floor("S + 1", 2).unwrap(), "floor((S + 1)/2)");
        assert_eq!(floor("S - 1", 2).unwrap(), "floor((S + 1)/2) - 1");
        assert_eq!(floor("3*S + 7", 2).unwrap(), "S + floor((S + 1)/2) + 3");
        assert_eq!(floor("-S", 2).unwrap(), "-S + floor(S/2)");
        assert_eq!(floor("6*S + 3", 4).unwrap(), "S + floor((S + 1)/2)");
        assert_eq!(floor("P*S + P", 3).unwrap(), "floor((P*S + P)/3)");
        assert_eq!(floor("floor((S + 1)/2) + 1", 2).unwrap(), "floor((S + 3)/4)");
        assert_eq!(floor("2*floor(S/2)", 4).unwrap(), "floor(S/4)");
        assert_eq!(floor("floor(S/2) + S", 2).unwrap(), "floor(3*S/4)");
        assert_eq!(dim("floor(3*S/2)"), dim("S + floor(S/2)"));
        assert_eq!(dim("floor(floor(S/2)/3)"), dim("floor(floor(S/3)/2)"));
        assert_eq!(dim("4*floor(S/2)").div_exact(&dim("2*floor(S/2)")).unwrap(), 2.into());
    }

    #[test]
    fn every_form_has_the_value() {
        let texts = [
            "S",
            "S - 1",
            "2*S + 3",
            "-S",
            "-3*S + 5",
            "P*S - 7",
            "6*P + 4*S + 9",
            "floor(S/2)",
            "P - floor(S/2)",
            "floor((P*S + 1)/3)*P - 2",
            "floor((S + 2*floor(P/3))/5) + 1",
            "floor(S/2)*floor(P/3) - S",
        ];
        for text in texts {
            let d = dim(text);
            assert_eq!(dim(&d.to_string()), d);
            for by in [1, 2, 3, 4, 6, 7] {
                let q = d.div_floor(by).unwrap();
                assert_eq!(dim(&q.to_string()), q, "{q}");
                let half = q.div_floor(2).unwrap();
                for (s, p) in [(0, 0), (1, 0), (2, 5), (3, 1), (4, 9), (7, 2), (12, 11), (25, 31)] {
                    let at = Bindings::from([("S".into(), s), ("P".into(), p)]);
                    let value = d.evaluate(&at).unwrap().div_euclid(by);
                    assert_eq!(q.evaluate(&at), Some(value), "{text} by {by} at {at:?}: {q}");
                    assert_eq!(half.evaluate(&at), Some(value.div_euclid(2)), "{q} by 2: {half}");
                    let fixed = q.substitute("S", &s.into()).unwrap();
                    assert_eq!(fixed.evaluate(&at), Some(value), "{q} with S = {s}: {fixed}");
                    let moved = q.substitute("S", &dim("T + 1")).unwrap();
                    let at = Bindings::from([("T".into(), s - 1), ("P".into(), p)]);
                    assert_eq!(moved.evaluate(&at), Some(value), "{q} with S = T + 1: {moved}");
                }
            }
        }
        assert_eq!(dim("floor((S + P*T)/2)").symbols(), ["P", "S", "T"]);
        assert_eq!(dim("floor(S/2)").as_symbol(), None);
        assert_eq!(dim("floor(S/2)").evaluate(&Bindings::new()), None);
        assert_eq!(dim("floor(S/2)").substitute("S", &9.into()).unwrap(), 4.into());
    }

    #[test]
    fn hostile_quotients_end() {
        // Each level multiplies, so that quotients cannot merge.
        let mut deep = dim("S");
        let mut levels = 0;
        while let Some(next) = deep.mul(&dim("S")).and_then(|d| d.div_floor(3)) {
            deep = next;
            levels += 1;
            assert_eq!(dim(&deep.to_string()), deep);
        }
        assert_eq!(levels, MAX_DEPTH);
        // Each level doubles.
        let mut wide = dim("S");
        while let Some(next) = wide.mul(&wide).and_then(|d| d.add(&1.into())).and_then(|d| d.div_floor(3)) {
            wide = next;
        }
        assert!(wide.to_string().len() < 4000);
        let mut far = dim("S");
        while let Some(next) = far.div_floor(i64::from(u32::MAX)) {
            far = next;
        }
        assert_eq!(far.to_string(), "floor(S/4294967295)");
        assert_eq!(
            dim("-9223372036854775808*S").div_floor(3).unwrap().evaluate(&Bindings::from([("S".into(), 1)])),
            Some(i64::MIN.div_euclid(3))
        );
    }
}
