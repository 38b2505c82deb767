//! How an encoder-decoder generates text: the settings of `generate`.

use crate::families::{FamilyError, Settings};
use crate::program::module::{Driver, Sampling, Start};
use crate::program::rules::{BeamOptions, EarlyStopping, Rules};

/// Settings of `generate` that say how a text is searched for and what it may hold. Other networks than encoder-decoders have no
/// use for them, though files spell them out for every type.
pub const GENERATION: &[&str] = &[
    "bad_words_ids",
    "begin_suppress_tokens",
    "decoder_start_token_id",
    "diversity_penalty",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "forced_bos_token_id",
    "forced_decoder_ids",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "min_length",
    "min_new_tokens",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "suppress_tokens",
];

/// A generation that begins with `decoder_start_token_id`, or with `start` where that is missing, and holds at most `total`
/// tokens.
pub(super) fn driver(s: &mut Settings<'_>, start: Option<u32>, total: Option<u32>) -> Result<Driver, FamilyError> {
    let Some(first) = s.token_id("decoder_start_token_id")?.or(start) else {
        return Err(s.bad(
            "decoder_start_token_id",
            "nothing",
            "the decoder begins with it, and this type has no default",
            "Add it",
        ));
    };
    for key in ["encoder_no_repeat_ngram_size", "diversity_penalty"] {
        if s.number(key)?.is_some_and(|n| n != 0.0) {
            s.note(format!("`{key}` has no effect here; text may differ from that of the reference"));
        }
    }
    if s.optional_size("num_beam_groups")?.is_some_and(|n| n > 1) {
        s.note("`num_beam_groups`: the beams are searched as one group");
    }
    let size = |key: &str| s.count(key, 0).map(|n| n as usize);
    let ids = |list: Vec<i64>| list.into_iter().filter_map(|n| u32::try_from(n).ok()).collect::<Vec<u32>>();
    let listed = |key: &str| s.integers(key).map(|list| ids(list.unwrap_or_default()));
    let rules = Rules {
        no_repeat: size("no_repeat_ngram_size")?,
        banned: s.rows("bad_words_ids")?.into_iter().map(ids).collect(),
        least: size("min_length")?,
        least_new: size("min_new_tokens")?,
        first: s.token_id("forced_bos_token_id")?,
        last: listed("forced_eos_token_id")?.first().copied(),
        suppress: listed("suppress_tokens")?,
        suppress_first: listed("begin_suppress_tokens")?,
    };
    let length = s.optional_size("max_length")?.map(|n| n as usize);
    Ok(Driver {
        start: Start::Ids(vec![first]),
        sampling: Sampling::greedy(),
        rules,
        beams: beams(s)?,
        stop: Vec::new(),
        limit: None,
        length,
        total: total.map(|n| n as usize),
    })
}

/// The search that the settings ask for.
fn beams(s: &Settings<'_>) -> Result<Option<BeamOptions>, FamilyError> {
    let penalty = s.number("length_penalty")?.unwrap_or(1.0);
    let early = match s.text("early_stopping") {
        Ok(Some(text)) if text == "never" => EarlyStopping::Never,
        Ok(Some(text)) => {
            return Err(s.bad("early_stopping", text, "expected true, false or \"never\"", "Correct it"));
        }
        Ok(None) => EarlyStopping::Likely,
        // No text.
        Err(_) if s.flag("early_stopping", false)? => EarlyStopping::Full,
        Err(_) => EarlyStopping::Likely,
    };
    let beams = s.optional_size("num_beams")?.unwrap_or(1) as usize;
    if beams > MOST_BEAMS {
        return Err(s.bad("num_beams", beams, format!("at most {MOST_BEAMS} texts are kept at once"), "Lower it"));
    }
    let options = BeamOptions { beams, length_penalty: penalty as f32, early_stopping: early };
    Ok((beams > 1).then_some(options))
}

/// Each has a cache of its own.
const MOST_BEAMS: usize = 256;
