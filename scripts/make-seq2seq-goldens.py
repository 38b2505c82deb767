#!/usr/bin/env python3
"""Makes the goldens of encoder-decoders: tiny random models with reference logits.

    python scripts/make-seq2seq-goldens.py [--out tests/goldens-seq2seq] [NAME ...]

Needs what `make-goldens.py` needs, whose helpers it uses. Each case becomes a Hugging Face folder without a
tokenizer; beside its files lies `golden.safetensors`:

    input_ids           i64 [T]          the source
    decoder_input_ids   i64 [S]          the target so far
    logits              f32 [S, vocab]   of one forward pass
    generated           i64 [N]          greedy tokens that the library generates from the source, with those it begins with
    beams.P             i64 [N]          the same by a search with three beams and the length penalty P

A case with `rules` has them in `generation_config.json`, and for each of some more sources:

    source.I            i64 [T]
    greedy.I            i64 [N]          what the library generates by these rules without beams
    search.I            i64 [N]          what it generates by all of its settings

Each rule must change at least one of these texts.

As there, every parameter and buffer is random, the folder must reload to the same logits, and where a case names a
switch (`without`), the logits without it must differ.
"""

import importlib.util
import json
import shutil
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("goldens", HERE / "make-goldens.py")
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

import torch  # noqa: E402
from transformers import AutoConfig, AutoModelForSeq2SeqLM  # noqa: E402

VOCAB = 96
ENDS = list(range(4, 24))
MORE_ENDS = list(range(4, 30))
T5 = dict(
    vocab_size=VOCAB, d_model=32, d_kv=12, d_ff=48, num_layers=2, num_heads=3,
    relative_attention_num_buckets=8, relative_attention_max_distance=20,
    pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
)
BART = dict(
    vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64,
    pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None,
)


# Rules of files in use, small.
SUMMARY = dict(
    num_beams=3, length_penalty=2.0, early_stopping=True, min_length=11, max_length=17, no_repeat_ngram_size=2,
    forced_bos_token_id=0, forced_eos_token_id=2,
)
TRANSLATION = dict(
    num_beams=4, max_length=14, bad_words_ids=[[95], [49, 49], [7]], repetition_penalty=1.3, min_new_tokens=5,
    suppress_tokens=[77, 65], begin_suppress_tokens=[44], length_penalty=-2.0,
)
SOURCES = 12


def case(kind, without=None, base=None, rules=None, **config):
    return dict(kind=kind, without=without, rules=rules, embed=0.5, sharp=0.0, config={**(base or {}), **config})


CASES = {
    "t5-plain": case("t5", base=T5, without=dict(relative_attention_max_distance=60)),
    "t5-untied": case(
        "t5", base=T5, tie_word_embeddings=False, feed_forward_proj="gated-gelu", num_layers=3, num_decoder_layers=2,
        without=dict(dense_act_fn="relu")),
    "mt5-plain": case("mt5", base=T5, tie_word_embeddings=False, without=dict(layer_norm_epsilon=0.5)),
    "bart-plain": case("bart", base=BART, without=dict(activation_function="relu")),
    "bart-scaled": case(
        "bart", base=BART, scale_embedding=True, encoder_layers=3, decoder_layers=2, decoder_attention_heads=2,
        decoder_ffn_dim=40, activation_function="gelu_new", forced_bos_token_id=0, without=dict(scale_embedding=False)),
    "mbart-plain": case("mbart", base=BART, scale_embedding=True, without=dict(scale_embedding=False)),
    "marian-plain": case(
        "marian", base=BART, pad_token_id=95, decoder_start_token_id=95, activation_function="swish",
        scale_embedding=True, without=dict(scale_embedding=False)),
    "bart-summary": case("bart", base=BART, rules=SUMMARY),
    "marian-translation": case(
        "marian", base=BART, pad_token_id=95, decoder_start_token_id=95, activation_function="swish",
        scale_embedding=True, rules=TRANSLATION),
    "m2m_100-plain": case("m2m_100", base=BART, without=dict(activation_function="gelu")),
}


