#!/usr/bin/env python3
"""Makes the models on which the program library is tested: text, speech and sound.

    python scripts/make-program-models.py [--out tests/programs] [NAME ...]

Needs `torch`, `transformers` (5.24 made the committed ones), `safetensors` and `numpy`; it is not part
of the tests. Without a NAME it makes every case of `CASES`. The same files come out each time.

Each case becomes a folder tests/programs/NAME/, and belongs to the program whose name stands before the
first `-` of NAME: `encoder-bert-mean` runs `programs/encoder.rs`.

    config.toml         the config of a `.model` file
    model.safetensors   f32 weights by the names of Hugging Face's files
    case.safetensors    `in.NAME`, what the program is given, and `out.NAME`, what the reference makes of
                        it: f32 or i64. Where a program takes text, `in.input_ids` are its tokens.
    vocab.toml          where a program looks words up: the vocabulary of a `.model` file
    strings.json        fasttext: texts with the ids of the rows that each is made of

What the `out` tensors are:

    encoder     `result`, whatever the tensors of the case make of it
    whisper     `features` of the spectrogram `[mels, frames]`; `encoder` `[T, D]`; `tokens`, the prompt and
                all that is generated greedily, without the end token; `logits` `[S, vocab]` of one pass
                of the decoder over these tokens, before suppression
    fasttext    `values` and `index` of the likeliest labels, `ids` of the rows
    tagger      `values` and `index` of all labels in descending order, `logits` in the order of labels
    vits        `waveform` `[samples]`, `durations` `[S]` in frames

Every parameter and stored buffer is random, since the library's initialisation (norms at 1, biases at 0)
hides whole terms; each is rounded to a multiple of 1/65536, which the `u32` encoding holds exactly.
References are transformers' own on the eager path in f32 on one thread, or for fasttext its published
algorithm in plain Python. Each folder is written only after a second computation, line by line that of the
program, has given the same numbers (`mirror_…`).
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import warnings
import zlib
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)

LIMIT = 420_000  # bytes of one folder
TOLERANCE = 2e-5  # of a mirror, as max|a − b| / max|b|


def steps(x):
    """The nearest multiples of 1/65536."""
    return torch.round(x * 65536) / 65536


def fan_in(name, shape):
    """How many numbers of the input one number of the result is made of."""
    if "upsampler" in name:  # transposed convolutions: [in, out, kernel]
        return shape[0]
    return max(1, int(np.prod(shape[1:])))


def randomise(model, seed, scales=()):
    """Fills every entry of the state dict. `scales`: (part of a name, deviation), the first that fits."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
            own = [scale for part, scale in scales if part in name]
            if own:
                value = own[0] * noise
            elif name.endswith(("norm.weight", "Norm.weight", "norm_1.weight", "norm_2.weight", "layernorm.weight",
                                "layernorm_before.weight", "layernorm_after.weight")) or "original0" in name:
                value = 1 + 0.6 * torch.rand(tensor.shape, generator=generator) - 0.3
            elif name.endswith(".bias") or tensor.dim() == 1:
                value = 0.3 * noise
            elif "embed" in name:
                value = 0.5 * noise
            else:
                # Attention projections a little wider, so that the weights of attention are not flat.
                wide = any(part in name for part in ("q_proj", "k_proj", "query", "key", "q_lin", "k_lin"))
                value = (1.5 if wide else 1.0) * fan_in(name, tensor.shape) ** -0.5 * noise
            tensor.copy_(steps(value))
    return model.eval()


def published(model):
    """The tensors as transformers writes them, f32 by their names in files."""
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        tensors = load_file(Path(scratch) / "model.safetensors")
    for name, value in tensors.items():
        assert torch.equal(steps(value), value), name
    return tensors


def toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float) and value.is_integer() and value >= 1:
        return f"{value:.1f}"
    return repr(value)


def write_config(path, kind, architecture):
    lines = [f'model_type = "{kind}"', "", "[architecture]"]
    lines += [f"{key} = {toml(value)}" for key, value in architecture.items() if value is not None]
    path.write_text("\n".join(lines) + "\n")


def keys(config, *names):
    """These keys of a config, as Hugging Face stores them."""
    stored = config.to_dict()
    return {name: stored[name] for name in names}


def plain(tensors):
    return {k: v.detach().clone().contiguous() for k, v in tensors.items()}


