//! Config against tensors, as far as it can be told without knowing a family.
//!
//! 1. `num_attention_heads` is a multiple of `num_key_value_heads`, in every tower;
//! 2. the rotary width is even;
//! 3. `layer_types` has one entry for each layer;
//! 4. embedding and head have `vocab_size` rows;
//! 5. a stated `head_dim` agrees with the query projection;
//! 6. the projections of each decoder layer have heads × `head_dim` rows and `hidden_size` columns.
//!
//! Rules 4 to 6 look at tensors by the names that Hugging Face decoders give them. A model with other names, or with a
//! latent or gated attention whose projections have other shapes, passes: its family checks it.

use toml_edit::Item;

use crate::config::Config;
use crate::error::{ErrorKind, FormatError, Result};
use crate::section::Section;
use crate::tensors::TensorIndex;

/// What stands before `layers.N.` and `embed_tokens.` in the files of decoders.
const DECODERS: [&str; 3] = ["model.", "model.language_model.", "language_model.model."];

/// Tensors with one row per token.
const TOKEN_ROWS: [&str; 14] = [
    "model.embed_tokens.weight",
    "model.language_model.embed_tokens.weight",
    "language_model.model.embed_tokens.weight",
    "lm_head.weight",
    "language_model.lm_head.weight",
    "model.decoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "model.shared.weight",
    "shared.weight",
    "transformer.wte.weight",
    "wte.weight",
    "gpt_neox.embed_in.weight",
    "embeddings.word_embeddings.weight",
    "bert.embeddings.word_embeddings.weight",
];

/// Checks the rules at the head of this module, in their order. An error names the key or tensor, both numbers and,
/// where there is one, the value that would fit.
pub fn config_and_tensors(config: &Config, tensors: &TensorIndex) -> Result<()> {
    let root = config.architecture();
    grouped_heads(&root)?;
    for key in root.keys() {
        if let Some(tower) = root.item(&key).and_then(Item::as_table_like) {
            grouped_heads(&Section::new(format!("architecture.{key}"), tower))?;
        }
    }
    let prefix = DECODERS.into_iter().find(|p| tensors.contains(&format!("{p}layers.0.self_attn.q_proj.weight")));
    let attention = Attention::new(&root, tensors, prefix)?;
    if let Some(attention) = &attention {
        attention.rotary_width(&root)?;
    }
    if let Some(n) = int(&root, "qk_rope_head_dim").filter(|n| n % 2 != 0) {
        return Err(mismatch(format!("`architecture.qk_rope_head_dim` is {n}, but a rotary width is even")));
    }
    layer_types(&root)?;
    token_rows(&root, tensors)?;
    match (attention, prefix) {
        (Some(attention), Some(prefix)) => attention.projections(&root, tensors, prefix),
        _ => Ok(()),
    }
}

/// An integer of 0 or more. A value of another type is left to whoever knows what it means.
fn int(section: &Section<'_>, key: &str) -> Option<u64> {
    u64::try_from(section.item(key)?.as_integer()?).ok()
}

fn mismatch(cause: String) -> FormatError {
    FormatError::new(ErrorKind::Mismatch, cause)
}

