//! Residual convolutional networks, `resnet`: stages of basic or bottleneck layers, a batch norm behind each
//! convolution. Pictures in; labels' logits out where the model has a classifier, else the pooled features.

use cyb::nn::{Config, Tensor, Weights};

/// `image`: `[N, channels, H, W]`, normalised; any size. Gives `[N, labels]`, or `[N, channels of the last stage]`.
pub fn forward(image: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let root = if w.has("resnet.embedder.embedder.convolution") { "resnet." } else { "" };

    let h = conv(image, &format!("{root}embedder.embedder"), a.embedding_size, 7, 2, w);
    let mut h = activate(&h, config).max_pool2d(3, 2, 1);
    for (s, depth) in a.depths.iter().enumerate() {
        for l in 0..depth {
            // The first layer of a stage halves the picture; in the first stage only if the config says so.
            let halves = l == 0 && (s > 0 || a.downsample_in_first_stage.unwrap_or(false));
            let name = format!("{root}encoder.stages.{s}.layers.{l}");
            h = layer(&h, &name, a.hidden_sizes[s], if halves { 2 } else { 1 }, config, w);
        }
    }
    let pooled = h.mean([2, 3]);
    if w.has("classifier.1") { w.linear(&pooled, "classifier.1", w.shape("classifier.1")[0]) } else { pooled }
}

/// act(branch(h) + shortcut(h)); the shortcut is a convolution where size or channels change.
fn layer(h: &Tensor, name: &str, out: usize, stride: usize, config: &Config, w: &Weights) -> Tensor {
    let shortcut = format!("{name}.shortcut");
    let kept = if w.has(format!("{shortcut}.convolution")) { conv(h, &shortcut, out, 1, stride, w) } else { h.clone() };
    let branch = if config.architecture.layer_type.unwrap_or("bottleneck") == "basic" {
        basic(h, &format!("{name}.layer"), out, stride, w)
    } else {
        bottleneck(h, &format!("{name}.layer"), out, stride, config, w)
    };
    activate(&branch.add(&kept), config)
}

/// Two convolutions of 3 × 3. Inside a branch the activation is relu, whatever the config says.
fn basic(h: &Tensor, name: &str, out: usize, stride: usize, w: &Weights) -> Tensor {
    let x = conv(h, &format!("{name}.0"), out, 3, stride, w).relu();
    conv(&x, &format!("{name}.1"), out, 3, 1, w)
}

/// 1 × 1 to a quarter of the channels, 3 × 3, 1 × 1 back. The 3 × 3 has the stride unless the config says the first.
fn bottleneck(h: &Tensor, name: &str, out: usize, stride: usize, config: &Config, w: &Weights) -> Tensor {
    let early = config.architecture.downsample_in_bottleneck.unwrap_or(false);
    let (first, second) = if early { (stride, 1) } else { (1, stride) };
    let x = conv(h, &format!("{name}.0"), out / 4, 1, first, w).relu();
    let x = conv(&x, &format!("{name}.1"), out / 4, 3, second, w).relu();
    conv(&x, &format!("{name}.2"), out, 1, 1, w)
}

/// A convolution without bias, padded to keep the size at stride 1, and its batch norm.
fn conv(x: &Tensor, name: &str, out: usize, kernel: usize, stride: usize, w: &Weights) -> Tensor {
    let x = w.conv2d(x, format!("{name}.convolution"), out, kernel, stride, kernel / 2);
    w.batchnorm(&x, format!("{name}.normalization"), 1e-5)
}

/// The config's activation.
fn activate(x: &Tensor, config: &Config) -> Tensor {
    match config.architecture.hidden_act.unwrap_or("relu") {
        "relu" => x.relu(),
        "gelu" => x.gelu(),
        "silu" => x.silu(),
        other => panic!("activation `{other}` is not known here; relu, gelu and silu are"),
    }
}