def write(name, out, kind, architecture, tensors, inputs, outputs, files=None):
    """The folder of one case; a line about it."""
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_config(folder / "config.toml", kind, architecture)
    save_file(plain(tensors), folder / "model.safetensors")
    case = {f"in.{k}": v for k, v in inputs.items()} | {f"out.{k}": v for k, v in outputs.items()}
    save_file(plain(case), folder / "case.safetensors",
              metadata={"reference": f"transformers {transformers.__version__}, eager, f32"})
    for file, text in (files or {}).items():
        (folder / file).write_text(text)
    for file in folder.iterdir():
        file.chmod(0o644)
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert size <= LIMIT, f"{folder} takes {size} bytes"
    about = ", ".join(f"{k} {list(v.shape)}" for k, v in outputs.items())
    print(f"{name}: {size} bytes; {about}", flush=True)


def agree(name, what, got, want, tolerance=TOLERANCE):
    """Fails unless the mirror of the program gives the numbers of the reference."""
    assert got.shape == want.shape, f"{name}: {what} is {list(got.shape)}, the reference {list(want.shape)}"
    assert torch.isfinite(want).all() and want.float().std() > 1e-3, f"{name}: {what} says nothing"
    worst = ((got - want).abs().max() / want.abs().max()).item()
    assert worst <= tolerance, f"{name}: {what} of the mirror is off by {worst:.2e}"


class Store:
    """The weight store of programs, over plain tensors."""

    def __init__(self, tensors):
        self.tensors = tensors

    def has(self, name):
        return name in self.tensors or f"{name}.weight" in self.tensors

    def get(self, name):
        return self.tensors[name if name in self.tensors else f"{name}.weight"]

    def bias(self, name):
        return self.tensors.get(f"{name}.bias")

    def linear(self, x, name):
        return F.linear(x, self.get(name), self.bias(name))

    def layernorm(self, x, name, eps):
        return F.layer_norm(x, x.shape[-1:], self.get(name), self.bias(name), eps)

    def conv1d(self, x, name, **how):
        return F.conv1d(x, self.get(name), self.bias(name), **how)


def attention(q, k, v, heads, causal=False):
    """`Tensor::attention` and, of whole texts, `Tensor::causal_attention`."""
    split = lambda x: x.reshape(x.shape[0], heads, -1).transpose(0, 1)
    y = F.scaled_dot_product_attention(split(q)[None], split(k)[None], split(v)[None], is_causal=causal)[0]
    return y.transpose(0, 1).reshape(q.shape[0], -1)


# encoder.rs

ENCODER = dict(vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
               max_position_embeddings=32, type_vocab_size=2, pad_token_id=0)
DISTIL = dict(vocab_size=61, dim=24, n_layers=2, n_heads=3, hidden_dim=40, max_position_embeddings=32,
              pad_token_id=0)
BERT_KEYS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
             "max_position_embeddings", "type_vocab_size", "pad_token_id", "hidden_act", "layer_norm_eps")
DISTIL_KEYS = ("vocab_size", "dim", "n_layers", "n_heads", "hidden_dim", "max_position_embeddings", "pad_token_id",
               "activation")


