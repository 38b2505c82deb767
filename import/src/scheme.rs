//! What Hugging Face files call the tensors of a type, and how they store them.

/// What the Hugging Face files of a type call their tensors.
#[derive(Debug)]
pub struct Scheme {
    /// What the names of the decoder begin with; a file without a head may leave it out.
    pub prefix: &'static str,
    /// The table of embeddings.
    pub embedding: &'static str,
    /// The list of layers.
    pub layers: &'static str,
    /// The last norm.
    pub norm: &'static str,
    /// Other parts of the decoder.
    pub others: &'static [&'static str],
    /// The head, which stands beside the decoder.
    pub head: &'static str,
    /// Ends of the names of matrices that are stored `[in, out]`.
    pub transposed: &'static [&'static str],
    /// Ends of the names of buffers that old files hold and that carry nothing.
    pub leftovers: &'static [&'static str],
}

const LLAMA: Scheme = Scheme {
    prefix: "model.",
    embedding: "embed_tokens",
    layers: "layers",
    norm: "norm",
    others: &["embed_tokens_per_layer", "per_layer_model_projection", "per_layer_projection_norm"],
    head: "lm_head",
    transposed: &[],
    leftovers: &[],
};

const PHI: Scheme = Scheme { norm: "final_layernorm", ..LLAMA };

const GPT2: Scheme = Scheme {
    prefix: "transformer.",
    embedding: "wte",
    layers: "h",
    norm: "ln_f",
    others: &["wpe"],
    transposed: &[".c_attn.weight", ".c_proj.weight", ".c_fc.weight"],
    leftovers: &[".attn.bias"],
    ..LLAMA
};

const GPT_NEOX: Scheme = Scheme {
    prefix: "gpt_neox.",
    embedding: "embed_in",
    norm: "final_layer_norm",
    head: "embed_out",
    leftovers: &[".attention.bias", ".attention.masked_bias"],
    ..LLAMA
};

/// The names of a type of decoder.
pub fn of_type(model_type: &str) -> &'static Scheme {
    match model_type {
        "phi" => &PHI,
        "gpt2" => &GPT2,
        "gpt_neox" => &GPT_NEOX,
        _ => &LLAMA,
    }
}

impl Scheme {
    /// The name of the table of embeddings.
    pub fn embedding_weight(&self) -> String {
        format!("{}{}.weight", self.prefix, self.embedding)
    }

    /// The name of the head's matrix.
    pub fn head_weight(&self) -> String {
        format!("{}.weight", self.head)
    }

    /// A name in its usual form: the text part of a multimodal file, names without the prefix, and the head under the
    /// name that most types have for it.
    pub fn usual_name(&self, name: &str) -> String {
        let name =
            name.strip_prefix("language_model.").or_else(|| name.strip_prefix("model.language_model.")).unwrap_or(name);
        if let Some(rest) = name.strip_prefix("lm_head.") {
            return format!("{}.{rest}", self.head);
        }
        let first = name.split('.').next().unwrap_or_default();
        let bare = [self.embedding, self.layers, self.norm].contains(&first) || self.others.contains(&first);
        if bare { format!("{}{name}", self.prefix) } else { name.to_owned() }
    }

    /// The layer of a tensor, by its name.
    pub fn layer_of(&self, name: &str) -> Option<u64> {
        let rest = name.strip_prefix(self.prefix)?.strip_prefix(self.layers)?.strip_prefix('.')?;
        rest.split('.').next()?.parse().ok()
    }

    /// True for a tensor of the norm behind the layers.
    pub fn is_last_norm(&self, name: &str) -> bool {
        name.strip_prefix(self.prefix).and_then(|n| n.strip_prefix(self.norm)).is_some_and(|n| n.starts_with('.'))
    }

    /// True for a matrix that is stored `[in, out]`.
    pub fn is_transposed(&self, name: &str) -> bool {
        self.transposed.iter().any(|end| name.ends_with(end))
    }

    /// True for a buffer that carries nothing.
    pub fn is_leftover(&self, name: &str) -> bool {
        is_leftover(name) || self.leftovers.iter().any(|end| name.ends_with(end))
    }
}

/// True for tensors of a picture or sound tower, which the text part does without.
pub fn is_other_tower(name: &str) -> bool {
    let name = name.strip_prefix("model.").unwrap_or(name);
    ["vision_tower.", "multi_modal_projector.", "audio_tower.", "visual.", "embed_vision.", "embed_audio."]
        .iter()
        .any(|p| name.starts_with(p))
}

/// True for buffers that old files hold and that carry nothing.
pub fn is_leftover(name: &str) -> bool {
    ["rotary_emb.inv_freq", "position_ids", "token_type_ids", "num_batches_tracked", "attn.masked_bias"]
        .iter()
        .any(|s| name.ends_with(s))
}
