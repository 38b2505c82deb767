//! A diffusion transformer that draws pictures of a class (DiT), with the decoder of its autoencoder: from noise in the
//! latent space over some DDIM steps to pixels. Names and config keys are those of `diffusers`, the transformer's below
//! `transformer.` and in `[architecture]`, the decoder's below `vae.` and in `[architecture.vae]`.

use cyb::nn::{Config, Tensor, Weights};

/// `noise`: `[1, in_channels, latent_height, latent_width]`, standard normal. `labels`: the class, one number `[1]`.
/// Gives the picture `[1, 3, H, W]`, values 0 to 1.
pub fn forward(noise: &Tensor, labels: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let s = &a.scheduler;
    let (height, width) = (a.latent_height.unwrap_or(a.sample_size), a.latent_width.unwrap_or(a.sample_size));
    let (mut x, labels) = (noise.reshape([1, a.in_channels, height, width]), labels.reshape([1]));

    // α of a step: the product of 1 − β up to it, β evenly spaced.
    let (mut alphas, mut product) = (vec![], 1.0);
    for t in 0..s.num_train_timesteps {
        let part = t as f64 / (s.num_train_timesteps - 1) as f64;
        product *= 1.0 - (s.beta_start + (s.beta_end - s.beta_start) * part);
        alphas.push(product);
    }

    let last = if s.set_alpha_to_one.unwrap_or(true) { 1.0 } else { alphas[0] };
    let stride = s.num_train_timesteps / s.num_inference_steps;
    for i in (0..s.num_inference_steps).rev() {
        let t = i * stride + s.steps_offset.unwrap_or(0);
        let mut drift = denoise(&x, t, &labels, config, w);
        if a.guidance_scale > 1.0 {
            // Away from what the model would draw for no class in particular.
            let nothing = Tensor::full([1], a.num_embeds_ada_norm as f64);
            let plain = denoise(&x, t, &nothing, config, w);
            drift = plain.add(&drift.sub(&plain).scale(a.guidance_scale));
        }
        let previous = if t >= stride { alphas[t - stride] } else { last };
        x = x.ddim_step(&drift, alphas[t], previous);
    }
    decode(&x.scale(1.0 / a.vae.scaling_factor), config, w).scale(0.5).add(0.5).clamp(0.0, 1.0)
}

/// The noise in `x` at step `t`, `[1, in_channels, height, width]`.
fn denoise(x: &Tensor, t: usize, label: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (size, p) = (a.num_attention_heads * a.attention_head_dim, a.patch_size);
    let (rows, columns) = (x.dim(2) / p, x.dim(3) / p);

    let patches = w.conv2d(x, "transformer.pos_embed.proj", size, p, p, 0).flatten_patches();
    let mut h = patches.add(&positions(rows, columns, a.sample_size / p, size));
    for i in 0..a.num_layers {
        h = block(&h, t, label, &format!("transformer.transformer_blocks.{i}"), config, w);
    }

    let about = condition(t, label, "transformer.transformer_blocks.0", size, w).silu();
    let parts = w.linear(&about, "transformer.proj_out_1", 2 * size).chunk(2, -1);
    let h = h.adaptive_layernorm(&parts[1], &parts[0]);
    let out = a.out_channels.unwrap_or(a.in_channels);
    let h = w.linear(&h, "transformer.proj_out_2", p * p * out);
    // Rows are patches, each (y, x, channel). What a model says about the noise's spread comes behind and is not used.
    let picture = h.reshape([1, rows, columns, p, p, out]).permute([0, 5, 1, 3, 2, 4]);
    picture.reshape([1, out, rows * p, columns * p]).slice(1, 0, a.in_channels)
}

/// Attention and feed-forward, each between a norm that the condition shifts and scales and a gate of its own.
fn block(h: &Tensor, t: usize, label: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let (heads, size) = (a.num_attention_heads, a.num_attention_heads * a.attention_head_dim);
    let about = condition(t, label, name, size, w).silu();
    let parts = w.linear(&about, format!("{name}.norm1.linear"), 6 * size).chunk(6, -1);

    let x = h.adaptive_layernorm(&parts[1], &parts[0]);
    let q = w.linear(&x, format!("{name}.attn1.to_q"), size);
    let k = w.linear(&x, format!("{name}.attn1.to_k"), size);
    let v = w.linear(&x, format!("{name}.attn1.to_v"), size);
    let mixed = w.linear(&Tensor::attention(&q, &k, &v, heads, size / heads), format!("{name}.attn1.to_out.0"), size);
    let h = h.add(&mixed.mul(&parts[2]));

    let x = h.layer_norm_plain(a.norm_eps.unwrap_or(1e-5)).mul(&parts[4].add(1.0)).add(&parts[3]);
    let x = w.linear(&x, format!("{name}.ff.net.0.proj"), 4 * size).gelu_tanh();
    h.add(&w.linear(&x, format!("{name}.ff.net.2"), size).mul(&parts[5]))
}

