#!/usr/bin/env python3
"""Makes the GGUF goldens from the Hugging Face ones, and proves them with llama.cpp.

    python scripts/make-gguf-goldens.py [--goldens tests/goldens] [NAME ...]

Needs `gguf`, `llama-cpp-python`, `torch`, `transformers` and `safetensors`; it is
not part of the tests. Run `make-goldens.py` first. It writes below `gguf/`:

    NAME.gguf                    the folder NAME as llama.cpp's converter writes it, in F32;
                                 its logits are those in NAME's own `golden.safetensors`
    llama-mixed.gguf             a model of width 256 with a matrix in every block type
    llama-mixed.safetensors      its `input_ids`, `logits` (exact: f32 over the decoded weights,
                                 by transformers) and `logits.llama_cpp` (which rounds
                                 activations to 8 bits), and in the metadata, under `sha256`,
                                 a JSON object: by tensor name the SHA-256 of its decoded f32

What the converter does, and this script with it: the rows of q and k are reordered from
halves (j, j + d/2) to pairs (2j, 2j + 1) in the architectures whose rotation llama.cpp
does in pairs (llama, smollm3, granite; their biases likewise); gemma's norms are stored
plus one; llama3's scaling becomes the tensor `rope_freqs.weight` and longrope's
`rope_factors_long.weight` and `rope_factors_short.weight`; a tied head is left out; gpt2's
matrices are turned round, and gpt_neox's queries, keys and values, which come head by head,
put in three stretches.

A file is kept only if llama.cpp, on it, gives the reference logits within `TOLERANCE`.
Its gelu is the tanh form through a table of f16 values; for types with a gelu the library's
activation is replaced likewise for the comparison, and the distance to the stored logits
printed too.
"""

import argparse
import ctypes
import hashlib
import json
import math
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import gguf  # noqa: E402
import llama_cpp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from gguf import GGMLQuantizationType as Type  # noqa: E402
from llama_cpp import Llama  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM  # noqa: E402

torch.set_num_threads(1)

TOLERANCE = 2e-5
GELU_TOLERANCE = 1e-3  # a value at the edge of two f16 ones may fall to either side
LIMIT = 262_144  # bytes of one file; llama-mixed has 600 KiB

# Which folders become a file: those whose every switch a GGUF can say.
NAMES = [
    "llama-plain", "llama-llama3", "llama-linear", "mistral-null-window",
    "qwen2-plain", "qwen3-plain", "phi3-plain", "phi3-partial", "phi3-longrope", "granite-plain",
    "granite-bias", "smollm3-plain", "gemma-plain", "gemma3-linear", "gemma2-plain", "olmo2-plain",
    "starcoder2-plain", "phi-plain", "stablelm-plain", "stablelm-parallel", "cohere-plain",
    "gpt2-plain", "gpt_neox-plain",
    "mixtral-plain", "qwen2_moe-plain", "qwen3_moe-plain",
]

ARCHITECTURE = {
    "llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "phi3": "phi3",
    "granite": "granite", "smollm3": "smollm3", "gemma": "gemma", "gemma3_text": "gemma3",
    "gemma2": "gemma2", "olmo2": "olmo2", "starcoder2": "starcoder2", "phi": "phi2",
    "stablelm": "stablelm", "cohere": "command-r", "gpt2": "gpt2", "gpt_neox": "gptneox",
    "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
}
LLAMA_LIKE = {"llama", "granite", "smollm3"}

