//! Symbolic dimensions: polynomials with integer coefficients over named symbols, canonical on
//! construction, so that structural equality is equality of value for every binding.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A product of symbols, sorted; empty for the constant term.
type Monomial = Vec<Arc<str>>;

/// A dimension: a constant, a symbol, or sums and products of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim {
    /// Non-zero coefficients, sorted by monomial with longer products first.
    terms: Vec<(Monomial, i64)>,
}

/// The most terms of a sum: no shape needs more, and it bounds what a hostile text can cost.
const MAX_TERMS: usize = 64;

/// Values of symbols at run time.
pub type Bindings = BTreeMap<String, i64>;

impl Dim {
    /// The constant `n`.
    pub fn constant(n: i64) -> Self {
        Dim { terms: if n == 0 { Vec::new() } else { vec![(Vec::new(), n)] } }
    }

    /// The symbol `name`.
    pub fn symbol(name: &str) -> Self {
        Self::from_map(BTreeMap::from([(vec![Arc::from(name)], 1)]))
    }

    fn from_map(map: BTreeMap<Monomial, i64>) -> Self {
        let mut terms: Vec<_> = map.into_iter().filter(|(_, c)| *c != 0).collect();
        terms.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(&b.0)));
        Dim { terms }
    }

    /// The value where no symbol occurs.
    pub fn as_const(&self) -> Option<i64> {
        match self.terms.as_slice() {
            [] => Some(0),
            [(m, c)] if m.is_empty() => Some(*c),
            _ => None,
        }
    }

    /// The name where the dimension is one bare symbol.
    pub fn as_symbol(&self) -> Option<&str> {
        match self.terms.as_slice() {
            [(m, 1)] if m.len() == 1 => Some(&m[0]),
            _ => None,
        }
    }

    /// Every symbol that occurs, sorted, each once.
    pub fn symbols(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.terms.iter().flat_map(|(m, _)| m.iter().map(|s| &**s)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The sum; `None` when a coefficient overflows or the sum has over 64 terms.
    pub fn add(&self, other: &Dim) -> Option<Dim> {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return a.checked_add(b).map(Dim::constant);
        }
        let mut map: BTreeMap<Monomial, i64> = self.terms.iter().cloned().collect();
        for (m, c) in &other.terms {
            let slot = map.entry(m.clone()).or_insert(0);
            *slot = slot.checked_add(*c)?;
        }
        (map.len() <= MAX_TERMS).then(|| Self::from_map(map))
    }

    /// The difference; `None` when a coefficient overflows.
    pub fn sub(&self, other: &Dim) -> Option<Dim> {
        self.add(&other.mul(&Dim::constant(-1))?)
    }

    /// The product; `None` when a coefficient overflows or the product has over 64 terms.
    pub fn mul(&self, other: &Dim) -> Option<Dim> {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return a.checked_mul(b).map(Dim::constant);
        }
        if self.terms.len().checked_mul(other.terms.len())? > MAX_TERMS {
            return None;
        }
        let mut map: BTreeMap<Monomial, i64> = BTreeMap::new();
        for (m1, c1) in &self.terms {
            for (m2, c2) in &other.terms {
                let mut m = m1.clone();
                m.extend(m2.iter().cloned());
                m.sort();
                if m.len() > 16 {
                    return None;
                }
                let slot = map.entry(m).or_insert(0);
                *slot = slot.checked_add(c1.checked_mul(*c2)?)?;
            }
        }
        Some(Self::from_map(map))
    }

    /// The exact quotient: `None` where it is not known to be exact. A zero dividend divides by
    /// anything but zero.
    pub fn div_exact(&self, by: &Dim) -> Option<Dim> {
        if self == by && !by.terms.is_empty() {
            return Some(Dim::constant(1));
        }
        match by.terms.as_slice() {
            [(dm, dc)] => {
                let mut map = BTreeMap::new();
                for (m, c) in &self.terms {
                    let mut rest = m.clone();
                    for symbol in dm {
                        let at = rest.iter().position(|s| s == symbol)?;
                        rest.remove(at);
                    }
                    if c.checked_rem(*dc)? != 0 {
                        return None;
                    }
                    map.insert(rest, c.checked_div(*dc)?);
                }
                Some(Self::from_map(map))
            }
            [] => None,
            // A sum divides only a constant multiple, or symbol multiple, of itself.
            [(lead, lead_c), ..] => {
                let (own, own_c) = self.terms.first()?;
                let quotient = Dim { terms: vec![(own.clone(), *own_c)] }
                    .div_exact(&Dim { terms: vec![(lead.clone(), *lead_c)] })?;
                (by.mul(&quotient)? == *self).then_some(quotient)
            }
        }
    }

    /// The quotient rounded down, for every value of the symbols: `None` where it is no dimension,
    /// such as half of `S`, or where `by` is not positive.
    pub fn div_floor(&self, by: i64) -> Option<Dim> {
        if by <= 0 {
            return None;
        }
        // q·by + r with whole q and 0 ≤ r < by: the floor is q.
        let mut map = BTreeMap::new();
        for (m, c) in &self.terms {
            if !m.is_empty() && c % by != 0 {
                return None;
            }
            map.insert(m.clone(), c.div_euclid(by));
        }
        Some(Self::from_map(map))
    }

    /// The value under `bindings`; `None` for an unbound symbol or an overflow.
    pub fn evaluate(&self, bindings: &Bindings) -> Option<i64> {
        let mut total = 0i64;
        for (m, c) in &self.terms {
            let mut product = *c;
            for symbol in m {
                product = product.checked_mul(*bindings.get(&**symbol)?)?;
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
        let mut total = Dim::constant(0);
        for (m, c) in &self.terms {
            let mut product = Dim::constant(*c);
            for symbol in m {
                let factor = if &**symbol == name { by.clone() } else { Dim::symbol(symbol) };
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

/// Prints `7`, `S`, `2*S`, `P + S`, `2*P*S - 1`: what [`Dim::from_str`](std::str::FromStr) reads.
impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        for (i, (m, c)) in self.terms.iter().enumerate() {
            match (i, *c < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let magnitude = c.unsigned_abs();
            if m.is_empty() {
                write!(f, "{magnitude}")?;
            } else {
                if magnitude != 1 {
                    write!(f, "{magnitude}*")?;
                }
                f.write_str(&m.join("*"))?;
            }
        }
        Ok(())
    }
}

/// Reads what `Display` prints; symbols are `[A-Za-z_?][A-Za-z0-9_.]*`.
impl std::str::FromStr for Dim {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a dimension; write for example `7`, `S` or `2*S + 1`");
        let mut total = Dim::constant(0);
        let mut rest = text.trim();
        let mut sign = 1i64;
        if let Some(r) = rest.strip_prefix('-') {
            sign = -1;
            rest = r.trim_start();
        }
        loop {
            let end = rest.find(['+', '-']).unwrap_or(rest.len());
            let mut product = Dim::constant(sign);
            for (i, factor) in rest[..end].split('*').enumerate() {
                let factor = factor.trim();
                let dim = if i == 0 && sign < 0 && factor == "9223372036854775808" {
                    // The one magnitude that only a negative number has.
                    product = Dim::constant(i64::MIN);
                    continue;
                } else if let Ok(n) = factor.parse::<i64>() {
                    Dim::constant(n)
                } else {
                    let ok = factor.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '?')
                        && factor.chars().all(|c| c.is_ascii_alphanumeric() || "_.?".contains(c));
                    if !ok {
                        return Err(bad());
                    }
                    Dim::symbol(factor)
                };
                product = product.mul(&dim).ok_or_else(bad)?;
            }
            total = total.add(&product).ok_or_else(bad)?;
            match rest[end..].chars().next() {
                None => return Ok(total),
                Some('+') => sign = 1,
                Some(_) => sign = -1,
            }
            rest = rest[end + 1..].trim_start();
        }
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
    }

    #[test]
    fn floors_where_every_value_agrees() {
        let floor = |text: &str, by| text.parse::<Dim>().unwrap().div_floor(by).map(|d| d.to_string());
        assert_eq!(floor("7", 2).unwrap(), "3");
        assert_eq!(floor("-7", 2).unwrap(), "-4");
        assert_eq!(floor("2*S - 1", 2).unwrap(), "S - 1");
        assert_eq!(floor("4*S*P + 6*S + 5", 2).unwrap(), "2*P*S + 3*S + 2");
        assert_eq!(floor("S", 2), None);
        assert_eq!(floor("S", 0), None);
        assert_eq!(floor("S", 1).unwrap(), "S");
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
}