/// What a block knows of step and class, `[1, size]`.
fn condition(t: usize, label: &Tensor, name: &str, size: usize, w: &Weights) -> Tensor {
    let emb = format!("{name}.norm1.emb");
    let (sine, cosine) = waves(&Tensor::full([1], t as f64), 256, 1);
    let x = w.linear(&cosine.concat(&sine, -1), format!("{emb}.timestep_embedder.linear_1"), size).silu();
    let x = w.linear(&x, format!("{emb}.timestep_embedder.linear_2"), size);
    x.add(&w.embed(format!("{emb}.class_embedder.embedding_table"), label, size))
}

/// Where a patch is, `[rows · columns, size]`: the column in the first half, the row in the second. A picture of any
/// shape stretches over the range of the one learned on, `base` patches a side.
fn positions(rows: usize, columns: usize, base: usize, size: usize) -> Tensor {
    let across = Tensor::arange(columns).cast("f32").scale(base as f64 / columns as f64).repeat([rows]);
    let down = Tensor::arange(rows).cast("f32").scale(base as f64 / rows as f64).repeat_each(columns, 0);
    let (x_sine, x_cosine) = waves(&across, size / 2, 0);
    let (y_sine, y_cosine) = waves(&down, size / 2, 0);
    Tensor::concat(&[x_sine, x_cosine, y_sine, y_cosine], 1)
}

/// Sines and cosines of `t` `[n]` times dim/2 frequencies from 1 down to near 1/10000, each `[n, dim/2]`.
fn waves(t: &Tensor, dim: usize, shift: usize) -> (Tensor, Tensor) {
    let half = dim / 2;
    let step = -(10000.0_f64).ln() / (half - shift) as f64;
    let angles = t.unsqueeze(1).mul(&Tensor::arange(half).cast("f32").scale(step).exp());
    (angles.sin(), angles.cos())
}

/// From the latent space to pixels, −1 to 1.
fn decode(x: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let v = &config.architecture.vae;
    let (widths, groups) = (&v.block_out_channels, v.norm_num_groups);
    let (levels, widest) = (widths.len(), widths[widths.len() - 1]);
    let first = "vae.post_quant_conv";
    let x = if w.has(first) { w.conv2d(x, first, v.latent_channels, 1, 1) } else { x.clone() };
    let x = w.conv2d(&x, "vae.decoder.conv_in", widest, 3, 1);
    let x = residual(&x, "vae.decoder.mid_block.resnets.0", widest, groups, w);
    let x = mix(&x, "vae.decoder.mid_block.attentions.0", widest, groups, w);
    let mut x = residual(&x, "vae.decoder.mid_block.resnets.1", widest, groups, w);
    for i in 0..levels {
        let (name, out) = (format!("vae.decoder.up_blocks.{i}"), widths[levels - 1 - i]);
        for j in 0..v.layers_per_block + 1 {
            x = residual(&x, &format!("{name}.resnets.{j}"), out, groups, w);
        }
        if i + 1 < levels {
            x = w.conv2d(&x.upsample(2), format!("{name}.upsamplers.0.conv"), out, 3, 1);
        }
    }
    let x = w.groupnorm(&x, "vae.decoder.conv_norm_out", groups, 1e-6).silu();
    w.conv2d(&x, "vae.decoder.conv_out", v.out_channels, 3, 1)
}

/// Two convolutions behind norms, added to the input, which a 1 × 1 brings to the new width where it changes.
fn residual(x: &Tensor, name: &str, out: usize, groups: usize, w: &Weights) -> Tensor {
    let h = w.groupnorm(x, format!("{name}.norm1"), groups, 1e-6).silu();
    let h = w.conv2d(&h, format!("{name}.conv1"), out, 3, 1);
    let h = w.groupnorm(&h, format!("{name}.norm2"), groups, 1e-6).silu();
    let h = w.conv2d(&h, format!("{name}.conv2"), out, 3, 1);
    let shortcut = format!("{name}.conv_shortcut");
    if w.has(&shortcut) { h.add(&w.conv2d(x, shortcut, out, 1, 1)) } else { h.add(x) }
}

/// Attention over all places of the picture, one head, added to the input.
fn mix(x: &Tensor, name: &str, size: usize, groups: usize, w: &Weights) -> Tensor {
    let rows = w.groupnorm(x, format!("{name}.group_norm"), groups, 1e-6).flatten_patches();
    let q = w.linear(&rows, format!("{name}.to_q"), size);
    let k = w.linear(&rows, format!("{name}.to_k"), size);
    let v = w.linear(&rows, format!("{name}.to_v"), size);
    let mixed = w.linear(&Tensor::attention(&q, &k, &v, 1, size), format!("{name}.to_out.0"), size);
    mixed.unflatten_patches(x.dim(2), x.dim(3)).add(x)
}