def mirror_encoder(ids, kind, a, tensors):
    w = Store(tensors)
    distil = kind == "distilbert"
    kinds = ("bert.", "roberta.", "distilbert.")
    base = next((p for p in kinds if w.has(f"{p}embeddings.word_embeddings")), "")
    layers, heads = (a["n_layers"], a["n_heads"]) if distil else (a["num_hidden_layers"], a["num_attention_heads"])
    eps = 1e-12 if distil else a["layer_norm_eps"]
    eps = 1 / eps if eps >= 1 else eps
    act = {"gelu": F.gelu, "relu": F.relu, "gelu_new": lambda x: F.gelu(x, approximate="tanh")}
    own = act[a["activation"] if distil else a["hidden_act"]]
    first = a["pad_token_id"] + 1 if kind in ("roberta", "xlm-roberta") else 0
    part = lambda n: f"{base}embeddings.{n}"
    h = w.get(part("word_embeddings"))[ids] + w.get(part("position_embeddings"))[torch.arange(len(ids)) + first]
    if w.has(part("token_type_embeddings")):
        h = h + w.get(part("token_type_embeddings"))[0]
    h = w.layernorm(h, part("LayerNorm"), eps)
    for i in range(layers):
        layer = f"{base}transformer.layer.{i}." if distil else f"{base}encoder.layer.{i}."
        of = lambda bert, other: layer + (other if distil else bert)
        q, k, v = (w.linear(h, of(f"attention.self.{n}", f"attention.{n[0]}_lin")) for n in ("query", "key", "value"))
        mixed = w.linear(attention(q, k, v, heads), of("attention.output.dense", "attention.out_lin"))
        h = w.layernorm(h + mixed, of("attention.output.LayerNorm", "sa_layer_norm"), eps)
        wide = own(w.linear(h, of("intermediate.dense", "ffn.lin1")))
        h = w.layernorm(h + w.linear(wide, of("output.dense", "ffn.lin2")), of("output.LayerNorm", "output_layer_norm"),
                        eps)
    for dense, norm, bias, f in (
            ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias", own),
            ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", F.gelu),
            ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias", own)):
        if w.has(dense):
            x = w.layernorm(f(w.linear(h, dense)), norm, eps)
            return w.linear(x, part("word_embeddings")) + w.get(bias)
    if w.has("pre_classifier"):
        return w.linear(F.relu(w.linear(h[0], "pre_classifier")), "classifier")
    if w.has("classifier.dense"):
        return w.linear(torch.tanh(w.linear(h[0], "classifier.dense")), "classifier.out_proj")
    if w.has("classifier") and w.has(f"{base}pooler.dense"):
        return w.linear(torch.tanh(w.linear(h[0], f"{base}pooler.dense")), "classifier")
    if w.has("classifier"):
        return w.linear(h, "classifier")
    mean = h.mean(0)
    return mean / mean.norm().clamp_min(1e-12) if a.get("normalize_embeddings") else mean


def encoder(kind, head, seq=11, stored_eps=None, normalize=None, **changes):
    """`head`: the class of transformers without the type; `stored_eps`: ε as config.toml says it."""
    def make(name, out, seed):
        distil = kind == "distilbert"
        config = transformers.AutoConfig.for_model(kind, **{**(DISTIL if distil else ENCODER), **changes})
        config._attn_implementation = "eager"
        model = randomise(getattr(transformers, f"AutoModel{head}").from_config(config), seed)
        ids = torch.randint(3, config.vocab_size, (seq,), generator=torch.Generator().manual_seed(seed))
        architecture = keys(config, *(DISTIL_KEYS if distil else BERT_KEYS))
        if stored_eps is not None:
            architecture["layer_norm_eps"] = stored_eps
        architecture["normalize_embeddings"] = normalize
        with torch.no_grad():
            result = model(input_ids=ids[None])
            if head == "":
                want = result.last_hidden_state[0].mean(0)
                want = F.normalize(want, dim=0) if normalize else want
            else:
                want = result.logits[0]
            tensors = published(model)
            if head == "" and not distil:
                assert "pooler.dense.weight" in tensors  # there, and without a use
            agree(name, "result", mirror_encoder(ids, kind, architecture, tensors), want)
        write(name, out, kind, architecture, tensors, {"input_ids": ids}, {"result": want})
    return make


CASES = {
    "encoder-bert-mean": encoder("bert", "", stored_eps=1_000_000_000_000, normalize=True, hidden_act="gelu_new"),
    "encoder-bert-classes": encoder("bert", "ForSequenceClassification", num_labels=5),
    "encoder-bert-tags": encoder("bert", "ForTokenClassification", num_labels=7, layer_norm_eps=1e-5),
    "encoder-bert-lm": encoder("bert", "ForMaskedLM", hidden_act="relu"),
    "encoder-roberta-lm": encoder("roberta", "ForMaskedLM", hidden_act="relu", pad_token_id=1, layer_norm_eps=1e-5,
                                  type_vocab_size=1),
    "encoder-roberta-classes": encoder("roberta", "ForSequenceClassification", num_labels=3, pad_token_id=1),
    "encoder-xlm-roberta-mean": encoder("xlm-roberta", "", pad_token_id=2, seq=7),
    "encoder-distilbert-classes": encoder("distilbert", "ForSequenceClassification", num_labels=4),
    "encoder-distilbert-lm": encoder("distilbert", "ForMaskedLM", activation="relu"),
    "encoder-distilbert-tags": encoder("distilbert", "ForTokenClassification", num_labels=6),
}


def main():
    here = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=here / "tests" / "programs")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if n not in CASES]
    if unknown:
        sys.exit(f"no such case: {', '.join(unknown)}; there are: {', '.join(CASES)}")
    for name in arguments.names or CASES:
        torch.manual_seed(0)
        CASES[name](name, arguments.out, zlib.crc32(name.encode()))


if __name__ == "__main__":
    main()
