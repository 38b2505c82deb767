//! Symbolic dimensions: polynomials with integer coefficients over named symbols and over quotients
//! that are rounded down, canonical on construction, so that structural equality is equality of
//! value for every binding as far as the usual rules of algebra show it.
//!
//! Constants and bare symbols, which nearly all dimensions are, hold no list.

mod floor;
mod text;

pub use text::MAX_SYMBOL;

use floor::Floor;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A dimension: a constant, a symbol, or sums, products and quotients (rounded down) of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim(Repr);

/// Each dimension has one form: a sum is neither a constant nor a bare symbol.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Const(i64),
    Symbol(Arc<str>),
    /// Non-zero coefficients, sorted by monomial with longer products first.
    Sum(Arc<[Term]>),
}

/// A product and its coefficient.
type Term = (Monomial, i64);

/// A product of atoms, sorted; empty for the constant term.
type Monomial = Vec<Atom>;

/// What products are made of; integers for every binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Atom {
    Symbol(Arc<str>),
    Floor(Arc<Floor>),
}

/// The most terms of a sum: no shape needs more, and it bounds what a hostile text can cost.
const MAX_TERMS: usize = 64;
/// The most factors of a product.
const MAX_FACTORS: usize = 16;

/// Values of symbols at run time.
pub type Bindings = BTreeMap<String, i64>;

impl Dim {
    /// The constant `n`.
    pub fn constant(n: i64) -> Self {
        Dim(Repr::Const(n))
    }

    /// The symbol `name`.
    pub fn symbol(name: &str) -> Self {
        Dim(Repr::Symbol(Arc::from(name)))
    }

    /// The sum of terms; `None` where it is too large. See [`floor::fits`].
    fn from_map(map: BTreeMap<Monomial, i64>) -> Option<Self> {
        if map.len() > MAX_TERMS {
            return None;
        }
        let mut terms: Vec<Term> = map.into_iter().filter(|(_, c)| *c != 0).collect();
        match terms.as_slice() {
            [] => return Some(Dim::constant(0)),
            [(m, c)] if m.is_empty() => return Some(Dim::constant(*c)),
            [(m, 1)] => {
                if let [Atom::Symbol(name)] = m.as_slice() {
                    return Some(Dim(Repr::Symbol(name.clone())));
                }
            }
            _ => {}
        }
        terms.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
        floor::fits(&terms).then(|| Dim(Repr::Sum(terms.into())))
    }

