#!/usr/bin/env python3
"""Makes the Hugging Face goldens: tiny random models with their reference logits.

    python scripts/make-goldens.py [--out tests/goldens] [NAME ...]

Needs `torch`, `transformers` (5.24 made the committed ones) and `safetensors`;
it is not part of the tests. Without a NAME it makes every case of `CASES`.

Each case becomes a folder that any importer reads as a model: `config.json`,
`model.safetensors` (or shards with their index), no tokenizer. Beside them lies
`golden.safetensors`:

    input_ids        i64 [S]          the text
    logits           f32 [S, vocab]   of one forward pass over it, all positions
    input_ids.long   i64 [L]          where the result depends on the length of the
    logits.long      f32 [L, vocab]   call: the same for a text past the original length

Every parameter and stored buffer is overwritten by random values, since the
library's initialisation (norms at 1, biases at 0, deviation 0.02) hides whole
terms; each value is rounded to a multiple of 1/65536, so that the `u32` encoding
holds it exactly. Logits are those of the eager path in f32 on one thread.

Before a folder is written: it must reload to the very same logits; and
where a case names the switch it proves (`without`), the logits without that switch must
differ, so that no golden passes by accident. The same seed gives the same files.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

VOCAB = 96
LIMIT = 260_000  # bytes of one folder

# What every case starts from; a case's own keys win.
SMALL = dict(
    vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
    bos_token_id=1, eos_token_id=2, pad_token_id=None,
)


def case(kind, *, seq=24, long=None, dtype=None, shard=None, v4=None, without=None,
         bare=(), embed=0.5, sharp=0.5, base=SMALL, **config):
    """One golden. `seq`, `long`: text lengths; `dtype`: of the stored weights;
    `shard`: `max_shard_size`; `v4`: (folder, function from the saved config to the older
    layout), the same weights under the other config; `without`: config keys that, put in
    place of the saved ones, must change the logits (DROP removes a key); `bare`: keys to take
    out of the saved config, to prove what their absence means; `embed`: deviation of the
    embeddings (small ones make the norms' epsilon count); `sharp`: added to the weights
    of the q and k norms, else the scores of such types are too flat; `base`: what the config
    starts from."""
    return dict(kind=kind, seq=seq, long=long, dtype=dtype, shard=shard, v4=v4,
                without=without, bare=bare, embed=embed, sharp=sharp, config={**base, **config})


DROP = object()


def rope(theta=10000.0, **scaling):
    """`rope_parameters`: theta and, with a `rope_type`, its scaling."""
    return {"rope_type": "default", "rope_theta": theta, **scaling}


def older(config, *drop):
    """The layout that transformers 4 wrote: `rope_theta` and `rope_scaling` with the old
    spelling `type`, `torch_dtype`; without the keys named in `drop`."""
    config = dict(config)
    parameters = dict(config.pop("rope_parameters"))
    config["rope_theta"] = parameters.pop("rope_theta")
    scaling = {"type": parameters.pop("rope_type"), **parameters}
    config["rope_scaling"] = None if scaling == {"type": "default"} else scaling
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.51.3"
    for key in ("layer_types", *drop):
        config.pop(key, None)
    return dict(sorted(config.items()))


def older_qwen2(config):
    """As `older`, with the window that such files spell out even where it is off."""
    return dict(sorted({**older(config), "sliding_window": 6, "max_window_layers": 1}.items()))


def older_phi3(config):
    """As `older`; O stands at the top level only and theta beside it."""
    config = older(config)
    config["rope_scaling"].pop("original_max_position_embeddings", None)
    return config


def older_gemma3(config):
    """Gemma 3's older keys: one theta per kind of layer, a scaling that is meant for the full
    layers only, and the pattern in place of the list of layers."""
    config = dict(config)
    parameters = config.pop("rope_parameters")
    full, sliding = parameters["full_attention"], parameters["sliding_attention"]
    config["rope_theta"] = full["rope_theta"]
    config["rope_local_base_freq"] = sliding["rope_theta"]
    scaling = {k: v for k, v in full.items() if k != "rope_theta"}
    config["rope_scaling"] = None if scaling == {"rope_type": "default"} else scaling
    config["sliding_window_pattern"] = config["layer_types"].index("full_attention") + 1
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.51.3"
    for key in ("layer_types", "_sliding_window_pattern"):
        config.pop(key, None)
    return dict(sorted(config.items()))


def older_partial(config):
    """As `older`, with the share of each head that turns beside theta."""
    parameters = dict(config["rope_parameters"])
    share = parameters.pop("partial_rotary_factor")
    config = older({**config, "rope_parameters": parameters})
    return dict(sorted({**config, "partial_rotary_factor": share}.items()))


def older_gpt_neox(config):
    """As `older_partial`, under the names that this type had for theta and the share."""
    config = older_partial(config)
    config["rotary_emb_base"] = config.pop("rope_theta")
    config["rotary_pct"] = config.pop("partial_rotary_factor")
    return dict(sorted(config.items()))


def older_gpt2(config):
    """The first files of this type: a second name for the number of positions, and settings of
    heads that are no language model's."""
    config = {**config, "n_ctx": config["n_positions"], "transformers_version": "4.51.3"}
    config["torch_dtype"] = config.pop("dtype")
    config["task_specific_params"] = {"text-generation": {"do_sample": True, "max_length": 50}}
    for key in ("add_cross_attention", "pad_token_id", "reorder_and_upcast_attn",
                "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "tie_word_embeddings"):
        config.pop(key, None)
    return dict(sorted(config.items()))


# Types without key/value heads of their own, and gpt2 with its own names for sizes.
NO_KV = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
GPT2 = dict(
    vocab_size=VOCAB, n_embd=32, n_inner=48, n_layer=2, n_head=4, n_positions=64,
    bos_token_id=1, eos_token_id=2, pad_token_id=None,
)
GEMMA2 = dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=6, pad_token_id=0)
# Two heads of 16 lanes, so that a share of them is a few pairs.
WIDE_HEADS = dict(num_attention_heads=2, num_key_value_heads=1)
def older_qwen3_moe(config):
    """As `older`, with the older name of the number of experts."""
    config = older(config)
    config["num_experts"] = config.pop("num_local_experts")
    return dict(sorted(config.items()))


def gemma4_keys(config):
    """The keys for full layers that stood in place of sizes by layer."""
    config = dict(config)
    sizes = next(iter(config.pop("per_layer_config").values()))
    config["global_head_dim"] = sizes["head_dim"]
    config["num_global_key_value_heads"] = sizes["num_key_value_heads"]
    return dict(sorted(config.items()))


GEMMA3 = dict(
    head_dim=16, query_pre_attn_scalar=24, sliding_window=6, intermediate_size=32,
    pad_token_id=0, eos_token_id=1, bos_token_id=2,
)
# Types with experts: few and narrow ones, so that a folder stays small.
MIXTRAL = dict(num_local_experts=6, num_experts_per_tok=2, intermediate_size=24)
QWEN_MOE = dict(
    num_experts=6, num_experts_per_tok=2, moe_intermediate_size=16, intermediate_size=40)
QWEN2_MOE = dict(**QWEN_MOE, shared_expert_intermediate_size=20)
DEEPSEEK = dict(
    num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=16, qk_nope_head_dim=12,
    qk_rope_head_dim=8, v_head_dim=10, n_routed_experts=8, num_experts_per_tok=2,
    moe_intermediate_size=12, n_shared_experts=2, first_k_dense_replace=1, num_hidden_layers=3,
    intermediate_size=40)
DEEPSEEK_V3 = {
    **DEEPSEEK, "q_lora_rank": 20, "n_routed_experts": 12, "n_group": 4, "topk_group": 2,
    "num_experts_per_tok": 3, "n_shared_experts": 1}
GEMMA4 = dict(
    head_dim=8, global_head_dim=16, sliding_window=6, intermediate_size=32,
    hidden_size_per_layer_input=4, vocab_size_per_layer_input=VOCAB,
    pad_token_id=0, eos_token_id=1, bos_token_id=2)
LONG_FACTORS = [1.0, 1.25, 1.6, 2.3, 3.1, 4.2, 5.5, 7.0]
SHORT_FACTORS = [1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.7]

CASES = {
    # llama
    "llama-plain": case("llama", head_dim=16, without=dict(rope_parameters=rope(theta=500.0))),
    "llama-biases": case(
        "llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True, hidden_act="gelu",
        rms_norm_eps=1e-5, without=dict(attention_bias=False)),
    "llama-linear": case(
        "llama", head_dim=16, rope_parameters=rope(rope_type="linear", factor=2.5),
        without=dict(rope_parameters=rope())),
    "llama-dynamic": case(
        "llama", head_dim=16, max_position_embeddings=16, seq=12, long=40,
        rope_parameters=rope(rope_type="dynamic", factor=2.0),
        without=dict(rope_parameters=rope())),
    "llama-yarn": case(
        "llama", head_dim=16, max_position_embeddings=128, seq=40,
        rope_parameters=rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=32),
        v4=("llama-yarn-v4", older), without=dict(rope_parameters=rope())),
    "llama-yarn-truncate-false-mscale": case(
        "llama", head_dim=16, max_position_embeddings=128, seq=40,
        rope_parameters=rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=4.0,
            beta_slow=0.25, truncate=False, mscale=1.5, mscale_all_dim=0.5),
        without=dict(rope_parameters=rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=4.0,
            beta_slow=0.25, mscale=1.5, mscale_all_dim=0.5))),
    "llama-yarn-attention-factor": case(
        "llama", head_dim=16, max_position_embeddings=16384,
        rope_parameters=rope(
            theta=5000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=4096,
            attention_factor=1.3),
        without=dict(rope_parameters=rope(
            theta=5000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=4096))),
    "llama-llama3": case(
        "llama", head_dim=16, seq=40, max_position_embeddings=256,
        rope_parameters=rope(
            rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32),
        v4=("llama-llama3-v4", older), without=dict(rope_parameters=rope())),
    "llama-longrope": case(
        "llama", head_dim=16, max_position_embeddings=64, seq=12, long=40,
        rope_parameters=rope(
            rope_type="longrope", long_factor=LONG_FACTORS, short_factor=SHORT_FACTORS,
            original_max_position_embeddings=16, factor=4.0),
        without=dict(rope_parameters=rope())),
    "llama-sharded": case("llama", num_key_value_heads=4, shard="56KB"),
    "llama-bare": case(
        "llama", num_key_value_heads=4, embed=0.01, bare=(
            "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters", "hidden_act",
            "attention_bias", "mlp_bias", "tie_word_embeddings", "pretraining_tp"),
        without=dict(rms_norm_eps=1e-5)),
    # mistral
    "mistral-window": case(
        "mistral", sliding_window=6, head_dim=8, without=dict(sliding_window=None)),
    "mistral-null-window": case(
        "mistral", sliding_window=None, head_dim=16, rms_norm_eps=1e-5,
        without=dict(sliding_window=6)),
    "mistral-bare": case(
        "mistral", num_attention_heads=8, num_key_value_heads=8, embed=0.01, bare=(
            "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters", "hidden_act",
            "sliding_window", "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-5)),
    # qwen2
    "qwen2-plain": case(
        "qwen2", tie_word_embeddings=True, rope_parameters=rope(theta=1000000.0),
        v4=("qwen2-plain-v4", older_qwen2), without=dict(rope_parameters=rope())),
    "qwen2-window": case(
        "qwen2", num_hidden_layers=3, use_sliding_window=True, sliding_window=6,
        max_window_layers=1, v4=("qwen2-window-v4", older), without=dict(
            layer_types=["sliding_attention"] * 3)),
    "qwen2-f16": case("qwen2", dtype="float16"),
    "qwen2-bare": case(
        "qwen2", num_hidden_layers=1, num_attention_heads=32, num_key_value_heads=32,
        hidden_size=64, embed=0.01, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act",
            "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
            "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-5)),
    # qwen3
    "qwen3-plain": case(
        "qwen3", head_dim=16, tie_word_embeddings=True, rope_parameters=rope(theta=1000000.0),
        without=dict(rope_parameters=rope())),
    "qwen3-window-bias": case(
        "qwen3", head_dim=8, attention_bias=True, num_hidden_layers=3, use_sliding_window=True,
        sliding_window=6, max_window_layers=0,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        without=dict(layer_types=DROP)),
    "qwen3-bf16": case("qwen3", head_dim=16, dtype="bfloat16"),
    # phi3
    "phi3-plain": case("phi3", sliding_window=None, without=dict(sliding_window=6)),
    "phi3-window": case(
        "phi3", head_dim=16, sliding_window=6, without=dict(sliding_window=None)),
    "phi3-partial": case(
        "phi3", num_attention_heads=2, num_key_value_heads=1, sliding_window=None,
        rope_parameters=rope(partial_rotary_factor=0.5),
        without=dict(rope_parameters=rope(partial_rotary_factor=1.0),
                     partial_rotary_factor=DROP)),
    "phi3-longrope": case(
        "phi3", num_attention_heads=2, num_key_value_heads=1, seq=12, long=40,
        sliding_window=None, max_position_embeddings=64, original_max_position_embeddings=16,
        rope_parameters=rope(
            rope_type="longrope", long_factor=LONG_FACTORS, short_factor=SHORT_FACTORS,
            partial_rotary_factor=1.0, original_max_position_embeddings=16),
        v4=("phi3-longrope-v4", older_phi3), without=dict(rope_parameters=rope())),
    "phi3-bare": case(
        "phi3", num_key_value_heads=4, embed=0.01, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act",
            "sliding_window", "original_max_position_embeddings", "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-6)),
    # smollm3
    "smollm3-plain": case(
        "smollm3", num_hidden_layers=4, without=dict(no_rope_layers=[1, 1, 1, 1])),
    "smollm3-window": case(
        "smollm3", num_hidden_layers=4, use_sliding_window=True, sliding_window=6,
        without=dict(layer_types=["full_attention"] * 4)),
    "smollm3-bare": case(
        "smollm3", num_key_value_heads=4, num_hidden_layers=4, intermediate_size=32, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act",
            "sliding_window", "use_sliding_window", "layer_types", "no_rope_layers",
            "no_rope_layer_interval", "attention_bias", "mlp_bias", "tie_word_embeddings"),
        rope_parameters=rope(theta=2000000.0),
        without=dict(rope_parameters=rope())),
    # granite
    "granite-plain": case(
        "granite", embedding_multiplier=3.0, attention_multiplier=0.6, residual_multiplier=0.6,
        logits_scaling=2.5, without=dict(attention_multiplier=8 ** -0.5)),
    "granite-bias": case(
        "granite", attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
        embedding_multiplier=3.0, attention_multiplier=0.6, residual_multiplier=0.6,
        logits_scaling=2.5, without=dict(mlp_bias=False)),
    "granite-bare": case(
        "granite", num_key_value_heads=4, embed=0.01, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act",
            "embedding_multiplier", "attention_multiplier", "residual_multiplier",
            "logits_scaling", "attention_bias", "mlp_bias", "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-5)),
    # gemma
    "gemma-plain": case(
        "gemma", head_dim=16, pad_token_id=0, eos_token_id=1, bos_token_id=2,
        hidden_act="gelu", hidden_activation="silu", without=dict(hidden_act="silu")),
    "gemma-bare": case(
        "gemma", head_dim=8, num_attention_heads=16, num_key_value_heads=16, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act",
            "attention_bias", "tie_word_embeddings"),
        without=dict(hidden_act="silu")),
    # gemma2
    "gemma2-plain": case(
        "gemma2", num_hidden_layers=3, attn_logit_softcapping=1.5, final_logit_softcapping=2.0,
        **{**GEMMA2, "query_pre_attn_scalar": 16}, v4=("gemma2-plain-v4", older),
        without=dict(attn_logit_softcapping=None)),
    "gemma2-nosoftcap": case(
        "gemma2", attn_logit_softcapping=None, final_logit_softcapping=None,
        layer_types=["full_attention", "sliding_attention"], attention_bias=True, **GEMMA2,
        without=dict(layer_types=DROP)),
    "gemma2-bare": case(
        "gemma2", num_key_value_heads=4, head_dim=8, sharp=2.5, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_activation",
            "query_pre_attn_scalar", "sliding_window", "layer_types", "final_logit_softcapping",
            "attn_logit_softcapping", "attention_bias", "tie_word_embeddings"),
        without=dict(query_pre_attn_scalar=8)),
    # gemma3
    "gemma3-plain": case(
        "gemma3_text", num_hidden_layers=6, final_logit_softcapping=1.5, **GEMMA3,
        without=dict(final_logit_softcapping=None)),
    "gemma3-linear": case(
        "gemma3_text", num_hidden_layers=6, **{**GEMMA3, "query_pre_attn_scalar": 16},
        rope_parameters={
            "full_attention": rope(theta=1000000.0, rope_type="linear", factor=8.0),
            "sliding_attention": rope(theta=10000.0)},
        v4=("gemma3-oldkeys", older_gemma3),
        without=dict(rope_parameters={
            "full_attention": rope(theta=1000000.0), "sliding_attention": rope(theta=10000.0)})),
    "gemma3-nosoftcap": case(
        "gemma3_text", num_hidden_layers=4, final_logit_softcapping=None,
        attn_logit_softcapping=2.0,
        layer_types=["sliding_attention", "full_attention"] * 2, **GEMMA3,
        v4=("gemma3-nosoftcap-v4", older_gemma3),
        without=dict(layer_types=["full_attention"] * 4)),
    "gemma3-bare": case(
        "gemma3_text", num_hidden_layers=6, num_key_value_heads=4, head_dim=8,
        intermediate_size=32, sharp=2.5, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_activation",
            "query_pre_attn_scalar", "sliding_window", "layer_types", "final_logit_softcapping",
            "attn_logit_softcapping", "attention_bias", "tie_word_embeddings"),
        without=dict(rope_parameters={
            "full_attention": rope(theta=10000.0), "sliding_attention": rope(theta=10000.0)})),
    # phi
    "phi-plain": case(
        "phi", **WIDE_HEADS, v4=("phi-plain-v4", older_partial),
        without=dict(rope_parameters=rope(partial_rotary_factor=1.0))),
    "phi-qknorm": case(
        "phi", **WIDE_HEADS, qk_layernorm=True, hidden_act="relu", tie_word_embeddings=True,
        rope_parameters=rope(theta=1000.0, partial_rotary_factor=0.25),
        without=dict(qk_layernorm=False)),
    "phi-bare": case(
        "phi", num_attention_heads=2, num_key_value_heads=2, embed=0.01, bare=(
            "num_key_value_heads", "layer_norm_eps", "rope_parameters", "hidden_act",
            "qk_layernorm", "tie_word_embeddings"),
        without=dict(layer_norm_eps=1e-6)),
    # starcoder2
    "starcoder2-plain": case(
        "starcoder2", v4=("starcoder2-plain-v4", older), without=dict(use_bias=False)),
    "starcoder2-window": case(
        "starcoder2", head_dim=16, sliding_window=6, use_bias=False, tie_word_embeddings=False,
        hidden_act="gelu", without=dict(sliding_window=None)),
    "starcoder2-bare": case(
        "starcoder2", bare=(
            "num_key_value_heads", "norm_epsilon", "rope_parameters", "hidden_act",
            "sliding_window", "use_bias", "tie_word_embeddings"),
        without=dict(hidden_act="relu")),
    # stablelm
    "stablelm-plain": case(
        "stablelm", **WIDE_HEADS, use_qkv_bias=True, v4=("stablelm-plain-v4", older_partial),
        without=dict(rope_parameters=rope(partial_rotary_factor=1.0))),
    "stablelm-qknorm": case(
        "stablelm", qk_layernorm=True, tie_word_embeddings=True,
        rope_parameters=rope(partial_rotary_factor=0.5), without=dict(qk_layernorm=False)),
    "stablelm-parallel": case(
        "stablelm", **WIDE_HEADS, use_parallel_residual=True,
        without=dict(use_parallel_residual=False)),
    "stablelm-bare": case(
        "stablelm", **WIDE_HEADS, embed=0.01, bare=(
            "layer_norm_eps", "rope_parameters", "hidden_act", "use_qkv_bias", "qk_layernorm",
            "use_parallel_residual", "tie_word_embeddings"),
        without=dict(layer_norm_eps=1e-6)),
    # cohere
    "cohere-plain": case(
        "cohere", logit_scale=0.5, v4=("cohere-plain-v4", older),
        without=dict(logit_scale=0.25)),
    "cohere-qknorm": case(
        "cohere", use_qk_norm=True, logit_scale=1.5, rope_parameters=rope(),
        without=dict(use_qk_norm=False)),
    "cohere-bias": case(
        "cohere", head_dim=16, attention_bias=True, tie_word_embeddings=False, logit_scale=1.0,
        without=dict(attention_bias=False)),
    "cohere-bare": case(
        "cohere", num_key_value_heads=4, bare=(
            "num_key_value_heads", "layer_norm_eps", "rope_parameters", "hidden_act",
            "logit_scale", "use_qk_norm", "attention_bias", "tie_word_embeddings"),
        rope_parameters=rope(theta=500000.0), without=dict(rope_parameters=rope())),
    # gpt2
    "gpt2-plain": case(
        "gpt2", base=GPT2, v4=("gpt2-plain-v4", older_gpt2),
        without=dict(activation_function="relu")),
    "gpt2-scales": case(
        "gpt2", base=GPT2, scale_attn_weights=False, scale_attn_by_inverse_layer_idx=True,
        reorder_and_upcast_attn=True, tie_word_embeddings=False, activation_function="silu",
        without=dict(scale_attn_by_inverse_layer_idx=False)),
    "gpt2-bare": case(
        "gpt2", base={**GPT2, "n_inner": None}, bare=(
            "n_inner", "layer_norm_epsilon", "activation_function", "scale_attn_weights",
            "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention",
            "tie_word_embeddings"),
        without=dict(activation_function="relu")),
    # gpt_neox
    "gpt_neox-plain": case(
        "gpt_neox", base=NO_KV, num_attention_heads=2, v4=("gpt_neox-plain-v4", older_gpt_neox),
        without=dict(use_parallel_residual=False)),
    "gpt_neox-serial": case(
        "gpt_neox", base=NO_KV, use_parallel_residual=False, attention_bias=False,
        tie_word_embeddings=True, hidden_act="gelu_new",
        rope_parameters=rope(theta=1000.0, partial_rotary_factor=1.0),
        without=dict(rope_parameters=rope(theta=1000.0, partial_rotary_factor=0.25))),
    "gpt_neox-bare": case(
        "gpt_neox", base=NO_KV, num_attention_heads=2, embed=0.002, bare=(
            "layer_norm_eps", "rope_parameters", "hidden_act", "attention_bias",
            "use_parallel_residual", "tie_word_embeddings"),
        without=dict(layer_norm_eps=1e-6)),
    # olmo2
    "olmo2-plain": case("olmo2", without=dict(rope_parameters=rope(theta=500.0))),
    "olmo2-bias": case(
        "olmo2", head_dim=16, attention_bias=True, tie_word_embeddings=True,
        rope_parameters=rope(theta=500000.0), v4=("olmo2-bias-v4", older),
        without=dict(attention_bias=False)),
    "olmo2-bare": case(
        "olmo2", num_key_value_heads=4, embed=0.01, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act",
            "attention_bias", "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-6)),

    # Experts. mixtral
    "mixtral-plain": case("mixtral", **MIXTRAL, without=dict(num_experts_per_tok=3)),
    "mixtral-window": case(
        "mixtral", **MIXTRAL, head_dim=16, sliding_window=6, hidden_act="gelu",
        tie_word_embeddings=True, without=dict(sliding_window=None)),
    "mixtral-bare": case(
        "mixtral", **{**MIXTRAL, "num_local_experts": 8}, num_attention_heads=8,
        num_key_value_heads=8, embed=0.01, bare=(
            "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters", "hidden_act",
            "sliding_window", "tie_word_embeddings", "num_local_experts", "num_experts_per_tok"),
        without=dict(rms_norm_eps=1e-6)),
    # qwen2_moe
    "qwen2_moe-plain": case("qwen2_moe", **QWEN2_MOE, without=dict(norm_topk_prob=True)),
    "qwen2_moe-norm-step": case(
        "qwen2_moe", **QWEN2_MOE, num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3],
        norm_topk_prob=True, qkv_bias=False, without=dict(norm_topk_prob=False)),
    "qwen2_moe-window": case(
        "qwen2_moe", **{**QWEN2_MOE, "num_experts": 4}, num_hidden_layers=3, use_sliding_window=True,
        sliding_window=6, max_window_layers=2, v4=("qwen2_moe-window-v4", older),
        without=dict(layer_types=["full_attention"] * 3)),
    "qwen2_moe-bare": case(
        "qwen2_moe", **{**QWEN2_MOE, "num_experts_per_tok": 4}, num_attention_heads=16,
        num_key_value_heads=16, embed=0.01, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act", "layer_types",
            "sliding_window", "use_sliding_window", "max_window_layers", "qkv_bias",
            "num_experts_per_tok", "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers",
            "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-5)),
    # qwen3_moe
    "qwen3_moe-plain": case(
        "qwen3_moe", **QWEN_MOE, head_dim=16, norm_topk_prob=True,
        v4=("qwen3_moe-plain-v4", older_qwen3_moe), without=dict(norm_topk_prob=False)),
    "qwen3_moe-window-bias": case(
        "qwen3_moe", **QWEN_MOE, attention_bias=True, num_hidden_layers=3, mlp_only_layers=[0],
        use_sliding_window=True, sliding_window=6,
        without=dict(use_sliding_window=False, sliding_window=None)),
    "qwen3_moe-bare": case(
        "qwen3_moe", **{**QWEN_MOE, "num_experts": 10, "num_experts_per_tok": 8},
        num_key_value_heads=4, embed=0.01, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act",
            "sliding_window", "use_sliding_window", "attention_bias", "num_experts_per_tok",
            "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-5)),
    # deepseek_v2
    "deepseek_v2-plain": case(
        "deepseek_v2", **DEEPSEEK, routed_scaling_factor=1.7, norm_topk_prob=True,
        v4=("deepseek_v2-plain-v4", older), without=dict(routed_scaling_factor=1.0)),
    "deepseek_v2-groups-bias": case(
        "deepseek_v2", **{
            **DEEPSEEK, "q_lora_rank": 20, "v_head_dim": 24, "num_experts_per_tok": 3,
            "num_hidden_layers": 2},
        topk_method="group_limited_greedy", n_group=4, topk_group=2, attention_bias=True,
        mlp_bias=True, without=dict(topk_method="greedy")),
    "deepseek_v2-yarn": case(
        "deepseek_v2", **DEEPSEEK, seq=40, rope_parameters=rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32, mscale=0.7,
            mscale_all_dim=1.3),
        v4=("deepseek_v2-yarn-v4", older), without=dict(rope_parameters=rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32))),
    "deepseek_v2-bare": case(
        "deepseek_v2", **{**DEEPSEEK, "first_k_dense_replace": 0, "num_hidden_layers": 2}, embed=0.01,
        bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_act", "head_dim",
            "first_k_dense_replace", "n_group", "topk_group", "topk_method", "n_shared_experts",
            "routed_scaling_factor", "norm_topk_prob", "attention_bias", "mlp_bias",
            "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-5)),
    # deepseek_v3
    "deepseek_v3-plain": case("deepseek_v3", **DEEPSEEK_V3, without=dict(topk_group=4)),
    "deepseek_v3-halves-bias": case(
        "deepseek_v3", **{
            **DEEPSEEK_V3, "q_lora_rank": None, "n_group": 1, "topk_group": 1,
            "num_hidden_layers": 2},
        norm_topk_prob=False, rope_interleave=False, attention_bias=True, routed_scaling_factor=1.0,
        without=dict(rope_interleave=True)),
    "deepseek_v3-yarn": case(
        "deepseek_v3", **{**DEEPSEEK_V3, "num_hidden_layers": 2}, seq=40, rope_parameters=rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.0,
            mscale_all_dim=1.0),
        v4=("deepseek_v3-yarn-v4", older), without=dict(rope_parameters=rope(
            rope_type="yarn", factor=4.0, original_max_position_embeddings=32))),
    "deepseek_v3-bare": case(
        "deepseek_v3", **{
            **DEEPSEEK_V3, "n_routed_experts": 16, "n_group": 8, "topk_group": 4,
            "num_experts_per_tok": 8, "first_k_dense_replace": 3, "num_hidden_layers": 4,
            "intermediate_size": 24},
        embed=0.01, bare=(
            "rms_norm_eps", "rope_parameters", "hidden_act", "head_dim", "first_k_dense_replace",
            "n_group", "topk_group", "num_experts_per_tok", "n_shared_experts", "norm_topk_prob",
            "routed_scaling_factor", "rope_interleave", "attention_bias", "tie_word_embeddings"),
        without=dict(rms_norm_eps=1e-5)),
    # gemma4
    "gemma4-plain": case(
        "gemma4_text", **GEMMA4, num_hidden_layers=6, final_logit_softcapping=1.5,
        without=dict(final_logit_softcapping=None)),
    "gemma4-joint": case(
        "gemma4_text", **{**GEMMA4, "hidden_size_per_layer_input": 0}, attention_k_eq_v=True,
        num_global_key_value_heads=1, num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "full_attention": rope(theta=1000.0, rope_type="proportional", partial_rotary_factor=0.5),
            "sliding_attention": rope(theta=100.0)},
        v4=("gemma4-joint-keys", gemma4_keys),
        without=dict(rope_parameters={
            "full_attention": rope(theta=1000.0, rope_type="proportional", partial_rotary_factor=1.0),
            "sliding_attention": rope(theta=100.0)})),
    "gemma4-shared": case(
        "gemma4_text", **GEMMA4, num_hidden_layers=5, num_kv_shared_layers=2,
        use_double_wide_mlp=True, attention_bias=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention",
                     "sliding_attention", "full_attention"],
        without=dict(sliding_window=20)),
    "gemma4-experts": case(
        "gemma4_text", **GEMMA4, num_hidden_layers=2, enable_moe_block=True, num_experts=6,
        top_k_experts=2, moe_intermediate_size=12, without=dict(top_k_experts=3)),
    "gemma4-factor": case(
        "gemma4_text", **GEMMA4, num_hidden_layers=2,
        layer_types=["full_attention", "full_attention"],
        rope_parameters={
            "full_attention": rope(
                theta=1000.0, rope_type="proportional", partial_rotary_factor=0.5, factor=4.0),
            "sliding_attention": rope(theta=100.0)},
        without=dict(rope_parameters={
            "full_attention": rope(theta=1000.0, rope_type="proportional", partial_rotary_factor=0.5),
            "sliding_attention": rope(theta=100.0)})),
    "gemma4-bare": case(
        "gemma4_text", **{**GEMMA4, "num_key_value_heads": 4}, num_hidden_layers=6, seq=40, sharp=-0.4, bare=(
            "num_key_value_heads", "rms_norm_eps", "rope_parameters", "hidden_activation",
            "layer_types", "final_logit_softcapping", "attention_bias", "attention_k_eq_v",
            "enable_moe_block", "num_kv_shared_layers", "use_double_wide_mlp", "tie_word_embeddings"),
        without=dict(sliding_window=512)),
}


