//! The decoder of a video autoencoder (CogVideoX): latents in, frames out. Convolutions look back in time, never ahead,
//! and each norm is scaled and shifted by the latents at that place. Names and config keys are those of `diffusers`.

use cyb::nn::{Config, Tensor, Weights};

/// `latents`: `[1, latent_channels, latent_frames, latent_height, latent_width]` as the denoiser gives them. Gives
/// `[1, 3, frames, H, W]`, values 0 to 1; an odd number of latent frames keeps its first frame single. The video is one
/// piece to the norms, where the library takes two or three latent frames at a time.
pub fn forward(latents: &Tensor, config: &Config, w: &Weights) -> Tensor {
    let a = &config.architecture;
    let widths = &a.block_out_channels;
    let (levels, widest) = (widths.len(), widths[widths.len() - 1]);
    let shape = [1, a.latent_channels, a.latent_frames, a.latent_height, a.latent_width];
    let z = latents.reshape(shape).scale(1.0 / a.scaling_factor);
    let z = if w.has("post_quant_conv") { w.conv3d(&z, "post_quant_conv", a.latent_channels, 1) } else { z };

    let mut x = causal_conv(&z, "decoder.conv_in", widest, w);
    for j in 0..2 {
        x = residual(&x, &z, &format!("decoder.mid_block.resnets.{j}"), widest, config, w);
    }
    for i in 0..levels {
        let (name, out) = (format!("decoder.up_blocks.{i}"), widths[levels - 1 - i]);
        for j in 0..a.layers_per_block + 1 {
            x = residual(&x, &z, &format!("{name}.resnets.{j}"), out, config, w);
        }
        if i + 1 < levels {
            // The first levels double time as well, until the compression is undone.
            let time = if (2 << i) <= a.temporal_compression_ratio { 2 } else { 1 };
            let frames = grow(&x, time, 2).squeeze(0).transpose(0, 1);
            x = w.conv2d(&frames, format!("{name}.upsamplers.0.conv"), out, 3, 1).transpose(0, 1).unsqueeze(0);
        }
    }
    let x = norm(&x, &z, "decoder.norm_out", config, w).silu();
    causal_conv(&x, "decoder.conv_out", a.out_channels, w).scale(0.5).add(0.5).clamp(0.0, 1.0)
}

/// Two convolutions behind norms, added to the input, which a 1 × 1 × 1 brings to the new width where it changes.
fn residual(x: &Tensor, z: &Tensor, name: &str, out: usize, config: &Config, w: &Weights) -> Tensor {
    let h = norm(x, z, &format!("{name}.norm1"), config, w).silu();
    let h = causal_conv(&h, &format!("{name}.conv1"), out, w);
    let h = norm(&h, z, &format!("{name}.norm2"), config, w).silu();
    let h = causal_conv(&h, &format!("{name}.conv2"), out, w);
    let shortcut = format!("{name}.conv_shortcut");
    if w.has(&shortcut) { h.add(&w.conv3d(x, shortcut, out, 1)) } else { h.add(x) }
}

/// Group norm of `x`, scaled and shifted by what two convolutions of 1 × 1 × 1 make of the latents `z`.
fn norm(x: &Tensor, z: &Tensor, name: &str, config: &Config, w: &Weights) -> Tensor {
    let out = x.dim(1);
    let single = z.dim(2) % 2;
    let time = if z.dim(2) > 1 { (x.dim(2) - single) / (z.dim(2) - single) } else { 1 };
    let z = grow(z, time, x.dim(3) / z.dim(3));
    let scale = w.conv3d(&z, format!("{name}.conv_y.conv"), out, 1);
    let shift = w.conv3d(&z, format!("{name}.conv_b.conv"), out, 1);
    w.groupnorm(x, format!("{name}.norm_layer"), config.architecture.norm_num_groups, 1e-6).mul(&scale).add(&shift)
}

/// 3 × 3 × 3, the first frame standing for those before it.
fn causal_conv(x: &Tensor, name: &str, out: usize, w: &Weights) -> Tensor {
    let first = x.slice(2, 0, 1);
    w.conv3d(&Tensor::concat(&[first, first, x], 2), format!("{name}.conv"), out, 3, 1, [0, 1, 1])
}

/// Every frame `time` times, every pixel `space` times a side. The first of an odd number of frames stays single.
fn grow(x: &Tensor, time: usize, space: usize) -> Tensor {
    let frames = x.dim(2);
    if frames == 1 {
        return x.upsample3d([1, space, space]);
    }
    if frames % 2 == 0 {
        return x.upsample3d([time, space, space]);
    }
    let (first, rest) = (x.slice(2, 0, 1), x.slice(2, 1, frames));
    first.upsample3d([1, space, space]).concat(&rest.upsample3d([time, space, space]), 2)
}
