//! Vision and language, `llava`: a tower of the CLIP kind looks at the picture, two linears bring its rows to the
//! width of the text, and they take the places of the image tokens in the prompt of a llama-like decoder.
//!
//! The prompt holds the image token once for each row that the tower gives, as processors of such models write it.

use cyb::nn::{Config, Tensor, Tokenizer, Weights};

/// `image`: `[1, channels, image_size, image_size]`, normalised. `text`: the prompt; one token out.
pub fn forward(image: &Tensor, text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> String {
    let a = &config.architecture;
    let s = &config.sampling;
    let ids = tok.encode(text);

    let picture = project(&look(image, config, w), config, w);
    let words = w.embed("language_model.model.embed_tokens", &ids, a.hidden_size);
    let mut h = splice(&words, &picture, &ids, a.image_token_index);
    for i in 0..a.num_hidden_layers {
        let layer = format!("language_model.model.layers.{i}");
        h = h.add(&attention(&h, &layer, config, w));
        h = h.add(&feed_forward(&h, &layer, config, w));
    }

    let h = w.rmsnorm(&h, "language_model.model.norm", a.rms_norm_eps);
    let tied = a.tie_word_embeddings.unwrap_or(false);
    let head = if tied { "language_model.model.embed_tokens" } else { "language_model.lm_head" };
    let logits = w.linear(&h, head, a.vocab_size);
    let next = logits.last().sample_top_p(s.top_p, s.temperature, s.scale);
    tok.decode(next)
}

/// The tower: `[rows, vision width]` after the layer that the config names, −2 being the last but one.
fn look(image: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let v = &a.vision;
    let old = "vision_tower.vision_model";
    let tower = if w.has(format!("{old}.pre_layrnorm")) { old } else { "vision_tower" };

    let image = image.reshape([1, v.num_channels.unwrap_or(3), v.image_size, v.image_size]);
    let names = format!("{tower}.embeddings");
    let patches = w.conv2d(&image, format!("{names}.patch_embedding"), v.hidden_size, v.patch_size, v.patch_size, 0);
    let class = w.get(format!("{names}.class_embedding")).reshape([1, 1, v.hidden_size]);
    let h = class.concat(&patches.flatten_patches(), 1).add(&w.get(format!("{names}.position_embedding")));

    let eps = v.layer_norm_eps.unwrap_or(1e-5);
    let mut h = w.layernorm(&h, format!("{tower}.pre_layrnorm"), eps);
    let wanted = a.vision_feature_layer.unwrap_or(-2);
    let layers = if wanted < 0 { v.num_hidden_layers + 1 + wanted } else { wanted };
    for i in 0..layers {
        let layer = format!("{tower}.encoder.layers.{i}");
        let x = w.layernorm(&h, format!("{layer}.layer_norm1"), eps);
        h = h.add(&tower_attention(&x, &format!("{layer}.self_attn"), config, w));
        let x = w.layernorm(&h, format!("{layer}.layer_norm2"), eps);
        let x = w.linear(&x, format!("{layer}.mlp.fc1"), v.intermediate_size);
        let x = activate(&x, v.hidden_act.unwrap_or("quick_gelu"));
        h = h.add(&w.linear(&x, format!("{layer}.mlp.fc2"), v.hidden_size));
    }
    // `default` leaves the class token out, `full` keeps it.
    let first = if a.vision_feature_select_strategy.unwrap_or("default") == "full" { 0 } else { 1 };
    h.slice(1, first, h.dim(1)).squeeze(0)
}

/// Attention of the tower: every row sees every row.
fn tower_attention(x: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    let v = &config.architecture.vision;
    let (heads, size) = (v.num_attention_heads, v.hidden_size);
    let q = w.linear(x, format!("{name}.q_proj"), size);
    let k = w.linear(x, format!("{name}.k_proj"), size);
    let mixed = Tensor::attention(&q, &k, &w.linear(x, format!("{name}.v_proj"), size), heads, size / heads);
    w.linear(&mixed, format!("{name}.out_proj"), size)
}

/// The projector: `[rows, hidden_size]`.
fn project(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let x = w.linear(x, "multi_modal_projector.linear_1", a.hidden_size);
    let x = activate(&x, a.projector_hidden_act.unwrap_or("gelu"));
    w.linear(&x, "multi_modal_projector.linear_2", a.hidden_size)
}

/// `words` with the rows whose id is `token` replaced by those of `picture`, in order. Where no id is, as in every step
/// after the prompt, nothing changes; more of them than rows is an error of `gather`.
fn splice(words: &Tensor, picture: &Tensor, ids: &Tensor, token: usize) -> Tensor {
    let here = ids.eq(token);
    let number = here.cast("f32").cumsum(0).sub(1.0).maximum(0.0).cast("i64");
    here.unsqueeze(1).select_from(&picture.gather(0, &number), words)
}

/// Attention of the text as the config describes it.
fn attention(h: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (heads, kv_heads, size) = (a.num_attention_heads, a.num_key_value_heads, a.head_dim);
    let x = w.rmsnorm(h, format!("{layer}.input_layernorm"), a.rms_norm_eps);
    let q = w.linear(&x, format!("{layer}.self_attn.q_proj"), heads * size);
    let k = w.linear(&x, format!("{layer}.self_attn.k_proj"), kv_heads * size);
    let v = w.linear(&x, format!("{layer}.self_attn.v_proj"), kv_heads * size);
    let mixed = Tensor::flash_attention(&q, &k, &v, heads, kv_heads, size);
    w.linear(&mixed, format!("{layer}.self_attn.o_proj"), a.hidden_size)
}

/// down(silu(gate(x)) · up(x))
fn feed_forward(h: &Tensor, layer: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let x = w.rmsnorm(h, format!("{layer}.post_attention_layernorm"), a.rms_norm_eps);
    let gate = w.linear(&x, format!("{layer}.mlp.gate_proj"), a.intermediate_size);
    let up = w.linear(&x, format!("{layer}.mlp.up_proj"), a.intermediate_size);
    w.linear(&gate.silu().mul(&up), format!("{layer}.mlp.down_proj"), a.hidden_size)
}

/// An activation by the name that configs give it.
fn activate(x: &Tensor, name: &str) -> Tensor {
    match name {
        "gelu" => x.gelu(),
        "gelu_new" | "gelu_pytorch_tanh" => x.gelu_tanh(),
        "quick_gelu" => x.quick_gelu(),
        "relu" => x.relu(),
        _ => panic!("activation `{name}` is not known here; gelu, quick_gelu and relu are"),
    }
}
