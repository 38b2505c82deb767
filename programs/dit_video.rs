//! A diffusion transformer that draws videos of a text (CogVideoX): from noise over some DDIM steps to latents, which
//! `video_decoder.rs` turns into frames. Names and config keys are those of `diffusers`.

use cyb::nn::{Config, Tensor, Weights};

/// `noise`: `[1, channels, latent_frames, sample_height, sample_width]`, standard normal. `prompt` and `negative`: what
/// the text encoder says of the wanted and of the unwanted, `[1, max_text_seq_length, text_embed_dim]` each.
/// Gives latents in the shape of `noise`.
pub fn forward(noise: &Tensor, prompt: &Tensor, negative: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let s = &a.scheduler;
    assert!(!a.use_rotary_positional_embeddings.unwrap_or(false), "rotary positions are not part of this program");
    let mut x = noise.reshape([1, a.in_channels, a.latent_frames, a.sample_height, a.sample_width]);
    let prompt = prompt.reshape([1, a.max_text_seq_length, a.text_embed_dim]);
    let negative = negative.reshape([1, a.max_text_seq_length, a.text_embed_dim]);

    let alphas = schedule(config);
    let stride = s.num_train_timesteps / s.num_inference_steps;
    for i in 0..s.num_inference_steps {
        let t = s.num_train_timesteps - 1 - i * stride;
        let plain = denoise(&x, t, &negative, config, w);
        let v = plain.add(&denoise(&x, t, &prompt, config, w).sub(&plain).scale(a.guidance_scale));
        // The model tells a velocity; the clean video and the noise are two mixtures of it and `x`.
        let (alpha, previous) = (alphas[t], if t >= stride { alphas[t - stride] } else { 1.0 });
        let (keep, spread) = (alpha.sqrt(), (1.0 - alpha).sqrt());
        let clean = x.scale(keep).sub(&v.scale(spread));
        let noise = x.scale(spread).add(&v.scale(keep));
        x = clean.scale(previous.sqrt()).add(&noise.scale((1.0 - previous).sqrt()));
    }
    x
}

/// α of every training step: products of 1 − β with √β evenly spaced, shifted towards noise, and drawn out so that the
/// last is 0.
fn schedule(config: &Config) -> Vec<f64> {
    let s = &config.architecture.scheduler;
    let (first, last) = (s.beta_start.sqrt(), s.beta_end.sqrt());
    let mut roots = vec![];
    let mut product = 1.0;
    for t in 0..s.num_train_timesteps {
        let root = first + (last - first) * t as f64 / (s.num_train_timesteps - 1) as f64;
        product *= 1.0 - root * root;
        roots.push((product / (s.snr_shift_scale + (1.0 - s.snr_shift_scale) * product)).sqrt());
    }
    let (top, bottom) = (roots[0], roots[s.num_train_timesteps - 1]);
    roots.iter().map(|root| ((root - bottom) * top / (top - bottom)).powi(2)).collect()
}

/// The velocity of `x` at step `t`. Text rows stand before those of the patches, frame by frame, row by row.
fn denoise(x: &Tensor, t: usize, text: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (size, p, eps) = (a.num_attention_heads * a.attention_head_dim, a.patch_size, a.norm_eps.unwrap_or(1e-5));
    let (frames, rows, columns) = (x.dim(2), x.dim(3) / p, x.dim(4) / p);

    let time = w.linear(&Tensor::timestep(t, size), "time_embedding.linear_1", a.time_embed_dim).silu();
    let time = w.linear(&time, "time_embedding.linear_2", a.time_embed_dim).silu();
    let pictures = x.squeeze(0).transpose(0, 1);
    let patches = w.conv2d(&pictures, "patch_embed.proj", size, p, p, 0).flatten_patches();
    let mut video = patches.reshape([1, frames * rows * columns, size]).add(&positions(frames, rows, columns, config));
    let mut text = w.linear(text, "patch_embed.text_proj", size);
    for i in 0..a.num_layers {
        let next = block(&video, &text, &time, &format!("transformer_blocks.{i}"), config, w);
        video = next.0;
        text = next.1;
    }

    let h = w.layernorm(&video, "norm_final", eps);
    let parts = w.linear(&time, "norm_out.linear", 2 * size).chunk(2, -1);
    let h = modulate(&w.layernorm(&h, "norm_out.norm", eps), &parts[0], &parts[1]);
    let h = w.linear(&h, "proj_out", p * p * a.out_channels);
    let h = h.reshape([frames, rows, columns, a.out_channels, p, p]).permute([3, 0, 1, 4, 2, 5]);
    h.reshape([1, a.out_channels, frames, rows * p, columns * p])
}

