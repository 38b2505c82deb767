//! Vision transformers: `vit`, `deit` and `dinov2`. Pictures in; labels' logits out where the model has a classifier,
//! else one row for each picture.
//!
//! Which tensors there are decides what applies: a distillation token, layer scales, a gated feed-forward, the head.

use cyb::nn::{Config, Tensor, Weights};

/// `image`: `[N, channels, image_size, image_size]`, resized and normalised as the model's processor does it.
/// Gives `[N, labels]`, or `[N, hidden_size]` without a classifier.
pub fn forward(image: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    // A model that was saved without a head has no prefix.
    let prefix = format!("{}.", config.model_type);
    let root = if w.has(format!("{prefix}embeddings.cls_token")) { prefix.as_str() } else { "" };

    let image = image.reshape([-1, a.num_channels.unwrap_or(3), a.image_size, a.image_size]);
    let mut h = embed(&image, root, config, w);
    for i in 0..a.num_hidden_layers {
        h = layer(&h, &format!("{root}encoder.layer.{i}"), config, w);
    }
    let h = w.layernorm(&h, format!("{root}layernorm"), a.layer_norm_eps);
    head(&h, root, config, w)
}

/// Rows of one picture: class token, distillation token if there is one, patches row by row; each plus its position.
fn embed(image: &Tensor, root: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (n, size, patch) = (image.dim(0), a.hidden_size, a.patch_size);
    let names = format!("{root}embeddings");

    let patches = w.conv2d(image, format!("{names}.patch_embeddings.projection"), size, patch, patch, 0);
    let mut rows = vec![w.get(format!("{names}.cls_token")).expand([n, 1, size])];
    if w.has(format!("{names}.distillation_token")) {
        rows.push(w.get(format!("{names}.distillation_token")).expand([n, 1, size]));
    }
    rows.push(patches.flatten_patches());
    Tensor::concat(&rows, 1).add(&w.get(format!("{names}.position_embeddings")))
}

/// One layer, norms before the branches.
fn layer(h: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let dinov2 = w.has(format!("{name}.norm1"));
    let (norm1, norm2) = if dinov2 { ("norm1", "norm2") } else { ("layernorm_before", "layernorm_after") };

    let x = w.layernorm(h, format!("{name}.{norm1}"), a.layer_norm_eps);
    let h = h.add(&layer_scale(&attention(&x, &format!("{name}.attention"), config, w), name, 1, w));

    let x = w.layernorm(&h, format!("{name}.{norm2}"), a.layer_norm_eps);
    let x = if w.has(format!("{name}.mlp.weights_in")) {
        swiglu(&x, &format!("{name}.mlp"), config, w)
    } else if dinov2 {
        let ratio = a.mlp_ratio.unwrap_or(4);
        feed_forward(&x, &format!("{name}.mlp.fc1"), &format!("{name}.mlp.fc2"), a.hidden_size * ratio, config, w)
    } else {
        let (up, down) = (format!("{name}.intermediate.dense"), format!("{name}.output.dense"));
        feed_forward(&x, &up, &down, a.intermediate_size, config, w)
    };
    h.add(&layer_scale(&x, name, 2, w))
}

/// `x` times the learned scale of branch `number`, where the model has one.
fn layer_scale(x: &Tensor, name: &str, number: usize, w: &Weights) -> Tensor {
    let scale = format!("{name}.layer_scale{number}.lambda1");
    if w.has(&scale) { x.mul(&w.get(&scale)) } else { x.clone() }
}

/// Every row sees every row of its picture.
fn attention(x: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (heads, size) = (a.num_attention_heads, a.hidden_size);
    let q = w.linear(x, format!("{name}.attention.query"), size);
    let k = w.linear(x, format!("{name}.attention.key"), size);
    let v = w.linear(x, format!("{name}.attention.value"), size);
    let mixed = Tensor::attention(&q, &k, &v, heads, size / heads);
    w.linear(&mixed, format!("{name}.output.dense"), size)
}

/// down(act(up(x)))
fn feed_forward(x: &Tensor, up: &str, down: &str, width: usize, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    w.linear(&activate(&w.linear(x, up, width), a.hidden_act.unwrap_or("gelu")), down, a.hidden_size)
}

/// weights_out(silu(gate) · up), where weights_in gives gate and up side by side.
fn swiglu(x: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    let width = w.shape(format!("{name}.weights_in"))[0];
    let parts = w.linear(x, format!("{name}.weights_in"), width).chunk(2, -1);
    w.linear(&parts[0].silu().mul(&parts[1]), format!("{name}.weights_out"), config.architecture.hidden_size)
}

/// What leaves the model: logits of the classifiers that exist, else the pooler's row, else the class token's.
fn head(h: &Tensor, root: &str, config: &Config, w: &Weights) -> Tensor {
    let class = h.select(1, 0);
    if w.has("cls_classifier") {
        // A student with two heads: the mean of both.
        let own = w.linear(&class, "cls_classifier", labels("cls_classifier", w));
        let taught = w.linear(&h.select(1, 1), "distillation_classifier", labels("distillation_classifier", w));
        return own.add(&taught).scale(0.5);
    }
    if w.has("classifier") {
        let dinov2 = config.model_type == "dinov2";
        let x = if dinov2 { class.concat(&h.slice(1, 1, h.dim(1)).mean(1), -1) } else { class };
        return w.linear(&x, "classifier", labels("classifier", w));
    }
    let pooler = format!("{root}pooler.dense");
    if w.has(&pooler) {
        let width = labels(&pooler, w);
        return activate(&w.linear(&class, &pooler, width), config.architecture.pooler_act.unwrap_or("tanh"));
    }
    class
}

/// Rows of a matrix: as many as it gives numbers.
fn labels(name: &str, w: &Weights) -> usize {
    w.shape(name)[0]
}

/// An activation by the name that configs give it.
fn activate(x: &Tensor, name: &str) -> Tensor {
    match name {
        "gelu" => x.gelu(),
        "gelu_new" | "gelu_pytorch_tanh" => x.gelu_tanh(),
        "quick_gelu" => x.quick_gelu(),
        "relu" => x.relu(),
        "silu" | "swish" => x.silu(),
        "tanh" => x.tanh(),
        _ => panic!("activation `{name}` is not known here; gelu, relu, silu and tanh are"),
    }
}
