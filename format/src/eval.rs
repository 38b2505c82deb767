//! The `eval` section: prompts with what their answers should hold, and scores.

use crate::config::Config;
use crate::error::Result;

/// One of `[[benchmarks]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Benchmark {
    /// Its name.
    pub name: String,
    /// The text to continue.
    pub prompt: String,
    /// Texts that the continuation should hold, each of them.
    pub expected_contains: Vec<String>,
    /// How many tokens to generate; `None` leaves it to the caller.
    pub tokens: Option<u64>,
    /// Sampling temperature; `None` leaves it to the model.
    pub temperature: Option<f64>,
}

/// Reads `[[benchmarks]]`, in order. Other tables hold scores and are left alone.
pub fn benchmarks(text: &str) -> Result<Vec<Benchmark>> {
    let config = Config::parse(text)?;
    let root = config.root();
    let Some(tables) = root.tables("benchmarks")? else {
        return Ok(Vec::new());
    };
    tables
        .iter()
        .map(|table| {
            let missing = |key| table.missing(key, "a string");
            Ok(Benchmark {
                name: table.str("name")?.ok_or_else(|| missing("name"))?.to_owned(),
                prompt: table.str("prompt")?.ok_or_else(|| missing("prompt"))?.to_owned(),
                expected_contains: table.strings("expected_contains")?.unwrap_or_default(),
                tokens: table.u64("tokens")?,
                temperature: table.f64("temperature")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_read_and_scores_left_alone() {
        let text = "[mmlu_pro]\nscore = 724\n\n[[benchmarks]]\nname = \"math\"\nprompt = \"2+2?\"\nexpected_contains = [\"4\"]\ntokens = 20\ntemperature = 0.0\n";
        let all = benchmarks(text).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].expected_contains, ["4"]);
        assert_eq!((all[0].tokens, all[0].temperature), (Some(20), Some(0.0)));
        assert!(benchmarks("").unwrap().is_empty());
        let error = benchmarks("[[benchmarks]]\nname = \"x\"\n").unwrap_err().to_string();
        assert!(error.contains("`benchmarks[0].prompt` is missing"), "{error}");
    }
}