def overwrite(model, generator, spec, dtype):
    """Fills every entry of the state dict with random multiples of 1/65536."""
    zero_based = spec["kind"].startswith("gemma") and not spec["kind"].startswith("gemma4")
    for name, tensor in model.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        if name.endswith(".bias"):
            value = 0.3 * noise
        elif "norm" in name or ".ln_" in name:
            uniform = torch.rand(tensor.shape, generator=generator) * 0.6 - 0.3
            value = uniform if zero_based else 1 + uniform
            if any(part in name for part in ("q_norm", "k_norm", "q_layernorm", "k_layernorm")):
                value = value + spec["sharp"]
        elif name.endswith(("layer_scalar", "router.scale", "per_expert_scale")):
            value = 1 + torch.rand(tensor.shape, generator=generator) * 0.6 - 0.3
        elif any(part in name for part in ("embed_tokens", "embed_in", ".wte.", ".wpe.")):
            value = spec["embed"] * noise
        else:
            # Attention projections a little wider: scores of deviation near 2.
            wide = any(part in name for part in (
                "q_proj", "k_proj", "qkv_proj", "c_attn", "query_key_value"))
            # This type keeps matrices the other way round.
            inputs = tensor.shape[0 if spec["kind"] == "gpt2" and ".c_" in name else -1]
            value = (1.4 if wide else 1.0) * inputs ** -0.5 * noise
        value = torch.round(value * 65536) / 65536
        if dtype is not None:
            value = value.to(dtype).to(torch.float32)  # fewer bits, still a multiple
        assert torch.equal(torch.round(value * 65536) / 65536, value), name
        tensor.copy_(value)


