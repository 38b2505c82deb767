//! Encoders of text, of the types bert, roberta, xlm-roberta and distilbert. Which tensors exist decides
//! what comes out:
//!
//! - masked LM: logits of every token, `[S, vocab]`
//! - token classification: logits of every token, `[S, labels]`
//! - sequence classification: logits of the text, `[labels]`
//! - none of these: the mean of the tokens, `[D]`, of length 1 if the config says `normalize_embeddings`

use cyb::nn::{Config, Tensor, Tokenizer, Weights};

pub fn forward(text: &str, config: &Config, tok: &Tokenizer, w: &Weights) -> Tensor {
    let ids = tok.encode(text);
    // A model that was saved without a head has names without the type before them.
    let kinds = ["bert.", "roberta.", "distilbert."];
    let base = kinds.iter().find(|kind| w.has(format!("{kind}embeddings.word_embeddings"))).unwrap_or("");
    let h = encode(&ids, base, config, w);

    if let Some(logits) = masked_lm(&h, base, config, w) {
        return logits;
    }
    if let Some(x) = summary(&h, base, w) {
        let head = if w.has("classifier.out_proj") { "classifier.out_proj" } else { "classifier" };
        return full(&x, head, w);
    }
    if w.has("classifier") {
        return full(&h, "classifier", w);
    }
    let mean = h.mean_pool();
    if config.architecture.normalize_embeddings.unwrap_or(false) { mean.norm_l2() } else { mean }
}

/// Embeddings and layers, each with its norm behind the sum: ids `[S]` to `[S, D]`.
fn encode(ids: &Tensor, base: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let distil = config.model_type == "distilbert";
    let (layers, heads, hidden) = if distil {
        (a.n_layers, a.n_heads, a.dim)
    } else {
        (a.num_hidden_layers, a.num_attention_heads, a.hidden_size)
    };
    let eps = if distil { 1e-12 } else { a.layer_norm_eps };
    let act = if distil { a.activation } else { a.hidden_act };
    assert!(a.position_embedding_type.unwrap_or("absolute") == "absolute", "positions must be absolute");
    assert!(!a.is_decoder.unwrap_or(false), "attention to earlier tokens alone is not written here");

    // The positions of roberta begin behind the one of padding.
    let from_padding = ["roberta", "xlm-roberta"].contains(&config.model_type);
    let first = if from_padding { a.pad_token_id.unwrap_or(1) + 1 } else { 0 };
    let positions = Tensor::positions(ids).add(first);
    let part = |name: &str| format!("{base}embeddings.{name}");
    let words = w.embed(part("word_embeddings"), ids, hidden);
    let mut h = words.add(&w.embed(part("position_embeddings"), &positions, hidden));
    if w.has(part("token_type_embeddings")) {
        h = h.add(&w.row(part("token_type_embeddings"), 0));
    }
    h = w.layernorm(&h, part("LayerNorm"), eps);

    for i in 0..layers {
        let n = names(base, i, distil);
        let q = full(&h, &n.query, w);
        let k = full(&h, &n.key, w);
        let v = full(&h, &n.value, w);
        let mixed = Tensor::attention(&q, &k, &v, heads, hidden / heads);
        h = w.layernorm(&h.add(&full(&mixed, &n.out, w)), &n.attention_norm, eps);

        let wide = activate(&full(&h, &n.up, w), act);
        h = w.layernorm(&h.add(&full(&wide, &n.down, w)), &n.output_norm, eps);
    }
    h
}

/// The names of a layer's weights.
struct Names {
    query: String,
    key: String,
    value: String,
    out: String,
    attention_norm: String,
    up: String,
    down: String,
    output_norm: String,
}

fn names(base: &str, i: usize, distil: bool) -> Names {
    let layer = if distil { format!("{base}transformer.layer.{i}") } else { format!("{base}encoder.layer.{i}") };
    let part = |of_bert: &str, of_distil: &str| format!("{layer}.{}", if distil { of_distil } else { of_bert });
    Names {
        query: part("attention.self.query", "attention.q_lin"),
        key: part("attention.self.key", "attention.k_lin"),
        value: part("attention.self.value", "attention.v_lin"),
        out: part("attention.output.dense", "attention.out_lin"),
        attention_norm: part("attention.output.LayerNorm", "sa_layer_norm"),
        up: part("intermediate.dense", "ffn.lin1"),
        down: part("output.dense", "ffn.lin2"),
        output_norm: part("output.LayerNorm", "output_layer_norm"),
    }
}

/// Logits over the vocabulary if the model has a head for them, whose matrix is that of the embeddings.
fn masked_lm(h: &Tensor, base: &str, config: &Config, w: &Weights) -> Option<Tensor> {
    let a = &config.architecture;
    let words = format!("{base}embeddings.word_embeddings");
    let (dense, norm, bias, act, eps) = if w.has("cls.predictions.transform.dense") {
        let bias = "cls.predictions.bias";
        ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", bias, a.hidden_act, a.layer_norm_eps)
    } else if w.has("lm_head.dense") {
        ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "gelu", a.layer_norm_eps)
    } else if w.has("vocab_transform") {
        ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", a.activation, 1e-12)
    } else {
        return None;
    };
    let x = w.layernorm(&activate(&full(h, dense, w), act), norm, eps);
    Some(full(&x, &words, w).add(&w.get(bias)))
}

/// What stands for the whole text before the classifier, made of the first token: bert's pooler, the first
/// half of roberta's head, or distilbert's.
fn summary(h: &Tensor, base: &str, w: &Weights) -> Option<Tensor> {
    let pooler = format!("{base}pooler.dense");
    let first = h.first();
    if w.has("pre_classifier") {
        Some(full(&first, "pre_classifier", w).relu())
    } else if w.has("classifier.dense") {
        Some(full(&first, "classifier.dense", w).tanh())
    } else if w.has("classifier") && w.has(&pooler) {
        Some(full(&first, &pooler, w).tanh())
    } else {
        None
    }
}

/// A product with all rows of the matrix, and its bias.
fn full(x: &Tensor, name: &str, w: &Weights) -> Tensor {
    w.linear(x, name, w.shape(name)[0])
}

fn activate(x: &Tensor, act: &str) -> Tensor {
    match act {
        "gelu" => x.gelu(),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => x.gelu_tanh(),
        "relu" => x.relu(),
        "silu" | "swish" => x.silu(),
        _ => panic!("no such activation: {act}"),
    }
}
