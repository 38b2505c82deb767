//! Names of types whose settings are taken over as they are: encoders of texts and encoder-decoders.

use super::{Mapped, layer_number};

/// GGUF names with those of Hugging Face, both without `.weight` and `.bias`.
type Pairs = &'static [(&'static str, &'static str)];

/// What the tensors of a type are called.
#[derive(Debug)]
pub struct Names {
    /// Tensors outside of layers.
    outer: Pairs,
    /// Lists of layers, with the names of their parts.
    blocks: &'static [(&'static str, &'static str, Pairs)],
    /// The file's own name for a part that exists only beside a gate, and what it is called then.
    gated: Pairs,
}

impl Names {
    /// The Hugging Face name of a tensor. `gated` says that feed-forwards have a gate.
    pub(super) fn of(&self, gguf: &str, gated: bool) -> Mapped {
        let found = || {
            let (stem, kind) = gguf.rsplit_once('.').filter(|(_, kind)| matches!(*kind, "weight" | "bias"))?;
            if let Some((_, name)) = self.outer.iter().find(|(of, _)| *of == stem) {
                return Some(format!("{name}.{kind}"));
            }
            self.blocks.iter().find_map(|(of, name, parts)| {
                let (layer, part) = stem.strip_prefix(of)?.strip_prefix('.')?.split_once('.')?;
                let layer = layer_number(layer)?;
                let (_, to) = parts.iter().find(|(of, _)| *of == part)?;
                let to = self.gated.iter().find(|(plain, _)| gated && plain == to).map_or(*to, |(_, gated)| gated);
                Some(format!("{name}.{layer}.{to}.{kind}"))
            })
        };
        found().map_or(Mapped::Unknown, Mapped::Tensor)
    }
}

/// bert, without a head.
pub const BERT: Names = Names {
    outer: &[
        ("token_embd", "embeddings.word_embeddings"),
        ("position_embd", "embeddings.position_embeddings"),
        ("token_types", "embeddings.token_type_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
    ],
    blocks: &[(
        "blk",
        "encoder.layer",
        &[
            ("attn_q", "attention.self.query"),
            ("attn_k", "attention.self.key"),
            ("attn_v", "attention.self.value"),
            ("attn_output", "attention.output.dense"),
            ("attn_output_norm", "attention.output.LayerNorm"),
            ("ffn_up", "intermediate.dense"),
            ("ffn_down", "output.dense"),
            ("layer_output_norm", "output.LayerNorm"),
        ],
    )],
    gated: &[],
};

/// distilbert, without a head: bert under other names, and without token types.
pub const DISTILBERT: Names = Names {
    outer: &[
        ("token_embd", "embeddings.word_embeddings"),
        ("position_embd", "embeddings.position_embeddings"),
        ("token_embd_norm", "embeddings.LayerNorm"),
    ],
    blocks: &[(
        "blk",
        "transformer.layer",
        &[
            ("attn_q", "attention.q_lin"),
            ("attn_k", "attention.k_lin"),
            ("attn_v", "attention.v_lin"),
            ("attn_output", "attention.out_lin"),
            ("attn_output_norm", "sa_layer_norm"),
            ("ffn_up", "ffn.lin1"),
            ("ffn_down", "ffn.lin2"),
            ("layer_output_norm", "output_layer_norm"),
        ],
    )],
    gated: &[],
};

/// nomic_bert, without a head.
pub const NOMIC_BERT: Names = Names {
    outer: &[
        ("token_embd", "embeddings.word_embeddings"),
        ("token_types", "embeddings.token_type_embeddings"),
        ("token_embd_norm", "emb_ln"),
    ],
    blocks: &[(
        "blk",
        "encoder.layers",
        &[
            ("attn_qkv", "attn.Wqkv"),
            ("attn_output", "attn.out_proj"),
            ("attn_output_norm", "norm1"),
            ("ffn_gate", "mlp.fc12"),
            ("ffn_up", "mlp.fc11"),
            ("ffn_down", "mlp.fc2"),
            ("layer_output_norm", "norm2"),
        ],
    )],
    gated: &[],
};

/// t5.
pub const T5: Names = Names {
    outer: &[
        ("token_embd", "shared"),
        ("output", "lm_head"),
        ("enc.output_norm", "encoder.final_layer_norm"),
        ("dec.output_norm", "decoder.final_layer_norm"),
    ],
    blocks: &[
        (
            "enc.blk",
            "encoder.block",
            &[
                ("attn_norm", "layer.0.layer_norm"),
                ("attn_q", "layer.0.SelfAttention.q"),
                ("attn_k", "layer.0.SelfAttention.k"),
                ("attn_v", "layer.0.SelfAttention.v"),
                ("attn_o", "layer.0.SelfAttention.o"),
                ("attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"),
                ("ffn_norm", "layer.1.layer_norm"),
                ("ffn_gate", "layer.1.DenseReluDense.wi_0"),
                ("ffn_up", "layer.1.DenseReluDense.wi"),
                ("ffn_down", "layer.1.DenseReluDense.wo"),
            ],
        ),
        (
            "dec.blk",
            "decoder.block",
            &[
                ("attn_norm", "layer.0.layer_norm"),
                ("attn_q", "layer.0.SelfAttention.q"),
                ("attn_k", "layer.0.SelfAttention.k"),
                ("attn_v", "layer.0.SelfAttention.v"),
                ("attn_o", "layer.0.SelfAttention.o"),
                ("attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"),
                ("cross_attn_norm", "layer.1.layer_norm"),
                ("cross_attn_q", "layer.1.EncDecAttention.q"),
                ("cross_attn_k", "layer.1.EncDecAttention.k"),
                ("cross_attn_v", "layer.1.EncDecAttention.v"),
                ("cross_attn_o", "layer.1.EncDecAttention.o"),
                ("cross_attn_rel_b", "layer.1.EncDecAttention.relative_attention_bias"),
                ("ffn_norm", "layer.2.layer_norm"),
                ("ffn_gate", "layer.2.DenseReluDense.wi_0"),
                ("ffn_up", "layer.2.DenseReluDense.wi"),
                ("ffn_down", "layer.2.DenseReluDense.wo"),
            ],
        ),
    ],
    gated: &[
        ("layer.1.DenseReluDense.wi", "layer.1.DenseReluDense.wi_1"),
        ("layer.2.DenseReluDense.wi", "layer.2.DenseReluDense.wi_1"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_tables_in_their_only_spelling() {
        let name = |n: &str| Mapped::Tensor(n.to_owned());
        assert_eq!(BERT.of("blk.3.attn_q.bias", false), name("encoder.layer.3.attention.self.query.bias"));
        assert_eq!(T5.of("dec.blk.10.ffn_up.weight", false), name("decoder.block.10.layer.2.DenseReluDense.wi.weight"));
        assert_eq!(T5.of("enc.blk.0.ffn_up.weight", true), name("encoder.block.0.layer.1.DenseReluDense.wi_1.weight"));
        assert_eq!(T5.of("enc.output_norm.weight", true), name("encoder.final_layer_norm.weight"));
        for unknown in ["blk.03.attn_q.bias", "blk.3.attn_q", "blk.3.attn_q.scale", "cls.weight", "blk.x.attn_q.bias"] {
            assert_eq!(BERT.of(unknown, false), Mapped::Unknown, "{unknown}");
        }
    }
}
