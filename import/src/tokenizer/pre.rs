//! Names of pre-tokenisers for the patterns that tokenizer files spell out.

/// GPT-2's pattern, which the component `ByteLevel` applies by itself.
pub(super) const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// CLIP's pattern, which keeps what it matches and drops the rest.
pub(super) const CLIP: &str = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";

/// Single digits, which the component `Digits` cuts out.
pub(super) const DIGIT: &str = r"\p{N}";

/// The pattern of qwen2.
pub(super) const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How text is cut before merging.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pre {
    /// By a name.
    Named(&'static str),
    /// By one regular expression.
    Pattern(String),
}

/// The pre-tokeniser of a list of patterns applied one after the other. `whole_words` tells whether a word that is a token
/// as it stands is taken whole. `None` where neither a name nor one pattern says the same.
pub(super) fn recognise(patterns: &[&str], whole_words: bool) -> Option<Pre> {
    let named = match (patterns, whole_words) {
        ([GPT2], false) => Some("gpt2"),
        // What CLIP's pattern matches, that of GPT-2 does not cut further.
        ([CLIP, GPT2] | [CLIP], false) => Some("clip"),
        ([DIGIT, GPT2], false) => Some("smollm"),
        ([QWEN2], false) => Some("qwen2"),
        ([LLAMA3], true) => Some("llama3"),
        ([TEKKEN], true) => Some("tekken"),
        _ => None,
    };
    match (named, patterns) {
        (Some(name), _) => Some(Pre::Named(name)),
        (None, [one]) if !whole_words => Some(Pre::Pattern((*one).to_owned())),
        _ => None,
    }
}

/// Names in `tokenizer.ggml.pre` that are taken over as they are.
const GGUF_NAMES: &[&str] = &[
    "a.x-4.0",
    "bloom",
    "chatglm-bpe",
    "codeshell",
    "command-r",
    "dbrx",
    "deepseek-coder",
    "deepseek-r1-qwen",
    "deepseek-v3",
    "default",
    "exaone",
    "exaone4",
    "f2llmv2",
    "falcon",
    "falcon-h1",
    "falcon3",
    "gigachat",
    "glm4",
    "glm5",
    "gpt-4o",
    "gpt3-finnish",
    "granite-docling",
    "grok-2",
    "hunyuan",
    "hunyuan-dense",
    "hy_v4",
    "jais",
    "jina-de",
    "jina-es",
    "jina-v1-en",
    "jina-v2-code",
    "jina-v2-de",
    "jina-v2-es",
    "jina-v5-nano",
    "joyai-llm",
    "kanana2",
    "kormo",
    "lfm2",
    "llama4",
    "megrez",
    "mellum",
    "mellum2",
    "midm-2.0",
    "minerva-7b",
    "minicpm5",
    "minimax-m2",
    "modern-bert",
    "mpt",
    "olmo",
    "phi-2",
    "pixtral",
    "poro-chat",
    "qwen2",
    "qwen35",
    "refact",
    "roberta-bpe",
    "seed-coder",
    "smaug-bpe",
    "smollm",
    "solar-open",
    "stablelm2",
    "starcoder",
    "talkie",
    "tekken",
    "trillion",
    "viking",
];

/// The name to write for one in `tokenizer.ggml.pre`; `None` for one that is not known.
pub(super) fn from_gguf(name: &str) -> Option<&'static str> {
    match name {
        "gpt-2" | "gpt2" => Some("gpt2"),
        "llama3" | "llama-v3" | "llama-bpe" => Some("llama3"),
        other => GGUF_NAMES.iter().find(|n| **n == other).copied(),
    }
}

/// True for the names whose reader puts a begin token first unless told otherwise.
pub(super) fn begins_by_default(name: &str) -> bool {
    matches!(name, "llama3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0" | "lfm2" | "jina-v5-nano" | "tekken")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_patterns_have_names() {
        assert_eq!(recognise(&[QWEN2], false), Some(Pre::Named("qwen2")));
        assert_eq!(recognise(&[LLAMA3], true), Some(Pre::Named("llama3")));
        assert_eq!(recognise(&[LLAMA3], false), Some(Pre::Pattern(LLAMA3.into())));
        assert_eq!(recognise(&[DIGIT, GPT2], false), Some(Pre::Named("smollm")));
        assert_eq!(recognise(&["a+", "b+"], false), None);
        assert_eq!(recognise(&["a+"], true), None);
        assert_eq!(from_gguf("llama-bpe"), Some("llama3"));
        assert_eq!(from_gguf("no-such-name"), None);
    }
}