fn grouped_heads(tower: &Section<'_>) -> Result<()> {
    let path = tower.path();
    let Some(heads) = int(tower, "num_attention_heads") else {
        return Ok(());
    };
    if heads == 0 {
        return Err(mismatch(format!("`{path}.num_attention_heads` is 0")).cure("It is at least 1"));
    }
    for key in ["num_key_value_heads", "num_global_key_value_heads"] {
        match int(tower, key) {
            Some(groups) if groups == 0 || heads % groups != 0 => {
                let fit = (1..=groups.clamp(1, heads)).rev().find(|n| heads % n == 0).unwrap_or(1);
                return Err(mismatch(format!(
                    "`{path}.num_attention_heads` is {heads}, no multiple of `{key}`, which is {groups}"
                ))
                .cure(format!("`{key} = {fit}` would fit")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn layer_types(root: &Section<'_>) -> Result<()> {
    let types = root.item("layer_types").and_then(Item::as_array).map(toml_edit::Array::len);
    match (types, int(root, "num_hidden_layers")) {
        (Some(found), Some(layers)) if found as u64 != layers => Err(mismatch(format!(
            "`architecture.layer_types` has {found} entries, but `num_hidden_layers` is {layers}"
        ))
        .cure(format!("Give one entry for each of the {layers} layers, or `num_hidden_layers = {found}`"))),
        _ => Ok(()),
    }
}

fn token_rows(root: &Section<'_>, tensors: &TensorIndex) -> Result<()> {
    let Some(vocab) = int(root, "vocab_size") else {
        return Ok(());
    };
    for name in TOKEN_ROWS {
        if let Some([rows, _]) = tensors.get(name).map(|t| t.shape.as_slice())
            && *rows != vocab
        {
            return Err(mismatch(format!("`{name}` has {rows} rows, but `architecture.vocab_size` is {vocab}"))
                .cure(format!("`vocab_size = {rows}` would fit")));
        }
    }
    Ok(())
}

/// Sizes of the attention of the root tower.
struct Attention {
    heads: u64,
    groups: u64,
    head_dim: u64,
    hidden: Option<u64>,
    /// Of layers whose type is full, where they differ.
    full: Option<(u64, u64)>,
}

impl Attention {
    /// `None` where the tower has no heads, or an attention whose projections have other shapes.
    fn new(root: &Section<'_>, tensors: &TensorIndex, prefix: Option<&str>) -> Result<Option<Self>> {
        let other = ["kv_lora_rank", "q_lora_rank", "attn_output_gate", "v_head_dim", "per_layer_config"];
        if other.iter().any(|key| root.contains(key)) {
            return Ok(None);
        }
        let Some(heads) = int(root, "num_attention_heads") else {
            return Ok(None);
        };
        let hidden = int(root, "hidden_size");
        let stated = int(root, "head_dim");
        let first_is_full = layer_kind(root, 0) == Some(Kind::Full) && root.contains("global_head_dim");
        let query = prefix.filter(|_| !first_is_full).and_then(|prefix| {
            let name = format!("{prefix}layers.0.self_attn.q_proj.weight");
            match tensors.get(&name)?.shape.as_slice() {
                [rows, _] => Some((name, *rows)),
                _ => None,
            }
        });
        let head_dim = match (stated, query, hidden) {
            (Some(0), _, _) => {
                return Err(mismatch("`architecture.head_dim` is 0".into()).cure("It is at least 1"));
            }
            (Some(stated), Some((name, rows)), _) if heads.checked_mul(stated) != Some(rows) => {
                let error = mismatch(format!(
                    "`architecture.head_dim` is {stated} and `num_attention_heads` is {heads}, but `{name}` has {rows} rows"
                ));
                return Err(match rows % heads {
                    0 => error.cure(format!("`head_dim = {}` would fit", rows / heads)),
                    _ => error.cure("Correct the number of heads or the head size"),
                });
            }
            (Some(stated), _, _) => stated,
            (None, Some((name, rows)), _) if rows % heads != 0 => {
                return Err(mismatch(format!(
                    "`{name}` has {rows} rows, no multiple of `architecture.num_attention_heads`, which is {heads}"
                ))
                .cure("Correct the number of heads"));
            }
            (None, Some((_, rows)), _) => rows / heads,
            (None, None, Some(hidden)) if hidden % heads == 0 => hidden / heads,
            (None, None, _) => return Ok(None),
        };
        let groups = int(root, "num_key_value_heads").unwrap_or(heads);
        let shared = root.item("attention_k_eq_v").and_then(Item::as_bool) == Some(true);
        let full = int(root, "global_head_dim").map(|dim| {
            let global = int(root, "num_global_key_value_heads").filter(|_| shared);
            (dim, global.unwrap_or(groups))
        });
        Ok(Some(Self { heads, groups, head_dim, hidden, full }))
    }

    fn rotary_width(&self, root: &Section<'_>) -> Result<()> {
        if !["rope_theta", "rope_parameters", "rope_scaling"].iter().any(|key| root.contains(key)) {
            return Ok(());
        }
        let number = |key: &str| {
            let item = root.item(key)?;
            item.as_float().or_else(|| item.as_integer().map(|n| n as f64))
        };
        let factor = number("partial_rotary_factor").or_else(|| number("rotary_pct")).unwrap_or(1.0);
        let width = (self.head_dim as f64 * factor) as u64;
        if width.is_multiple_of(2) {
            return Ok(());
        }
        Err(mismatch(format!(
            "the rotary width is {width} (head size {} × factor {factor}), but it must be even",
            self.head_dim
        ))
        .cure("Correct `head_dim` or `partial_rotary_factor` in `[architecture]`"))
    }

    fn projections(&self, root: &Section<'_>, tensors: &TensorIndex, prefix: &str) -> Result<()> {
        for tensor in tensors.iter() {
            let Some((layer, part)) = tensor
                .name
                .strip_prefix(prefix)
                .and_then(|rest| rest.strip_prefix("layers."))
                .and_then(|rest| rest.split_once(".self_attn."))
            else {
                continue;
            };
            let (Ok(layer), [rows, columns]) = (layer.parse::<usize>(), tensor.shape.as_slice()) else {
                continue;
            };
            let (head_dim, groups) = match (self.full, layer_kind(root, layer)) {
                (Some(full), Some(Kind::Full)) => full,
                (Some(_), None) => continue,
                _ => (self.head_dim, self.groups),
            };
            let heads = ("num_attention_heads", self.heads, head_dim);
            let groups = ("num_key_value_heads", groups, head_dim);
            let is_in = ("rows", rows, "columns", columns);
            let is_out = ("columns", columns, "rows", rows);
            let ((side, inner, other, outer), (key, count, head_dim)) = match part {
                "q_proj.weight" => (is_in, heads),
                "k_proj.weight" | "v_proj.weight" => (is_in, groups),
                "o_proj.weight" | "dense.weight" => (is_out, heads),
                _ => continue,
            };
            if count.checked_mul(head_dim) != Some(*inner) {
                let error = mismatch(format!(
                    "`{}` has {inner} {side}, but `architecture.{key}` {count} × head size {head_dim} are {}",
                    tensor.name,
                    u128::from(count) * u128::from(head_dim)
                ));
                return Err(match inner % head_dim {
                    0 => error.cure(format!("`{key} = {}` would fit", inner / head_dim)),
                    _ => error.cure("Correct the number of heads or `head_dim`"),
                });
            }
            if let Some(hidden) = self.hidden.filter(|hidden| hidden != outer) {
                return Err(mismatch(format!(
                    "`{}` has {outer} {other}, but `architecture.hidden_size` is {hidden}",
                    tensor.name
                ))
                .cure(format!("`hidden_size = {outer}` would fit")));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Other,
}

/// The type of a layer, where the config lists types.
fn layer_kind(root: &Section<'_>, layer: usize) -> Option<Kind> {
    let name = root.item("layer_types")?.as_array()?.get(layer)?.as_str()?;
    Some(match name {
        "full" | "full_attention" => Kind::Full,
        _ => Kind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Encoding;

    fn run(arch: &str, tensors: &[(&str, [u64; 2])]) -> Result<()> {
        let config = Config::parse(&format!("model_type = \"m\"\n[architecture]\n{arch}")).unwrap();
        let shapes = tensors.iter().map(|(name, shape)| (*name, &shape[..], Encoding::U16));
        config_and_tensors(&config, &TensorIndex::from_shapes(shapes).unwrap().0)
    }

    fn fails(arch: &str, tensors: &[(&str, [u64; 2])]) -> String {
        run(arch, tensors).unwrap_err().to_string()
    }

    const Q: &str = "model.layers.0.self_attn.q_proj.weight";
    const K: &str = "model.layers.0.self_attn.k_proj.weight";
    const O: &str = "model.layers.0.self_attn.o_proj.weight";
    const BASE: &str = "hidden_size = 64\nnum_attention_heads = 4\nnum_key_value_heads = 2\nnum_hidden_layers = 1\nrope_theta = 10000\n";

    #[test]
    fn sound_models_pass() {
        let tensors = [(Q, [128, 64]), (K, [64, 64]), (O, [64, 128])];
        run(BASE, &tensors).unwrap();
        run(&format!("{BASE}head_dim = 32\n"), &tensors).unwrap();
        run("", &[]).unwrap();
        run("hidden_size = 7\nnum_attention_heads = 2\n", &[("x", [3, 3])]).unwrap();
        // Latent attention has projections of its own shape.
        run(&format!("{BASE}kv_lora_rank = 8\nqk_rope_head_dim = 8\n"), &[(Q, [100, 64])]).unwrap();
        // Full layers with a head size of their own.
        run(&format!("{BASE}per_layer_config = {{ 0 = {{ head_dim = 8 }} }}\n"), &[(Q, [32, 64])]).unwrap();
        let gemma4 = "hidden_size = 64\nnum_attention_heads = 4\nnum_key_value_heads = 2\nhead_dim = 16\nglobal_head_dim = 32\nnum_global_key_value_heads = 1\nattention_k_eq_v = true\nlayer_types = [\"sliding\", \"full\"]\nnum_hidden_layers = 2\n";
        let both = [
            (Q, [64, 64]),
            (K, [32, 64]),
            ("model.layers.1.self_attn.q_proj.weight", [128, 64]),
            ("model.layers.1.self_attn.k_proj.weight", [32, 64]),
        ];
        run(gemma4, &both).unwrap();
    }

    #[test]
    fn contradictions_name_both_numbers_and_what_would_fit() {
        type Tensors<'a> = &'a [(&'a str, [u64; 2])];
        let cases: [(&str, Tensors<'_>, &str); 14] = [
            (
                "num_attention_heads = 16\nnum_key_value_heads = 6\n",
                &[],
                "`architecture.num_attention_heads` is 16, no multiple of `num_key_value_heads`, which is 6. `num_key_value_heads = 4` would fit.",
            ),
            ("num_attention_heads = 16\nnum_key_value_heads = 0\n", &[], "which is 0"),
            ("num_attention_heads = 0\n", &[], "`architecture.num_attention_heads` is 0"),
            (
                "[architecture.vision]\nnum_attention_heads = 3\nnum_key_value_heads = 2\n",
                &[],
                "`architecture.vision.num_attention_heads` is 3",
            ),
            (
                "hidden_size = 1024\nnum_attention_heads = 16\nhead_dim = 64\n",
                &[(Q, [2048, 1024])],
                "`architecture.head_dim` is 64 and `num_attention_heads` is 16, but `model.layers.0.self_attn.q_proj.weight` has 2048 rows. `head_dim = 128` would fit.",
            ),
            (
                "hidden_size = 12\nnum_attention_heads = 4\nrope_theta = 10000.0\n",
                &[],
                "the rotary width is 3 (head size 3 × factor 1), but it must be even",
            ),
            (
                "hidden_size = 40\nnum_attention_heads = 4\nrope_theta = 1\npartial_rotary_factor = 0.5\n",
                &[],
                "the rotary width is 5 (head size 10 × factor 0.5)",
            ),
            ("qk_rope_head_dim = 7\n", &[], "`architecture.qk_rope_head_dim` is 7"),
            (
                "num_hidden_layers = 3\nlayer_types = [\"full\"]\n",
                &[],
                "`architecture.layer_types` has 1 entries, but `num_hidden_layers` is 3",
            ),
            (
                "vocab_size = 10\n",
                &[("model.embed_tokens.weight", [12, 4])],
                "`model.embed_tokens.weight` has 12 rows, but `architecture.vocab_size` is 10. `vocab_size = 12` would fit.",
            ),
            ("vocab_size = 10\n", &[("lm_head.weight", [9, 4])], "`lm_head.weight` has 9 rows"),
            (
                BASE,
                &[(Q, [128, 64]), (K, [128, 64])],
                "`model.layers.0.self_attn.k_proj.weight` has 128 rows, but `architecture.num_key_value_heads` 2 × head size 32 are 64. `num_key_value_heads = 4` would fit.",
            ),
            (BASE, &[(Q, [128, 32])], "has 32 columns, but `architecture.hidden_size` is 64"),
            (
                BASE,
                &[(Q, [128, 64]), (O, [64, 64])],
                "`model.layers.0.self_attn.o_proj.weight` has 64 columns, but `architecture.num_attention_heads` 4 × head size 32 are 128",
            ),
        ];
        for (arch, tensors, want) in cases {
            let error = fails(arch, tensors);
            assert!(error.contains(want), "{error}\n  should hold\n{want}");
        }
        assert!(fails(BASE, &[(Q, [130, 64])]).contains("has 130 rows, no multiple of"));
    }
}