def load(folder):
    """The folder as transformers reads it, in f32 on the eager path."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")
    return model.eval()


@torch.no_grad()
def forward(model, ids):
    """Logits `[S, vocab]` of one call without a cache."""
    return model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0].to(torch.float32)


@torch.no_grad()
def sharpness(model, ids):
    """Mean over heads and late positions of the largest attention weight."""
    layers = model(input_ids=ids.unsqueeze(0), use_cache=False, output_attentions=True).attentions
    return torch.stack([a[0, :, 8:, :].amax(-1).mean() for a in layers]).mean().item()


@torch.no_grad()
def unsteadiness(folder, ids):
    """How much the logits change when all but the routers works in double precision, as `max|a - b| / max|b|`: a
    choice of experts by a hair would show."""
    model = load(folder)
    logits = forward(model, ids)
    exact = model.double()(input_ids=ids.unsqueeze(0), use_cache=False).logits[0]
    return ((logits - exact).abs().max() / exact.abs().max()).item()


def read(folder):
    return json.loads((folder / "config.json").read_text())


def write(folder, config):
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def goldens(folder, texts):
    """The content of `golden.safetensors`, each text on a model loaded for it alone (a
    `dynamic` table that grew stays grown)."""
    tensors = {}
    for suffix, ids in texts.items():
        tensors["input_ids" + suffix] = ids
        tensors["logits" + suffix] = forward(load(folder), ids)
    return tensors


def agree(folder, expected):
    """Fails unless the folder gives exactly the logits in `expected`."""
    for key, want in expected.items():
        if key.startswith("logits"):
            suffix = key.removeprefix("logits")
            got = forward(load(folder), expected["input_ids" + suffix])
            worst = (got - want).abs().max().item()
            assert worst == 0.0, f"{folder}: {key} differs by {worst} after a reload"


def without_switch(folder, spec, expected):
    """Largest change of the logits when the keys of `without` replace the saved ones."""
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "model"
        shutil.copytree(folder, other)
        config = read(other)
        for key, value in spec["without"].items():
            if value is DROP:
                config.pop(key, None)
            else:
                config[key] = value
        write(other, config)
        keys = [k for k in expected if k.startswith("logits")]
        return min(
            (forward(load(other), expected["input_ids" + k.removeprefix("logits")]) - expected[k])
            .abs().max().item() for k in keys[-1:])


def store(folder, tensors):
    save_file(tensors, folder / "golden.safetensors", metadata={
        "reference": f"transformers {transformers.__version__}, eager, f32"})
    for file in folder.iterdir():
        file.chmod(0o644)  # the library leaves its files readable by their owner alone
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert size <= LIMIT, f"{folder} takes {size} bytes"
    return size


def make(name, spec, out):
    """Makes the folder(s) of one case under `out`; prints a line for each."""
    seed = zlib.crc32(name.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    dtype = getattr(torch, spec["dtype"]) if spec["dtype"] else None
    config = AutoConfig.for_model(spec["kind"], **spec["config"])
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).to(torch.float32).eval()
    with torch.no_grad():
        overwrite(model, generator, spec, dtype)

    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    extra = {"max_shard_size": spec["shard"]} if spec["shard"] else {}
    if dtype is not None:
        model = model.to(dtype)
    model.save_pretrained(folder, **extra)
    (folder / "generation_config.json").unlink(missing_ok=True)
    saved = read(folder)
    missing = [key for key in spec["bare"] if key not in saved]
    assert not missing, f"{name}: the saved config has no {missing}"
    saved = {key: value for key, value in saved.items() if key not in spec["bare"]}
    write(folder, saved)

    texts = {"": torch.randint(3, VOCAB, (spec["seq"],), generator=generator)}
    if spec["long"]:
        texts[".long"] = torch.randint(3, VOCAB, (spec["long"],), generator=generator)
    tensors = goldens(folder, texts)
    agree(folder, tensors)
    if dtype is None:
        # The model as it was before saving, too: a silent remap on load would show.
        worst = (forward(model, texts[""]) - tensors["logits"]).abs().max().item()
        assert worst == 0.0, f"{name}: saving changed the logits by {worst}"
    note = ""
    if any("experts" in name for name, _ in model.named_modules()):
        hair = unsteadiness(folder, texts[""])
        assert hair < 1e-5, f"{name}: the logits change by {hair} in double precision"
    if spec["without"]:
        change = without_switch(folder, spec, tensors)
        assert change > 1e-2, f"{name}: the switch changes the logits by {change} only"
        note = f", without the switch {change:.3f}"
    size = store(folder, tensors)
    deviation = tensors["logits"].std().item()
    print(f"{name}: {size} bytes, logits ±{deviation:.2f}, attention peak "
          f"{sharpness(load(folder), texts['']):.2f}{note}", flush=True)

    if spec["v4"]:
        twin, rewrite = out / spec["v4"][0], spec["v4"][1]
        shutil.rmtree(twin, ignore_errors=True)
        shutil.copytree(folder, twin)
        write(twin, rewrite(saved))
        agree(twin, tensors)
        print(f"{twin.name}: {store(twin, tensors)} bytes, same logits under the older config",
              flush=True)


def same_tensors(what, found, wanted, tolerance):
    """Fails unless two sets of named tensors agree."""
    assert found.keys() == wanted.keys(), (what, found.keys(), wanted.keys())
    for name, value in wanted.items():
        worst = (found[name] - value).abs().max().item()
        assert worst <= tolerance, f"{what}: {name} differs by {worst}"


def run(doc, folder, cases, make):
    """The command of a script that makes goldens: `make(name, case, out)` for each case that is named, or for all."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent / "tests" / folder)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in cases]
    if unknown:
        sys.exit(f"no such case: {', '.join(unknown)}; there are: {', '.join(cases)}")
    for name in arguments.names or cases:
        make(name, cases[name], arguments.out)


if __name__ == "__main__":
    run(__doc__, "goldens", CASES, make)