    /// The terms, in order.
    fn terms(&self) -> Cow<'_, [Term]> {
        match &self.0 {
            Repr::Const(0) => Cow::Borrowed(&[]),
            Repr::Const(n) => Cow::Owned(vec![(Vec::new(), *n)]),
            Repr::Symbol(name) => Cow::Owned(vec![(vec![Atom::Symbol(name.clone())], 1)]),
            Repr::Sum(terms) => Cow::Borrowed(terms),
        }
    }

    /// The value where no symbol occurs.
    pub fn as_const(&self) -> Option<i64> {
        match self.0 {
            Repr::Const(n) => Some(n),
            Repr::Symbol(_) | Repr::Sum(_) => None,
        }
    }

    /// The name where the dimension is one bare symbol.
    pub fn as_symbol(&self) -> Option<&str> {
        match &self.0 {
            Repr::Symbol(name) => Some(name),
            Repr::Const(_) | Repr::Sum(_) => None,
        }
    }

    /// Every symbol that occurs, those inside quotients included, sorted, each once.
    pub fn symbols(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect_symbols(&mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    fn collect_symbols<'a>(&'a self, names: &mut Vec<&'a str>) {
        match &self.0 {
            Repr::Const(_) => {}
            Repr::Symbol(name) => names.push(name),
            Repr::Sum(terms) => {
                for atom in terms.iter().flat_map(|(m, _)| m) {
                    match atom {
                        Atom::Symbol(name) => names.push(name),
                        Atom::Floor(floor) => floor.numerator.collect_symbols(names),
                    }
                }
            }
        }
    }

    /// The sum; `None` when a coefficient overflows or the sum is too large (over 64 terms).
    pub fn add(&self, other: &Dim) -> Option<Dim> {
        match (&self.0, &other.0) {
            (Repr::Const(a), Repr::Const(b)) => return a.checked_add(*b).map(Dim::constant),
            (Repr::Const(0), _) => return Some(other.clone()),
            (_, Repr::Const(0)) => return Some(self.clone()),
            _ => {}
        }
        let mut map: BTreeMap<Monomial, i64> = self.terms().into_owned().into_iter().collect();
        for (m, c) in other.terms().iter() {
            let slot = map.entry(m.clone()).or_insert(0);
            *slot = slot.checked_add(*c)?;
        }
        Self::from_map(map)
    }

    /// The difference; `None` when a coefficient overflows.
    pub fn sub(&self, other: &Dim) -> Option<Dim> {
        self.add(&other.mul(&Dim::constant(-1))?)
    }

    /// The product; `None` when a coefficient overflows or the product is too large (over 64 terms).
    pub fn mul(&self, other: &Dim) -> Option<Dim> {
        match (&self.0, &other.0) {
            (Repr::Const(a), Repr::Const(b)) => return a.checked_mul(*b).map(Dim::constant),
            (Repr::Const(1), _) => return Some(other.clone()),
            (_, Repr::Const(1)) => return Some(self.clone()),
            _ => {}
        }
        let (left, right) = (self.terms(), other.terms());
        if left.len().checked_mul(right.len())? > MAX_TERMS {
            return None;
        }
        let mut map: BTreeMap<Monomial, i64> = BTreeMap::new();
        for (m1, c1) in left.iter() {
            for (m2, c2) in right.iter() {
                let mut m = m1.clone();
                m.extend(m2.iter().cloned());
                m.sort();
                if m.len() > MAX_FACTORS {
                    return None;
                }
                let slot = map.entry(m).or_insert(0);
                *slot = slot.checked_add(c1.checked_mul(*c2)?)?;
            }
        }
        Self::from_map(map)
    }

    /// The exact quotient: `None` where it is not known to be exact. A zero dividend divides by
    /// anything but zero.
    pub fn div_exact(&self, by: &Dim) -> Option<Dim> {
        if let (Some(a), Some(b)) = (self.as_const(), by.as_const()) {
            return (a.checked_rem(b)? == 0).then(|| a.checked_div(b).map(Dim::constant))?;
        }
        if self == by {
            return Some(Dim::constant(1));
        }
        match &*by.terms() {
            [] => None,
            [term] => self.div_term(term),
            // A sum divides only a constant multiple, or symbol multiple, of itself.
            [lead, ..] => {
                let own = self.terms().first().cloned()?;
                let quotient = Self::from_map(BTreeMap::from([own]))?.div_term(lead)?;
                (by.mul(&quotient)? == *self).then_some(quotient)
            }
        }
    }

    /// [`Dim::div_exact`] by one product.
    fn div_term(&self, (monomial, coefficient): &Term) -> Option<Dim> {
        let mut map = BTreeMap::new();
        for (m, c) in self.terms().iter() {
            let mut rest = m.clone();
            for atom in monomial {
                let at = rest.iter().position(|a| a == atom)?;
                rest.remove(at);
            }
            if c.checked_rem(*coefficient)? != 0 {
                return None;
            }
            map.insert(rest, c.checked_div(*coefficient)?);
        }
        Self::from_map(map)
    }

    /// The value under `bindings`; `None` for an unbound symbol or an overflow.
    pub fn evaluate(&self, bindings: &Bindings) -> Option<i64> {
        let terms = match &self.0 {
            Repr::Const(n) => return Some(*n),
            Repr::Symbol(name) => return bindings.get(&**name).copied(),
            Repr::Sum(terms) => terms,
        };
        let mut total = 0i64;
        for (m, c) in terms.iter() {
            let mut product = *c;
            for atom in m {
                let value = match atom {
                    Atom::Symbol(name) => *bindings.get(&**name)?,
                    Atom::Floor(floor) => floor.numerator.evaluate(bindings)?.checked_div_euclid(floor.by)?,
                };
                product = product.checked_mul(value)?;
            }
            total = total.checked_add(product)?;
        }
        Some(total)
    }

    /// The one symbol of a dimension such as `2*S + 1` and its value where the dimension is `size`;
    /// `None` where no whole number that is not negative gives it, or there is not just one symbol.
    pub fn solve(&self, size: i64) -> Option<(String, i64)> {
        let &[symbol] = self.symbols().as_slice() else { return None };
        let at = |n: i64| self.evaluate(&Bindings::from([(symbol.to_owned(), n)]));
        let (zero, one) = (at(0)?, at(1)?);
        let (step, rest) = (one.checked_sub(zero)?, size.checked_sub(zero)?);
        let value = rest.checked_div(step)?;
        (value >= 0 && at(value)? == size).then(|| (symbol.to_owned(), value))
    }

    /// The dimension with `name` replaced by `by`; `None` on overflow.
    pub fn substitute(&self, name: &str, by: &Dim) -> Option<Dim> {
        let terms = match &self.0 {
            Repr::Const(_) => return Some(self.clone()),
            Repr::Symbol(own) => return Some(if **own == *name { by.clone() } else { self.clone() }),
            Repr::Sum(terms) => terms,
        };
        let mut total = Dim::constant(0);
        for (m, c) in terms.iter() {
            let mut product = Dim::constant(*c);
            for atom in m {
                let factor = match atom {
                    Atom::Symbol(own) if **own == *name => by.clone(),
                    Atom::Symbol(own) => Dim(Repr::Symbol(own.clone())),
                    Atom::Floor(floor) => floor.numerator.substitute(name, by)?.div_floor(floor.by)?,
                };
                product = product.mul(&factor)?;
            }
            total = total.add(&product)?;
        }
        Some(total)
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Self {
        Dim::constant(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_equal_structures() {
        let (s, p) = (Dim::symbol("S"), Dim::symbol("P"));
        let a = s.add(&p).unwrap().mul(&Dim::constant(4)).unwrap();
        let b = p.mul(&4.into()).unwrap().add(&s.mul(&4.into()).unwrap()).unwrap();
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "4*P + 4*S");
        assert_eq!(a.to_string().parse::<Dim>().unwrap(), a);
        assert_eq!(a.div_exact(&4.into()).unwrap(), s.add(&p).unwrap());
        assert_eq!(a.div_exact(&s.add(&p).unwrap()).unwrap(), 4.into());
        assert_eq!(a.div_exact(&3.into()), None);
        assert_eq!(Dim::constant(0).div_exact(&s).unwrap(), 0.into());
        assert_eq!(Dim::constant(0).div_exact(&0.into()), None);
        assert_eq!(Dim::constant(6).div_exact(&0.into()), None);
        assert_eq!(s.div_exact(&0.into()), None);
        assert_eq!(Dim::constant(i64::MIN).div_exact(&(-1).into()), None);
        // What cancels to a symbol or a constant is one.
        assert_eq!(a.sub(&p.mul(&4.into()).unwrap()).unwrap().div_exact(&4.into()).unwrap(), s);
        assert_eq!(s.sub(&s).unwrap(), 0.into());
    }

    #[test]
    fn solves_for_one_symbol() {
        let solved = |text: &str, size| text.parse::<Dim>().unwrap().solve(size).map(|(_, n)| n);
        assert_eq!(solved("S", 5), Some(5));
        assert_eq!(solved("2*S + 1", 7), Some(3));
        assert_eq!(solved("2*S + 1", 8), None);
        assert_eq!(solved("S + 3", 2), None);
        assert_eq!(solved("S + T", 2), None);
        assert_eq!(solved("4", 4), None);
    }

    #[test]
    fn evaluates_substitutes_and_refuses_overflow() {
        let d: Dim = "2*S*S - 3*S + 7".parse().unwrap();
        assert_eq!(d.evaluate(&Bindings::from([("S".into(), 5)])), Some(42));
        assert_eq!(d.evaluate(&Bindings::new()), None);
        assert_eq!(d.substitute("S", &1.into()).unwrap(), 6.into());
        assert_eq!(Dim::constant(i64::MAX).add(&1.into()), None);
        assert_eq!(Dim::constant(i64::MAX).mul(&2.into()), None);
        let least = Dim::constant(i64::MIN).add(&Dim::symbol("S")).unwrap();
        assert_eq!(least.to_string().parse::<Dim>().unwrap(), least);
        let many = |n| (0..n).map(|i| format!("s{i}")).collect::<Vec<_>>().join(" + ");
        assert!(many(64).parse::<Dim>().is_ok());
        assert!(many(65).parse::<Dim>().is_err());
        assert!("S +".parse::<Dim>().is_err());
        assert!("".parse::<Dim>().is_err());
    }

    #[test]
    fn a_dimension_is_three_words() {
        assert!(size_of::<Dim>() <= 3 * size_of::<usize>());
        assert!(size_of::<Option<Dim>>() <= 3 * size_of::<usize>());
    }
}
