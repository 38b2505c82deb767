//! Speech synthesis of the type vits: ids of the text to samples between −1 and 1.
//!
//! One speaker, and durations that are predicted without chance; what is not written here is refused below.
//! With `noise_scale` = 0 the same text always gives the same sound.

use cyb::nn::{Architecture, Config, Tensor, Weights};

pub fn forward(ids: &[u32], config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    assert!(!a.use_stochastic_duration_prediction.unwrap_or(true), "stochastic durations are not written here");
    assert!(a.num_speakers.unwrap_or(1) == 1, "more than one speaker is not written here");
    assert!(a.hidden_act.unwrap_or("relu") == "relu", "only the activation relu is written here");
    assert!(a.ffn_kernel_size.unwrap_or(3) % 2 == 1, "even kernels are not written here");

    let h = encode(ids, a, w).transpose().unsqueeze(0);
    let [mean, log_deviation] = w.conv1d(&h, "text_encoder.project", 2 * a.flow_size).chunk(2, 1);

    // From one column for each id to one for each frame of the sound.
    let durations = predict_durations(&h, a, w);
    let mut z = mean.expand_by_durations(&durations);
    if a.noise_scale > 0.0 {
        let deviation = log_deviation.expand_by_durations(&durations).exp();
        z = z.add(&Tensor::randn(&z).mul(&deviation).scale(a.noise_scale));
    }
    for i in (0..a.prior_encoder_num_flows).rev() {
        z = flow_inverse(&z.flip(1), &format!("flow.flows.{i}"), a, w);
    }
    waveform(&z, a, w)
}

/// The text encoder: attention that knows near distances, and convolutions, each with its norm behind the sum.
fn encode(ids: &Tensor, a: &Architecture, w: &Weights) -> Tensor {
    let mut h = w.embed("text_encoder.embed_tokens", ids, a.hidden_size).scale((a.hidden_size as f64).sqrt());

    // near[i, j, r] is 1 where key j is r − window_size places behind query i.
    let place = Tensor::arange(ids.len());
    let distance = place.unsqueeze(0).sub(&place.unsqueeze(1)).unsqueeze(2);
    let near = distance.eq(&Tensor::arange(2 * a.window_size + 1).sub(a.window_size)).cast("f32");

    for i in 0..a.num_hidden_layers {
        let layer = format!("text_encoder.encoder.layers.{i}");
        let x = h.add(&attention(&h, &near, &format!("{layer}.attention"), a, w));
        h = w.layernorm(&x, format!("{layer}.layer_norm"), a.layer_norm_eps);
        let x = w.conv1d(&h.transpose().unsqueeze(0), format!("{layer}.feed_forward.conv_1"), a.ffn_dim).relu();
        let x = w.conv1d(&x, format!("{layer}.feed_forward.conv_2"), a.hidden_size);
        h = w.layernorm(&h.add(&x.squeeze(0).transpose()), format!("{layer}.final_layer_norm"), a.layer_norm_eps);
    }
    h
}

/// Attention in which each distance up to `window_size` has a vector that adds to keys, and one to values.
fn attention(h: &Tensor, near: &Tensor, name: &str, a: &Architecture, w: &Weights) -> Tensor {
    let (heads, size) = (a.num_attention_heads, a.hidden_size / a.num_attention_heads);
    let project = |part: &str| w.linear(h, format!("{name}.{part}_proj"), a.hidden_size).reshape([-1, heads, size]);
    let by_head = |x: &Tensor| x.permute([1, 0, 2]);
    let (q, k, v) = (project("q").scale(1.0 / (size as f64).sqrt()), project("k"), project("v"));
    let (to_keys, to_values) = (w.get(format!("{name}.emb_rel_k")), w.get(format!("{name}.emb_rel_v")));

    // Per query: scores of the distances `[S, heads, 2·window + 1]`, moved to the keys `[S, heads, S]`.
    let of_distance = q.matmul_t(&to_keys.squeeze(0)).matmul_t(near);
    let weights = by_head(&q).matmul_t(&by_head(&k)).add(&by_head(&of_distance)).softmax(-1);
    let of_values = by_head(&weights.matmul(&by_head(&v)));
    let of_places = by_head(&weights).matmul(near).matmul(&to_values.squeeze(0));
    let mixed = of_values.add(&of_places).reshape([-1, a.hidden_size]);
    w.linear(&mixed, format!("{name}.out_proj"), a.hidden_size)
}

