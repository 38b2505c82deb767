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
    strings.json        fasttext: texts with the ids of the rows that each is made of; `text` is the one whose
                        labels are in case.safetensors

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
algorithm in plain Python, which gives the probabilities of the library fasttext 0.9.2 on such texts. Each folder is written only after a second computation, line by line that of the
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


# whisper.rs

WHISPER = dict(
    vocab_size=53, num_mel_bins=80, d_model=20, encoder_layers=2, decoder_layers=3, encoder_attention_heads=2,
    decoder_attention_heads=4, encoder_ffn_dim=28, decoder_ffn_dim=36, max_source_positions=50,
    max_target_positions=24, pad_token_id=1, bos_token_id=1, eos_token_id=1, decoder_start_token_id=2)
WHISPER_KEYS = (
    "vocab_size", "num_mel_bins", "d_model", "encoder_layers", "decoder_layers", "encoder_attention_heads",
    "decoder_attention_heads", "encoder_ffn_dim", "decoder_ffn_dim", "max_source_positions", "max_target_positions",
    "pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "activation_function")


def sound(length, generator):
    """Two tones that rise and fall, a pause, and noise."""
    t = torch.arange(length) / 16000
    tones = 0.4 * torch.sin(2 * torch.pi * (300 + 900 * t) * t) + 0.2 * torch.sin(2 * torch.pi * (2500 - 700 * t) * t)
    pause = ((t * 7).long() % 3 != 1).float()
    return (tones * pause + 0.02 * torch.randn(length, generator=generator)).float()


def mirror_mel(samples, length, extractor):
    x = F.pad(samples, (0, length))[:length]
    spectrum = torch.stft(x, 400, 160, window=torch.hann_window(400), return_complex=True)[:, :-1].abs() ** 2
    mel = torch.from_numpy(extractor.mel_filters.T).float() @ spectrum
    log = mel.clamp_min(1e-10).log10()
    return (log.maximum(log.max() - 8) + 4) / 4


def mirror_whisper(features, tokens, a, tensors):
    """Encoder output and logits `[S, vocab]`."""
    w = Store(tensors)
    norm = lambda x, name: w.layernorm(x, name, 1e-5)
    feed_forward = lambda h, layer: w.linear(
        F.gelu(w.linear(norm(h, f"{layer}.final_layer_norm"), f"{layer}.fc1")), f"{layer}.fc2")
    x = F.gelu(w.conv1d(features[None], "model.encoder.conv1", padding=1))
    x = F.gelu(w.conv1d(x, "model.encoder.conv2", stride=2, padding=1))
    h = x[0].T + w.get("model.encoder.embed_positions")
    three = lambda x, part: [w.linear(x, f"{part}.{n}_proj") for n in "qkv"]
    for i in range(a["encoder_layers"]):
        layer = f"model.encoder.layers.{i}"
        mixed = attention(*three(norm(h, f"{layer}.self_attn_layer_norm"), f"{layer}.self_attn"),
                          a["encoder_attention_heads"])
        h = h + w.linear(mixed, f"{layer}.self_attn.out_proj")
        h = h + feed_forward(h, layer)
    memory = norm(h, "model.encoder.layer_norm")
    h = w.get("model.decoder.embed_tokens")[tokens] + w.get("model.decoder.embed_positions")[: len(tokens)]
    for i in range(a["decoder_layers"]):
        layer, heads = f"model.decoder.layers.{i}", a["decoder_attention_heads"]
        mixed = attention(*three(norm(h, f"{layer}.self_attn_layer_norm"), f"{layer}.self_attn"), heads, causal=True)
        h = h + w.linear(mixed, f"{layer}.self_attn.out_proj")
        part = f"{layer}.encoder_attn"
        q = w.linear(norm(h, f"{part}_layer_norm"), f"{part}.q_proj")
        heard = attention(q, w.linear(memory, f"{part}.k_proj"), w.linear(memory, f"{part}.v_proj"), heads)
        h = h + w.linear(heard, f"{part}.out_proj")
        h = h + feed_forward(h, layer)
    h = norm(h, "model.decoder.layer_norm")
    return memory, w.linear(h, "proj_out" if w.has("proj_out") else "model.decoder.embed_tokens")


def greedy(logits_of, prompt, a, never, not_first):
    """The loop of the program. Tokens, and the least distance between the two best logits."""
    tokens, margin = list(prompt), float("inf")
    while True:
        logits = logits_of(torch.tensor(tokens))[-1].clone()
        logits[never] = -float("inf")
        if len(tokens) == len(prompt):
            logits[not_first] = -float("inf")
        best = logits.topk(2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        if best.indices[0] == a["eos_token_id"]:
            return tokens, margin, True
        tokens.append(best.indices[0].item())
        if len(tokens) >= a["max_target_positions"]:
            return tokens, margin, False


def whisper(length, ends, forced=(), **changes):
    """`length` of the sound in samples; `ends`: whether the end token comes before the longest text;
    `forced`: language, task, no timestamps. Takes the first random model that says several tokens without a
    near tie. Suppressed are tokens that it would say, and the end token is one that it comes to say."""
    def make(name, out, seed):
        extractor = transformers.WhisperFeatureExtractor(feature_size=80, chunk_length=1)
        for seed in range(seed, seed + 300):
            generator = torch.Generator().manual_seed(seed)
            config = transformers.WhisperConfig(**{**WHISPER, **changes})
            config._attn_implementation = "eager"
            model = randomise(transformers.WhisperForConditionalGeneration(config), seed,
                              scales=(("decoder.embed_positions", 0.9), ("encoder_attn.out_proj.weight", 0.5)))
            samples = sound(length, generator)
            architecture = keys(config, *WHISPER_KEYS)
            tensors = model.state_dict()
            n = 2 * config.max_source_positions * 160
            with torch.no_grad():
                features = mirror_mel(samples, n, extractor)
                prompt = [config.decoder_start_token_id, *forced]
                of = lambda tokens: mirror_whisper(features, tokens, architecture, tensors)[1]
                architecture["eos_token_id"] = None
                free = greedy(of, prompt, architecture, [], [])[0][len(prompt):]
                never, not_first = [free[1], 3, 51], [free[0], 2]
                tokens, margin, _ = greedy(of, prompt, architecture, never, not_first)
            fresh = tokens[len(prompt):]
            late = [t for i, t in enumerate(fresh) if i >= 7 and t not in fresh[:i] + prompt]
            if margin < 0.02 or len(set(fresh)) < 6 or free[1] == free[0] or ends and not late:
                continue
            end = late[0] if ends else next(t for t in range(5, 50) if t not in tokens)
            tokens = tokens[: tokens.index(end)] if ends else tokens
            for key in ("eos_token_id", "pad_token_id", "bos_token_id"):
                setattr(config, key, end)
                setattr(model.generation_config, key, end)
            not_first = [*not_first, end]
            architecture = keys(config, *WHISPER_KEYS)
            with torch.no_grad():
                assert greedy(of, prompt, architecture, never, not_first)[0] == tokens
            break
        else:
            sys.exit(f"{name}: no good model")
        tensors = published(model)
        with torch.no_grad():
            want = torch.from_numpy(extractor(samples.numpy(), sampling_rate=16000).input_features[0]).float()
            agree(name, "features", features, want)
            generation = model.generation_config
            generation.suppress_tokens = list(never)
            generation.begin_suppress_tokens = list(not_first)
            generation.max_length = config.max_target_positions
            how = {}
            if forced:
                generation.is_multilingual = True
                generation.lang_to_id = {"<|en|>": 7, "<|de|>": forced[0]}
                generation.task_to_id = {"transcribe": forced[1], "translate": 11}
                generation.no_timestamps_token_id = forced[2]
                how = dict(language="de", task="transcribe")
            else:
                generation.is_multilingual = False
            full = model.generate(want[None], generation_config=generation, num_beams=1, do_sample=False,
                                  return_dict_in_generate=False, **how)[0].tolist()
            # The library gives the text with or without the prompt and the end token.
            stripped = [t for t in full if t != end]
            assert tokens in (stripped, prompt + stripped), (full, tokens)
            reference = model(input_features=want[None], decoder_input_ids=torch.tensor([tokens]))
            memory, logits = mirror_whisper(features, torch.tensor(tokens), architecture, tensors)
            agree(name, "encoder", memory, reference.encoder_last_hidden_state[0])
            agree(name, "logits", logits, reference.logits[0])
        if forced:
            architecture["forced_decoder_ids"] = [[i + 1, token] for i, token in enumerate(forced)]
        architecture["suppress_tokens"] = list(never)
        architecture["begin_suppress_tokens"] = list(not_first)
        write(name, out, "whisper", architecture, tensors, {"samples": samples}, {
            "features": want, "encoder": reference.encoder_last_hidden_state[0],
            "tokens": torch.tensor(tokens), "logits": reference.logits[0]})
    return make


# fasttext.rs

END = "</s>"


def ft_hash(data):
    h = 2166136261
    for byte in data:
        h = ((h ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) & 0xFFFFFFFF
    return h


def ft_ngrams(word, minn, maxn):
    """Dictionary::computeSubwords, over bytes as it is there."""
    data, found = word.encode(), []
    follows = lambda i: i < len(data) and data[i] & 0xC0 == 0x80
    for i in range(len(data)):
        if follows(i):
            continue
        j, n = i, 1
        while j < len(data) and n <= maxn:
            j += 1
            while follows(j):
                j += 1
            if n >= minn and not (n == 1 and (i == 0 or j == len(data))):
                found.append(ft_hash(data[i:j]))
            n += 1
    return found


def ft_words(text):
    """Dictionary::readWord until the end of the line."""
    words, word = [], bytearray()
    for byte in text.encode() + b"\n":
        if byte not in b" \n\r\t\v\f\0":
            word.append(byte)
            continue
        if word:
            words.append(word.decode())
            word = bytearray()
        if byte == 0x0A:
            return words + [END]
    return words


def ft_rows(text, vocabulary, a):
    """Dictionary::getLine."""
    ids, hashes, count = [], [], len(vocabulary)
    for word in ft_words(text):
        known = vocabulary.get(word)
        if known is None and word.startswith("__label__"):
            continue
        if known is not None:
            ids.append(known)
        if word != END:
            ids += [count + h % a["bucket"] for h in ft_ngrams(f"<{word}>", a["minn"], a["maxn"])]
        h = ft_hash(word.encode())
        hashes.append(h - (1 << 32) if h >> 31 else h)
        if word == END:
            break
    for i, first in enumerate(hashes):
        h = first % (1 << 64)
        for other in hashes[i + 1 : i + a["wordNgrams"]]:
            h = (h * 116049371 + other) % (1 << 64)
            ids.append(count + h % a["bucket"])
    return ids


SCRIPTS = (
    "the quick brown fox jumps over lazy dogs and it's 42 o'clock 3.14 e-mail x",
    "naïve café Straße Łódź ångström ČESKÝ İstanbul ﬁne œuvre",
    "Съешь ещё этих мягких французских булок да выпей чаю",
    "Ξεσκεπάζω την ψυχοφθόρα σας βδελυγμία",
    "איזה כיף לכם نص عربي قصير لِلاِختبار فارسی می‌خواهم",
    "यह एक छोटा वाक्य है தமிழ் மொழி বাংলা ভাষা ไทยภาษา ភាសាខ្មែរ",
    "吾輩は猫である 名前はまだ無い 今天天气很好 한국어 문장입니다",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 😀 ❤️ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "e\u0301 a\u0308\u0323 Z\u0351\u036b\u0343 n\u0303o \u0301 q\u0307\u0323",
    "<s> </w> <> < > __label__a __label__ _label_ \u00a0x\u00a0 \u2003 \ufeff \u200b \x01\x7f",
)


def ft_strings(count, chooser):
    """Texts of one script or of several, empty and long ones, odd spaces, single characters."""
    texts = ["", " ", "\t \r", END, f"a {END} b", "a", "é", "中", "😀", "\u0301", "\0", "a\0b", "\x0b\x0c x", "__label__x",
             "  a  b ", "<", ">", "<>", "ab" * 90, "語" * 60, "👍🏽" * 30, "word " * 40, "a\u00a0b", "x\u2028y z"]
    words = [s.split(" ") for s in SCRIPTS]
    while len(texts) < count:
        kind = chooser.random()
        pool = chooser.choice(words) if kind < 0.8 else sum(words, [])
        few = [chooser.choice(pool) for _ in range(chooser.choice((1, 1, 2, 2, 3, 5)))]
        text = chooser.choice((" ", " ", " ", "  ", "\t", " \r ", "\u00a0")).join(few)
        if kind > 0.93:  # characters in any order, so that marks lose their letters
            text = "".join(chooser.sample(text, len(text)))
        texts.append(text)
    return texts


def fasttext(**a):
    def make(name, out, seed):
        chooser = random.Random(seed)
        texts = ft_strings(1000, chooser)
        counted = {}
        for text in texts:
            for word in ft_words(text):
                if not word.startswith("__label__") and word.isprintable():
                    counted[word] = counted.get(word, 0) + 1
        common = sorted(counted, key=lambda word: (-counted[word], word))[:83]
        vocabulary = {word: i for i, word in enumerate(common)}
        assert END in vocabulary
        generator = torch.Generator().manual_seed(seed)
        rows = steps(torch.randn(len(vocabulary) + a["bucket"], a["dim"], generator=generator))
        labels = steps(torch.randn(7, a["dim"], generator=generator) * 2)
        text = "Naïve foxes 🦊 jump over café Straße quick-brown мягких 今天"
        ids = torch.tensor(ft_rows(text, vocabulary, a))
        scores = (labels @ rows[ids].mean(0)).softmax(0)
        values, index = scores.topk(a["top_k"])
        lists = [ft_rows(t, vocabulary, a) for t in texts]
        head = {"text": text, **{k: a[k] for k in ("minn", "maxn", "bucket", "wordNgrams")}}
        lines = [json.dumps(head, ensure_ascii=True)[:-1] + ', "strings": [']
        lines.append(",\n".join(json.dumps([t, l], ensure_ascii=True, separators=(",", ":")) for t, l in zip(texts, lists)))
        vocab = "[tokens]\n" + "".join(f"{i} = {json.dumps(word, ensure_ascii=False)}\n" for word, i in vocabulary.items())
        write(name, out, "fasttext", a, {"input.weight": rows, "output.weight": labels}, {},
              {"values": values, "index": index, "ids": ids},
              files={"strings.json": "\n".join(lines) + "\n]}\n", "vocab.toml": vocab})
    return make


# tagger.rs

TAGGER = dict(hidden_size=28, num_hidden_layers=3, num_attention_heads=4, intermediate_size=44, patch_size=4,
              frequency_stride=3, time_stride=2, max_length=21, num_mel_bins=15, num_labels=6, layer_norm_eps=1e-6)


def mirror_tagger(features, a, tensors):
    w, base, eps = Store(tensors), "audio_spectrogram_transformer", a["layer_norm_eps"]
    part = lambda n: f"{base}.embeddings.{n}"
    x = features.reshape(1, 1, a["max_length"], a["num_mel_bins"]).transpose(2, 3)
    x = F.conv2d(x, w.get(part("patch_embeddings.projection")), w.bias(part("patch_embeddings.projection")),
                 stride=(a["frequency_stride"], a["time_stride"]))
    x = x.flatten(2)[0].T
    h = torch.cat([w.get(part("cls_token"))[0], w.get(part("distillation_token"))[0], x])
    h = h + w.get(part("position_embeddings"))[0]
    for i in range(a["num_hidden_layers"]):
        layer = f"{base}.encoder.layer.{i}"
        x = w.layernorm(h, f"{layer}.layernorm_before", eps)
        mixed = attention(*(w.linear(x, f"{layer}.attention.attention.{n}") for n in ("query", "key", "value")),
                          a["num_attention_heads"])
        h = h + w.linear(mixed, f"{layer}.attention.output.dense")
        x = w.layernorm(h, f"{layer}.layernorm_after", eps)
        h = h + w.linear(F.gelu(w.linear(x, f"{layer}.intermediate.dense")), f"{layer}.output.dense")
    h = w.layernorm(h, f"{base}.layernorm", eps)
    return w.linear(w.layernorm((h[0] + h[1]) * 0.5, "classifier.layernorm", eps), "classifier.dense")


def tagger(**changes):
    def make(name, out, seed):
        config = transformers.ASTConfig(**{**TAGGER, **changes})
        config._attn_implementation = "eager"
        model = randomise(transformers.ASTForAudioClassification(config), seed,
                          scales=(("token", 0.7), ("position", 0.5)))
        features = torch.randn(config.max_length, config.num_mel_bins, generator=torch.Generator().manual_seed(seed))
        architecture = keys(config, "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                            "patch_size", "frequency_stride", "time_stride", "max_length", "num_mel_bins",
                            "hidden_act", "layer_norm_eps")
        tensors = published(model)
        with torch.no_grad():
            logits = model(input_values=features[None]).logits[0]
            agree(name, "logits", mirror_tagger(features, architecture, tensors), logits)
        architecture["top_k"] = config.num_labels
        values, index = logits.sigmoid().topk(config.num_labels)
        write(name, out, "audio-spectrogram-transformer", architecture, tensors, {"features": features},
              {"values": values, "index": index, "logits": logits})
    return make


# vits.rs

VITS = dict(
    vocab_size=23, hidden_size=18, num_hidden_layers=2, num_attention_heads=3, window_size=2, ffn_dim=26,
    ffn_kernel_size=3, flow_size=10, spectrogram_bins=5, layer_norm_eps=1e-5, noise_scale=0.0, speaking_rate=0.8,
    use_stochastic_duration_prediction=False, duration_predictor_kernel_size=5, duration_predictor_filter_channels=14,
    prior_encoder_num_flows=3, prior_encoder_num_wavenet_layers=2, posterior_encoder_num_wavenet_layers=1,
    wavenet_kernel_size=3, wavenet_dilation_rate=2, upsample_initial_channel=24, upsample_rates=[3, 2],
    upsample_kernel_sizes=[7, 4], resblock_kernel_sizes=[3, 5, 7], resblock_dilation_sizes=[[1, 3], [2, 1], [1, 2]],
    leaky_relu_slope=0.15)
VITS_KEYS = tuple(key for key in VITS if key not in ("spectrogram_bins", "posterior_encoder_num_wavenet_layers"))


def mirror_vits(ids, a, tensors):
    """Samples, and durations before they are rounded up."""
    w, heads = Store(tensors), a["num_attention_heads"]
    size, window, eps = a["hidden_size"] // heads, a["window_size"], a["layer_norm_eps"]
    conv = lambda x, name: w.conv1d(x, name, padding=w.get(name).shape[-1] // 2)
    h = w.get("text_encoder.embed_tokens")[ids] * a["hidden_size"] ** 0.5
    place = torch.arange(len(ids))
    distance = (place[None] - place[:, None])[:, :, None]
    near = (distance == torch.arange(2 * window + 1) - window).float()
    for i in range(a["num_hidden_layers"]):
        layer = f"text_encoder.encoder.layers.{i}"
        part = f"{layer}.attention"
        q, k, v = (w.linear(h, f"{part}.{n}_proj").reshape(-1, heads, size) for n in "qkv")
        q = q / size ** 0.5
        by_head = lambda x: x.permute(1, 0, 2)
        of_distance = q @ w.get(f"{part}.emb_rel_k")[0].T @ near.transpose(1, 2)
        weights = (by_head(q) @ by_head(k).transpose(1, 2) + by_head(of_distance)).softmax(-1)
        mixed = by_head(weights @ by_head(v)) + by_head(weights) @ near @ w.get(f"{part}.emb_rel_v")[0]
        h = w.layernorm(h + w.linear(mixed.reshape(len(ids), -1), f"{part}.out_proj"), f"{layer}.layer_norm", eps)
        x = F.relu(conv(h.T[None], f"{layer}.feed_forward.conv_1"))
        x = conv(x, f"{layer}.feed_forward.conv_2")
        h = w.layernorm(h + x[0].T, f"{layer}.final_layer_norm", eps)
    h = h.T[None]
    mean, _ = conv(h, "text_encoder.project").chunk(2, 1)
    x = h
    for i in (1, 2):
        y = F.relu(conv(x, f"duration_predictor.conv_{i}"))
        x = w.layernorm(y.transpose(1, 2), f"duration_predictor.norm_{i}", eps).transpose(1, 2)
    exact = conv(x, "duration_predictor.proj").reshape(-1).exp() / a["speaking_rate"]
    z = mean.repeat_interleave(exact.ceil().long(), 2)

    def normed(x, name, padding, dilation):
        old = w.has(f"{name}.weight_v")
        length, v = (w.get(f"{name}.{n}") for n in (("weight_g", "weight_v") if old else (
            "parametrizations.weight.original0", "parametrizations.weight.original1")))
        kernel = v * (length / (v * v).sum((1, 2), keepdim=True).sqrt())
        return F.conv1d(x, kernel, w.bias(name), padding=padding, dilation=dilation)

    for i in reversed(range(a["prior_encoder_num_flows"])):
        first, second = z.flip(1).chunk(2, 1)
        x, name, results = conv(first, f"flow.flows.{i}.conv_pre"), f"flow.flows.{i}.wavenet", []
        layers = a["prior_encoder_num_wavenet_layers"]
        for j in range(layers):
            dilation = a["wavenet_dilation_rate"] ** j
            value, gate = normed(x, f"{name}.in_layers.{j}", dilation * (a["wavenet_kernel_size"] - 1) // 2,
                                 dilation).chunk(2, 1)
            y = normed(value.tanh() * gate.sigmoid(), f"{name}.res_skip_layers.{j}", 0, 1)
            if j + 1 < layers:
                add, y = y.chunk(2, 1)
                x = x + add
            results.append(y)
        z = torch.cat([first, second - conv(sum(results), f"flow.flows.{i}.conv_post")], 1)

    slope, kinds = a["leaky_relu_slope"], len(a["resblock_kernel_sizes"])
    x = conv(z, "decoder.conv_pre")
    for i, rate in enumerate(a["upsample_rates"]):
        k, name = a["upsample_kernel_sizes"][i], f"decoder.upsampler.{i}"
        long = F.conv_transpose1d(F.leaky_relu(x, slope), w.get(name), w.bias(name), rate, (k - rate) // 2)
        blocks = []
        for j in range(kinds):
            x, k = long, a["resblock_kernel_sizes"][j]
            for n, dilation in enumerate(a["resblock_dilation_sizes"][j]):
                name = f"decoder.resblocks.{i * kinds + j}"
                y = w.conv1d(F.leaky_relu(x, slope), f"{name}.convs1.{n}", padding=dilation * (k - 1) // 2,
                             dilation=dilation)
                x = x + conv(F.leaky_relu(y, slope), f"{name}.convs2.{n}")
            blocks.append(x)
        x = sum(blocks) / kinds
    return conv(F.leaky_relu(x, 0.01), "decoder.conv_post").tanh().reshape(-1), exact


def vits(seq, older=False, **changes):
    """`older`: lengths and directions of kernels under the names that older files give them."""
    def make(name, out, seed):
        for seed in range(seed, seed + 100):
            config = transformers.VitsConfig(**{**VITS, **changes})
            config._attn_implementation = "eager"
            model = randomise(transformers.VitsModel(config), seed, scales=(
                ("emb_rel", 1.0), ("duration_predictor.proj.bias", 0.0), ("conv_post.weight", 0.05)))
            ids = torch.randint(1, config.vocab_size, (seq,), generator=torch.Generator().manual_seed(seed))
            tensors = {k: v for k, v in published(model).items() if not k.startswith("posterior_encoder.")}
            if older:
                for new, old in (("original0", "weight_g"), ("original1", "weight_v")):
                    tensors = {k.replace(f"parametrizations.weight.{new}", old): v for k, v in tensors.items()}
            architecture = keys(config, *VITS_KEYS)
            with torch.no_grad():
                waveform, exact = mirror_vits(ids, architecture, tensors)
            # No duration near a whole number, where rounding decides; long ones and short ones.
            off = (exact - exact.round()).abs().min().item()
            lengths = exact.ceil()
            if off > 0.01 and 30 < lengths.sum() < 90 and len(lengths.unique()) >= min(3, seq - 1):
                break
        else:
            sys.exit(f"{name}: no good model")
        with torch.no_grad():
            want = model(input_ids=ids[None]).waveform[0]
        agree(name, "waveform", waveform, want)
        write(name, out, "vits", architecture, tensors, {"ids": ids}, {"waveform": want, "durations": lengths})
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
    "whisper-english": whisper(17_000, ends=True),
    "whisper-forced": whisper(11_213, ends=False, forced=(8, 10, 52), encoder_layers=1, decoder_layers=2),
    "fasttext": fasttext(dim=10, minn=2, maxn=5, bucket=997, wordNgrams=2, loss="softmax", top_k=5),
    "tagger": tagger(),
    "vits": vits(9),
    "vits-older": vits(3, older=True, window_size=4, hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
                       prior_encoder_num_flows=2, prior_encoder_num_wavenet_layers=3, speaking_rate=0.2),
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
