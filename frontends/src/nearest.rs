//! The known name that was probably meant.

/// The name with the fewest edits from `wanted`, if at most a third of it must change.
pub(crate) fn nearest<'a>(wanted: &str, names: &[&'a str]) -> Option<&'a str> {
    let wanted: Vec<char> = wanted.to_lowercase().chars().take(100).collect();
    let (best, edits) = names.iter().map(|n| (*n, distance(&wanted, n))).min_by_key(|(_, d)| *d)?;
    (edits <= (wanted.len() / 3).max(1)).then_some(best)
}

/// The number of insertions, removals and replacements between two texts (Levenshtein).
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(corner + 1);
        }
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
        assert_eq!(nearest("resnet", &names), None);
        assert_eq!(nearest("", &names), None);
    }
}