/// How many frames each id lasts, whole numbers `[S]`.
fn predict_durations(h: &Tensor, a: &Architecture, w: &Weights) -> Tensor {
    let mut x = h.clone();
    for i in 1..=2 {
        let y = w.conv1d(&x, format!("duration_predictor.conv_{i}"), a.duration_predictor_filter_channels).relu();
        x = w.layernorm(&y.transpose(), format!("duration_predictor.norm_{i}"), a.layer_norm_eps).transpose();
    }
    let log = w.conv1d(&x, "duration_predictor.proj", 1).reshape([-1]);
    log.exp().scale(1.0 / a.speaking_rate.unwrap_or(1.0)).ceil()
}

/// The inverse of one coupling: what the first half of the channels says is taken from the second.
fn flow_inverse(z: &Tensor, name: &str, a: &Architecture, w: &Weights) -> Tensor {
    let [first, second] = z.chunk(2, 1);
    let x = w.conv1d(&first, format!("{name}.conv_pre"), a.hidden_size);
    let x = wavenet(&x, &format!("{name}.wavenet"), a, w);
    let mean = w.conv1d(&x, format!("{name}.conv_post"), a.flow_size / 2);
    Tensor::concat(&[first, second.sub(&mean)], 1)
}

/// Dilated convolutions with gates: each layer adds to the next one's input and to the result.
fn wavenet(x: &Tensor, name: &str, a: &Architecture, w: &Weights) -> Tensor {
    let (layers, k) = (a.prior_encoder_num_wavenet_layers, a.wavenet_kernel_size);
    let mut x = x.clone();
    let mut results = vec![];
    for i in 0..layers {
        let dilation = a.wavenet_dilation_rate.pow(i);
        let both = normed(&x, &format!("{name}.in_layers.{i}"), dilation * (k - 1) / 2, dilation, w);
        let [value, gate] = both.chunk(2, 1);
        let y = normed(&value.tanh().mul(&gate.sigmoid()), &format!("{name}.res_skip_layers.{i}"), 0, 1, w);
        if i + 1 == layers {
            results.push(y);
            break;
        }
        let [add, result] = y.chunk(2, 1);
        x = x.add(&add);
        results.push(result);
    }
    sum(&results)
}

fn sum(parts: &[Tensor]) -> Tensor {
    parts[1..].iter().fold(parts[0].clone(), |sum, x| sum.add(x))
}

/// A convolution whose kernels are stored as lengths and directions, under their old names or the new.
fn normed(x: &Tensor, name: &str, padding: usize, dilation: usize, w: &Weights) -> Tensor {
    let new = "parametrizations.weight.original";
    let old = w.has(format!("{name}.weight_v"));
    let length = w.get(if old { format!("{name}.weight_g") } else { format!("{name}.{new}0") });
    let v = w.get(if old { format!("{name}.weight_v") } else { format!("{name}.{new}1") });
    let kernel = v.mul(&length.div(&v.mul(&v).sum_keep([1, 2]).sqrt()));
    x.conv1d(&kernel, &w.get(format!("{name}.bias")), 1, padding, dilation)
}

/// The vocoder (HiFi-GAN): frames `[1, flow_size, T]` to samples, each step by `upsample_rates` longer.
fn waveform(z: &Tensor, a: &Architecture, w: &Weights) -> Tensor {
    let kinds = a.resblock_kernel_sizes.len();
    let mut x = w.conv1d(z, "decoder.conv_pre", a.upsample_initial_channel);
    for (i, rate) in a.upsample_rates.iter().enumerate() {
        let (wide, k) = (a.upsample_initial_channel >> (i + 1), a.upsample_kernel_sizes[i]);
        x = x.leaky_relu(a.leaky_relu_slope);
        let long = w.conv_transpose1d(&x, format!("decoder.upsampler.{i}"), wide, rate, (k - rate) / 2);
        let blocks: Vec<Tensor> = (0..kinds).map(|j| residual(&long, i * kinds + j, j, wide, a, w)).collect();
        x = sum(&blocks).div(kinds as f64);
    }
    let x = w.conv1d(&x.leaky_relu(0.01), "decoder.conv_post", 1);
    x.tanh().reshape([-1])
}

/// Pairs of convolutions, the first of each dilated, with the way past each pair.
fn residual(x: &Tensor, block: usize, kind: usize, wide: usize, a: &Architecture, w: &Weights) -> Tensor {
    let (k, slope) = (a.resblock_kernel_sizes[kind], a.leaky_relu_slope);
    let mut x = x.clone();
    for (n, dilation) in a.resblock_dilation_sizes[kind].iter().enumerate() {
        let name = format!("decoder.resblocks.{block}");
        let y = x.leaky_relu(slope);
        let y = w.conv1d(&y, format!("{name}.convs1.{n}"), wide, k, 1, dilation * (k - 1) / 2, dilation);
        let y = w.conv1d(&y.leaky_relu(slope), format!("{name}.convs2.{n}"), wide);
        x = x.add(&y);
    }
    x
}
