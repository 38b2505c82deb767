//! The known name that was probably meant.

/// The name with the fewest edits from `wanted`, if at most a third of it must change; else the shortest that begins
/// with it, or that it begins with.
pub fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    let plain = wanted.to_lowercase();
    let wanted: Vec<char> = plain.chars().take(100).collect();
    let (best, edits) = names.iter().map(|n| (*n, distance(&wanted, &n.to_lowercase()))).min_by_key(|(_, d)| *d)?;
    if edits <= (wanted.len() / 3).max(1) && edits < wanted.len() {
        return Some(best);
    }
    let begins = |n: &&&str| {
        let n = n.to_lowercase();
        let (short, long) = (n.len().min(plain.len()), n.len().max(plain.len()));
        short >= 4 && long <= 2 * short && (n.starts_with(&plain) || plain.starts_with(&n))
    };
    names.iter().filter(begins).min_by_key(|n| n.len()).copied()
}

/// The number of insertions, removals, replacements and swaps of neighbours between two texts (optimal string
/// alignment).
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut cost = (row[j] + usize::from(x != y)).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                cost = cost.min(above[j - 1] + 1);
            }
            next.push(cost);
        }
        above = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = crate::families::known_types();
        assert_eq!(nearest("lama", &names), Some("llama"));
        assert_eq!(nearest("Mistrl", &names), Some("mistral"));
        assert_eq!(nearest("qwen_3", &names), Some("qwen3"));
        assert_eq!(nearest("segformer", &names), None);
        assert_eq!(nearest("", &names), None);
        assert_eq!(nearest("widht", &["heads", "width"]), Some("width"));
        assert_eq!(nearest("blok", &["Block"]), Some("Block"));
        assert_eq!(nearest("x", &["y", "w"]), None);
        assert_eq!(nearest("embedding", &["embed", "embed_positions"]), Some("embed"));
        assert_eq!(nearest("norm", &["normalise_rows", "no"]), None);
    }
}