/// Attention over video and text together, then a feed-forward; each has norms and gates that the time sets.
fn block(video: &Tensor, text: &Tensor, time: &Tensor, name: &str, config: &Config, w: &Weights) -> (Tensor, Tensor) {
    let a = &config.architecture;
    let (heads, dim, words) = (a.num_attention_heads, a.attention_head_dim, text.dim(1));
    let size = heads * dim;
    let (mut video, mut text) = (video.clone(), text.clone());
    for branch in ["norm1", "norm2"] {
        let m = w.linear(time, format!("{name}.{branch}.linear"), 6 * size).chunk(6, -1);
        let norm = |x| w.layernorm(x, format!("{name}.{branch}.norm"), a.norm_eps.unwrap_or(1e-5));
        let x = modulate(&norm(&text), &m[3], &m[4]).concat(&modulate(&norm(&video), &m[0], &m[1]), 1);
        let y = if branch == "norm1" {
            let q = heads_normed(&w.linear(&x, format!("{name}.attn1.to_q"), size), "norm_q", name, dim, w);
            let k = heads_normed(&w.linear(&x, format!("{name}.attn1.to_k"), size), "norm_k", name, dim, w);
            let v = w.linear(&x, format!("{name}.attn1.to_v"), size);
            w.linear(&Tensor::attention(&q, &k, &v, heads, dim), format!("{name}.attn1.to_out.0"), size)
        } else {
            let up = w.linear(&x, format!("{name}.ff.net.0.proj"), 4 * size).gelu_tanh();
            w.linear(&up, format!("{name}.ff.net.2"), size)
        };
        text = text.add(&y.slice(1, 0, words).mul(&m[5]));
        video = video.add(&y.slice(1, words, y.dim(1)).mul(&m[2]));
    }
    (video, text)
}

/// Layer norm of each head of `x` `[1, S, heads · dim]`.
fn heads_normed(x: &Tensor, norm: &str, name: &str, dim: usize, w: &Weights) -> Tensor {
    let [n, s, size] = x.shape();
    w.layernorm(&x.reshape([n, s, size / dim, dim]), format!("{name}.attn1.{norm}"), 1e-6).reshape([n, s, size])
}

/// x · (1 + scale) + shift
fn modulate(x: &Tensor, shift: &Tensor, scale: &Tensor) -> Tensor {
    x.mul(&scale.add(1.0)).add(shift)
}

/// Where a patch is: the frame in the first quarter, then column and row, each sines before cosines.
fn positions(frames: usize, rows: usize, columns: usize, config: &Config) -> Tensor {
    let a = &config.architecture;
    let (size, space) = (a.num_attention_heads * a.attention_head_dim, 1.0 / a.spatial_interpolation_scale);
    let time = Tensor::arange(frames).cast("f32").scale(1.0 / a.temporal_interpolation_scale);
    let across = Tensor::arange(columns).cast("f32").scale(space).repeat([frames * rows]);
    let down = Tensor::arange(rows).cast("f32").scale(space).repeat_each(columns, 0).repeat([frames]);
    let parts = [(time.repeat_each(rows * columns, 0), size / 8), (across, size * 3 / 16), (down, size * 3 / 16)];
    let mut waves = vec![];
    for (at, half) in parts {
        let step = -(10000.0_f64).ln() / half as f64;
        let angles = at.unsqueeze(1).mul(&Tensor::arange(half).cast("f32").scale(step).exp());
        waves.push(angles.sin().concat(&angles.cos(), 1));
    }
    Tensor::concat(&waves, 1)
}