PARTS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up",
    "post_attention_layernorm": "ffn_norm",
    "block_sparse_moe.gate": "ffn_gate_inp", "block_sparse_moe.experts.w1": "ffn_gate_exps",
    "block_sparse_moe.experts.w3": "ffn_up_exps", "block_sparse_moe.experts.w2": "ffn_down_exps",
    "mlp.gate": "ffn_gate_inp", "mlp.experts.gate_proj": "ffn_gate_exps",
    "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp",
}
AROUND = {
    **PARTS, "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}
OWN_PARTS = {
    "gemma2": AROUND, "gemma3": AROUND, "olmo2": AROUND,
    "starcoder2": {**PARTS, "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
    "phi2": {**PARTS, "self_attn.dense": "attn_output", "mlp.fc1": "ffn_up",
             "mlp.fc2": "ffn_down"},
    "gpt2": {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
             "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"},
    "gptneox": {**PARTS, "attention.query_key_value": "attn_qkv", "attention.dense": "attn_output",
                "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"},
}
OUTER = {
    "embed_tokens": "token_embd", "wte": "token_embd", "embed_in": "token_embd",
    "wpe": "position_embd", "norm": "output_norm", "final_layernorm": "output_norm",
    "ln_f": "output_norm", "final_layer_norm": "output_norm", "lm_head": "output",
    "embed_out": "output",
}
# Keys of gpt2 under the names that the others have.
GPT2_KEYS = {
    "n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers",
    "n_positions": "max_position_embeddings", "n_inner": "intermediate_size",
}
LAYER_NORM_KEYS = ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
# Where a layer keeps its activation, for types whose activation is a gelu.
GELU_AT = {
    "gemma": "act_fn", "gemma2": "act_fn", "gemma3_text": "act_fn", "starcoder2": "act",
    "phi": "activation_fn", "gpt2": "act", "gpt_neox": "act",
}


def tokenizer(writer, bos, eos):
    """A byte-level BPE of 96 tokens: three control tokens, then newline, space, letters,
    digits, some punctuation and 18 merged pairs."""
    pairs = ["Ġ t", "h e", "i n", "Ġ a", "e r", "o n", "r e", "Ġt he", "n d", "Ġa nd", "Ġ s",
             "o u", "a t", "i s", "Ġ o", "Ġo f", "in g", "Ġ w"]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,!?'\"-:;()"
    control = ["<a>", "<b>", "<c>"]
    control[bos], control[eos] = "<s>", "</s>"
    control[({0, 1, 2} - {bos, eos}).pop()] = "<unk>"
    tokens = [*control, "Ċ", "Ġ", *letters, *(p.replace(" ", "") for p in pairs)]
    assert len(tokens) == len(set(tokens)) == 96, len(tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3))
    writer.add_token_merges(pairs)
    writer.add_bos_token_id(bos)
    writer.add_eos_token_id(eos)
    writer.add_add_bos_token(False)


def pairs_from_halves(tensor, heads):
    """Row order of q or k for a rotation in pairs: row 2j is the old j, 2j + 1 the old j + d/2."""
    return (tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
            .swapaxes(1, 2).reshape(tensor.shape))


def metadata(writer, arch, config):
    """The keys that the converter writes for this architecture, in its order."""
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    rope = config.get("rope_parameters", {})
    full = rope.get("full_attention", rope)
    kind = full.get("rope_type")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    if arch not in ("gpt2", "gptneox"):
        writer.add_head_count_kv(config["num_key_value_heads"])
    layer_norm = [config[key] for key in LAYER_NORM_KEYS if key in config]
    if layer_norm:
        writer.add_layer_norm_eps(layer_norm[0])
    else:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    # Some converters do not write theta, granite's not head_dim, phi3's neither.
    if arch not in ("gemma", "gemma2", "gpt2"):
        writer.add_rope_freq_base(full["rope_theta"])
    if arch not in ("granite", "phi3") and config.get("head_dim") is not None:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(full["factor"])
    if arch in LLAMA_LIKE:
        writer.add_vocab_size(config["vocab_size"])
        own = config.get("head_dim") if arch != "granite" else None
        writer.add_rope_dimension_count(own or hidden // heads)
    if arch == "granite":
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if arch in ("phi2", "stablelm", "gptneox"):
        writer.add_rope_dimension_count(int(rope["partial_rotary_factor"] * (hidden // heads)))
    if arch in ("stablelm", "gptneox"):
        writer.add_parallel_residual(config["use_parallel_residual"])
    if arch == "command-r":
        writer.add_logit_scale(config["logit_scale"])
        writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
        writer.add_sliding_window(config["sliding_window"])
    if arch == "gemma3":
        writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
        writer.add_sliding_window(config["sliding_window"])
        if config.get("final_logit_softcapping"):
            writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    experts = config.get("num_local_experts") or config.get("num_experts")
    if experts:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if arch in ("qwen2moe", "qwen3moe"):
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if arch == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    if arch == "phi3":
        longest, original = (config["max_position_embeddings"],
                             config["original_max_position_embeddings"])
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_dimension_count(
            int(rope.get("partial_rotary_factor", 1.0) * hidden) // heads)
        writer.add_sliding_window(config["sliding_window"] or 0)
        if kind == "longrope":
            scale = longest / original
            writer.add_rope_scaling_attn_factors(
                math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0)


def llama3_factors(config):
    """Divisors of the rotary frequencies for llama3's scaling."""
    rope = config["rope_parameters"]
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    original = rope["original_max_position_embeddings"]
    low, high, factor = rope["low_freq_factor"], rope["high_freq_factor"], rope["factor"]
    factors = []
    for frequency in 1.0 / rope["rope_theta"] ** (
            torch.arange(0, width, 2, dtype=torch.float32) / width):
        wavelength = 2 * math.pi / frequency
        if wavelength < original / high:
            factors.append(1)
        elif wavelength > original / low:
            factors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return torch.tensor(factors, dtype=torch.float32)


def stacked(weights):
    """The tensors with those that differ by the number of their expert alone as one."""
    out, experts = {}, {}
    for name, tensor in weights.items():
        expert = re.fullmatch(r"(.+\.experts)\.(\d+)\.(.+)", name)
        if expert:
            block, number, part = expert.groups()
            experts.setdefault(f"{block}.{part}", {})[int(number)] = tensor
        else:
            # A linear map of one row is a vector.
            out[name] = tensor[0] if name.endswith("shared_expert_gate.weight") else tensor
    for name, of in experts.items():
        out[name] = torch.stack([of[number] for number in range(len(of))])
    return out


def tensors(arch, config, weights):
    """Yields (GGUF name, tensor) for every tensor of the file."""
    rope = config.get("rope_parameters", {})
    if rope.get("rope_type") == "llama3":
        yield "rope_freqs.weight", llama3_factors(config)
    if rope.get("rope_type") == "longrope":
        yield "rope_factors_long.weight", torch.tensor(rope["long_factor"])
        yield "rope_factors_short.weight", torch.tensor(rope["short_factor"])
    for name, tensor in stacked(weights).items():
        if arch in LLAMA_LIKE:
            if ".q_proj." in name:
                tensor = pairs_from_halves(tensor, config["num_attention_heads"])
            if ".k_proj." in name:
                tensor = pairs_from_halves(tensor, config["num_key_value_heads"])
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            tensor = tensor + 1
        if arch == "gpt2" and ".c_" in name and tensor.dim() == 2:
            tensor = tensor.T
        if arch == "gptneox" and ".query_key_value." in name:
            heads = config["num_attention_heads"]
            split = tensor.reshape(heads, 3, tensor.shape[0] // heads // 3, *tensor.shape[1:])
            tensor = split.swapaxes(0, 1).reshape(tensor.shape)
        inner = re.fullmatch(r"\w+\.(?:layers|h)\.(\d+)\.(.+)\.(weight|bias)", name)
        if inner:
            layer, part, suffix = inner.groups()
            yield f"blk.{layer}.{OWN_PARTS.get(arch, PARTS)[part]}.{suffix}", tensor
        else:
            part, suffix = name.split(".")[-2:]
            yield f"{OUTER[part]}.{suffix}", tensor


def write(path, name, config, weights, types=None):
    """Writes one file. `types`: block type by tensor name (F32 if absent)."""
    arch = ARCHITECTURE[config["model_type"]]
    writer = gguf.GGUFWriter(path, arch)
    # llama.cpp expects Phi 3's own control tokens of a model with that name.
    writer.add_name(name.replace("phi3", "phi"))
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    metadata(writer, arch, config)
    tokenizer(writer, config["bos_token_id"], config["eos_token_id"])
    for key, tensor in tensors(arch, config, weights):
        data = tensor.to(torch.float32).contiguous().numpy()
        kind = (types or {}).get(key, Type.F32)
        if kind == Type.F32:
            writer.add_tensor(key, data)
        else:
            writer.add_tensor(key, quantise(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def run(path, ids):
    """Logits `[S, vocab]` by llama.cpp, f32 cache, one thread, no flash attention."""
    model = Llama(
        str(path), n_ctx=256, n_batch=256, n_ubatch=256, n_threads=1, n_threads_batch=1,
        logits_all=True, type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32,
        flash_attn=False, verbose=False)
    model.eval(ids.tolist())
    logits = np.array(model.scores[: len(ids)], dtype=np.float32, copy=True)
    model.close()
    return torch.from_numpy(logits)


class HalfGelu(torch.nn.Module):
    """The tanh form of gelu by a table from f16 to f16, as llama.cpp has it."""

    def forward(self, x):
        half = x.to(torch.float16).to(torch.float32)
        value = torch.nn.functional.gelu(half, approximate="tanh").to(torch.float16)
        return torch.where(x <= -10, 0.0, torch.where(x >= 10, x, value.to(torch.float32)))


@torch.no_grad()
def half_gelu_logits(folder, ids):
    """The folder's logits with that activation."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    for module in model.modules():
        if type(module).__name__.endswith("MLP"):
            setattr(module, GELU_AT[model.config.model_type], HalfGelu())
    return model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0]


def worst(got, want):
    return (got - want).abs().max().item()


def make(name, goldens):
    """Converts one folder and keeps the file if llama.cpp agrees with its logits."""
    folder, target = goldens / name, goldens / "gguf" / f"{name}.gguf"
    config = json.loads((folder / "config.json").read_text())
    config = {GPT2_KEYS.get(key, key): value for key, value in config.items()}
    if config["model_type"] == "granite":
        config.pop("head_dim", None)
    weights = load_file(folder / "model.safetensors")
    golden = load_file(folder / "golden.safetensors")
    temporary = target.with_suffix(".tmp")
    write(temporary, name, config, weights)
    logits = run(temporary, golden["input_ids"])
    note = ""
    if config.get("rope_parameters", {}).get("rope_type") == "longrope":
        # llama.cpp chooses the factors by the size of its context, which is never below 256:
        # the file as it is takes the long ones, a twin with a larger O the short ones.
        with tempfile.TemporaryDirectory() as scratch:
            twin = Path(scratch) / "short.gguf"
            write(twin, name, config, weights)
            patch_original(twin, 4096)
            short = worst(run(twin, golden["input_ids"]), golden["logits"])
        difference = max(short, worst(
            run(temporary, golden["input_ids.long"]), golden["logits.long"]))
    elif config["model_type"] in GELU_AT:
        difference = worst(logits, half_gelu_logits(folder, golden["input_ids"]))
        note = f", {worst(logits, golden['logits']):.1e} from the stored logits (f16 gelu)"
    else:
        difference = worst(logits, golden["logits"])
    keep(temporary, target, difference, GELU_TOLERANCE if note else TOLERANCE, note)


def patch_original(path, length):
    """Changes the original context length in place, so that the stored attention factor stays."""
    reader = gguf.GGUFReader(path, "r+")
    field = reader.get_field("phi3.rope.scaling.original_context_length")
    field.parts[field.data[0]][0] = length
    reader.data.flush()


def keep(temporary, target, difference, tolerance, note):
    size = temporary.stat().st_size
    if difference > tolerance:
        temporary.unlink()
        sys.exit(f"{target.name}: llama.cpp differs by {difference:.2e}")
    assert size <= LIMIT, f"{target} takes {size} bytes"
    temporary.replace(target)
    print(f"{target.name}: {size} bytes, llama.cpp within {difference:.1e}{note}", flush=True)


# Block types: llama.cpp's own reference quantiser and decoder, through its library.

GGML = ctypes.CDLL(str(next(Path(llama_cpp.__file__).parent.glob("lib/*ggml-base*"))))
GGML.ggml_quantize_chunk.restype = ctypes.c_size_t


def quantise(values, kind):
    """u8 `[rows, bytes of a row]` of f32 `[rows, columns]`, no importance matrix."""
    if kind in (Type.F16, Type.BF16):
        half = torch.from_numpy(values).to(torch.float16 if kind == Type.F16 else torch.bfloat16)
        return half.view(torch.uint8).numpy().reshape(values.shape[0], -1)
    rows, columns = values.shape
    block, size = gguf.GGML_QUANT_SIZES[kind]
    out = np.zeros((rows, columns // block * size), dtype=np.uint8)
    values = np.ascontiguousarray(values, dtype=np.float32)
    written = GGML.ggml_quantize_chunk(
        ctypes.c_int(kind), values.ctypes.data_as(ctypes.c_void_p),
        out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0), ctypes.c_int64(rows),
        ctypes.c_int64(columns), None)
    assert written == out.nbytes, (kind, written, out.nbytes)
    return out


def decode(data, kind):
    """f32 `[rows, columns]` of `quantise`'s result."""
    if kind in (Type.F16, Type.BF16):
        half = torch.float16 if kind == Type.F16 else torch.bfloat16
        return torch.from_numpy(data.copy()).view(half).to(torch.float32).numpy()
    block, size = gguf.GGML_QUANT_SIZES[kind]
    rows, columns = data.shape[0], data.shape[1] // size * block
    out = np.zeros((rows, columns), dtype=np.float32)
    data = np.ascontiguousarray(data)
    function = getattr(GGML, f"dequantize_row_{kind.name.replace('_K', '_k').lower()}"
                       if kind.name[-1] != "K" else f"dequantize_row_q{kind.name[1]}_K")
    function(data.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
             ctypes.c_int64(rows * columns))
    return out


MIXED = {
    "token_embd.weight": Type.Q6_K, "output.weight": Type.Q8_0,
    "blk.0.attn_q.weight": Type.Q4_0, "blk.0.attn_k.weight": Type.F16,
    "blk.0.attn_v.weight": Type.BF16, "blk.0.attn_output.weight": Type.Q4_1,
    "blk.0.ffn_gate.weight": Type.Q5_0, "blk.0.ffn_up.weight": Type.Q5_1,
    "blk.0.ffn_down.weight": Type.Q2_K, "blk.1.attn_q.weight": Type.Q3_K,
    "blk.1.attn_k.weight": Type.Q8_0, "blk.1.attn_v.weight": Type.Q6_K,
    "blk.1.attn_output.weight": Type.Q4_K, "blk.1.ffn_gate.weight": Type.Q5_K,
    "blk.1.ffn_up.weight": Type.Q4_K, "blk.1.ffn_down.weight": Type.Q6_K,
}


@torch.no_grad()
def mixed(goldens):
    """A llama of width 256 with a matrix in each block type."""
    generator = torch.Generator().manual_seed(11)
    config = LlamaConfig(
        vocab_size=96, hidden_size=256, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=1, head_dim=64, max_position_embeddings=256,
        bos_token_id=1, eos_token_id=2, rms_norm_eps=1e-5, tie_word_embeddings=False,
        attn_implementation="eager")
    model = LlamaForCausalLM(config).eval()
    for name, tensor in model.state_dict().items():
        noise = torch.randn(tensor.shape, generator=generator)
        tensor.copy_(1 + 0.1 * noise if "norm" in name else
                     0.5 * noise if "embed" in name else noise * tensor.shape[-1] ** -0.5)
    settings = {**config.to_dict(), "model_type": "llama"}
    target = goldens / "gguf" / "llama-mixed.gguf"
    temporary = target.with_suffix(".tmp")
    write(temporary, "llama-mixed", settings, model.state_dict(), MIXED)

    # The exact result: the decoded weights, back in the library's row order, in f32.
    hashes, weights = {}, {}
    for tensor in gguf.GGUFReader(temporary).tensors:
        if tensor.tensor_type == Type.F32:
            value = np.array(tensor.data, dtype=np.float32)
        else:
            raw = np.ascontiguousarray(tensor.data).view(np.uint8)
            value = decode(raw.reshape(int(tensor.shape[1]), -1), tensor.tensor_type)
        hashes[tensor.name] = hashlib.sha256(value.tobytes()).hexdigest()
        weights[tensor.name] = torch.from_numpy(value.copy())
    back = {}
    for name, tensor in model.state_dict().items():
        key = next(k for k, _ in tensors("llama", settings, {name: tensor}))
        value = weights[key]
        for part, heads in (("q_proj", 4), ("k_proj", 1)):
            if part in name:
                # The inverse of `pairs_from_halves`.
                value = (value.reshape(heads, value.shape[0] // heads // 2, 2, value.shape[1])
                         .swapaxes(1, 2).reshape(value.shape))
        back[name] = value
    model.load_state_dict(back)
    ids = torch.randint(3, 96, (24,), generator=generator)
    exact = model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0]
    rounded = run(temporary, ids)
    gap = worst(rounded, exact)
    relative = ((rounded - exact).norm() / exact.norm()).item()
    assert relative < 0.02, relative
    save_file(
        {"input_ids": ids, "logits": exact.contiguous(), "logits.llama_cpp": rounded},
        target.with_suffix(".safetensors"),
        metadata={"sha256": json.dumps(hashes)})
    target.with_suffix(".safetensors").chmod(0o644)
    size = temporary.stat().st_size
    assert size <= 600 * 1024, size
    temporary.replace(target)
    print(f"{target.name}: {size} bytes, llama.cpp (8-bit activations) within {gap:.1e}, "
          f"{100 * relative:.2f} % of the norm", flush=True)


def main():
    here = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--goldens", type=Path, default=here / "tests" / "goldens")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    (arguments.goldens / "gguf").mkdir(parents=True, exist_ok=True)
    for name in arguments.names or [*NAMES, "llama-mixed"]:
        if name == "llama-mixed":
            mixed(arguments.goldens)
        else:
            make(name, arguments.goldens)


if __name__ == "__main__":
    main()