def load(folder):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


@torch.no_grad()
def forward(model, tensors):
    out = model(input_ids=tensors["input_ids"][None], decoder_input_ids=tensors["decoder_input_ids"][None], use_cache=False)
    return out.logits[0].to(torch.float32)


@torch.no_grad()
def generate(model, tensors, **how):
    return model.generate(input_ids=tensors["input_ids"][None], do_sample=False, max_new_tokens=12, **how)[0]


@torch.no_grad()
def ruled(folder, sources, rules, **how):
    """The texts that a folder with these rules generates."""
    settings = dict(eos_token_id=MORE_ENDS, **{k: goldens.read(folder)[k] for k in ("pad_token_id", "decoder_start_token_id")})
    (folder / "generation_config.json").write_text(json.dumps({**settings, **rules}, indent=2) + "\n")
    model = load(folder)
    return [model.generate(input_ids=source[None], do_sample=False, **how)[0] for source in sources]


def search(folder, tensors, rules, generator, top):
    """Adds what the rules give, and checks that each matters."""
    sources = [torch.randint(3, top, (12 + 2 * i,), generator=generator) for i in range(SOURCES)]

    def texts(rules):
        return ruled(folder, sources, rules, num_beams=1) + ruled(folder, sources, rules)

    missed = []
    for key in rules:
        less = {k: v for k, v in rules.items() if k != key}
        if key == "max_length":
            less["max_length"] = 40
        pairs = zip(texts(less), texts(rules))
        changed = sum(not torch.equal(a, b) for a, b in pairs)
        print(f"  {key}: {changed} texts differ without it", flush=True)
        missed += [key] if not changed else []
    assert not missed, missed
    found = texts(rules)
    for i, source in enumerate(sources):
        tensors[f"source.{i}"], tensors[f"greedy.{i}"], tensors[f"search.{i}"] = source, found[i], found[SOURCES + i]


def make(name, spec, out):
    seed = zlib.crc32(name.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(spec["kind"], **spec["config"])
    config._attn_implementation = "eager"
    model = AutoModelForSeq2SeqLM.from_config(config).to(torch.float32).eval()
    with torch.no_grad():
        goldens.overwrite(model, generator, spec, None)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    # Several ends, so that some texts end early.
    goldens.write(folder, {**goldens.read(folder), "eos_token_id": MORE_ENDS if spec["rules"] else ENDS})
    top = min(VOCAB, spec["config"].get("decoder_vocab_size", VOCAB)) - 2
    tensors = {
        "input_ids": torch.randint(3, top, (30,), generator=generator),
        "decoder_input_ids": torch.randint(3, top, (24,), generator=generator),
    }
    tensors["logits"] = forward(load(folder), tensors)
    if spec["kind"] != "marian":  # whose sines are overwritten above, and computed again on loading
        worst = (forward(model, tensors) - tensors["logits"]).abs().max().item()
        assert worst == 0.0, f"{name}: saving changed the logits by {worst}"
    tensors["generated"] = generate(load(folder), tensors, num_beams=1)
    for penalty in (1.0, -0.5):
        tensors[f"beams.{penalty}"] = generate(load(folder), tensors, num_beams=3, length_penalty=penalty)
    if spec["rules"]:
        search(folder, tensors, spec["rules"], generator, top)
    note = ""
    if spec["without"]:
        saved = goldens.read(folder)
        goldens.write(folder, {**saved, **spec["without"]})
        change = (forward(load(folder), tensors) - tensors["logits"]).abs().max().item()
        goldens.write(folder, saved)
        assert change > 1e-2, f"{name}: the switch changes the logits by {change} only"
        note = f", without the switch {change:.3f}"
    size = goldens.store(folder, tensors)
    print(f"{name}: {size} bytes, logits ±{tensors['logits'].std().item():.2f}{note}", flush=True)


if __name__ == "__main__":
    goldens.run(__doc__, "goldens-seq2seq", CASES, make)
