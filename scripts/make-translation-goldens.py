#!/usr/bin/env python3
"""Makes the models on which translation is tested from text to text.

    python scripts/make-translation-goldens.py [--out tests/translation] [NAME ...]

Needs what `make-seq2seq-goldens.py` and `make-tokenizer-files.py` need, whose helpers it uses. Each case becomes a
Hugging Face folder of a tiny random model with a tokenizer, and `expected.json`, a list of what `generate` of
`transformers` makes of texts:

    source, target   the languages, null for a model without
    text             the text
    input_ids        its ids
    greedy, search   ids and text that are generated, without those that every text begins with: by the likeliest token
                     each time, and by three beams
"""

import importlib.util
import json
import shutil
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent


def script(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


seq2seq = script("make-seq2seq-goldens")
files = script("make-tokenizer-files")
goldens = seq2seq.goldens

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForSeq2SeqLM  # noqa: E402

SIZES = dict(
    seq2seq.BART, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=96)
TEXTS = ["The quick brown fox jumps.", "", "  naïve café 😀, don't!", "Die Füchsin läuft"]
PAIRS = [("en", "ro"), ("de", "en"), ("ro", "zh")]


def mbart(folder):
    """Vocabulary and languages in `tokenizer.json`, as the library writes it."""
    with files.tempfile.TemporaryDirectory() as other:
        other = Path(other)
        files.save(files.train(240, files.base.SENTENCES), other / "sentencepiece.bpe.model")
        tokenizer = transformers.MBartTokenizer.from_pretrained(other)
        tokenizer.save_pretrained(folder)
    return transformers.MBartTokenizer.from_pretrained(folder)


def mbart50(folder):
    """The model in a SentencePiece file alone; a language stands before a text."""
    files.save(files.train(240, files.base.SENTENCES), folder / "sentencepiece.bpe.model")
    files.dump({"tokenizer_class": "MBart50Tokenizer", "src_lang": "en_XX"}, folder / "tokenizer_config.json")
    return transformers.MBart50Tokenizer.from_pretrained(folder)


# The type, what makes its tokenizer, and whether the language to write is what every text begins with.
CASES = {
    "marian": ("marian", files.marian, False),
    "m2m_100": ("m2m_100", files.m2m_100, False),
    "mbart": ("mbart", mbart, False),
    "mbart-start": ("mbart", mbart, True),
    "mbart50": ("mbart", mbart50, False),
}


def settings(tokenizer, starts):
    sizes = dict(SIZES, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, eos_token_id=tokenizer.eos_token_id)
    sizes["decoder_start_token_id"] = sizes["pad_token_id"] if isinstance(tokenizer, transformers.MarianTokenizer) else 2
    if starts:
        sizes["decoder_start_token_id"] = tokenizer.convert_tokens_to_ids("ro_RO")
    return sizes


def full(tokenizer, code):
    """The code as the tokenizer spells it."""
    known = [token for token in tokenizer.all_special_tokens if token.startswith(f"{code}_")]
    return known[0] if known else code


@torch.no_grad()
def translated(model, tokenizer, text, pair, starts):
    how = {}
    if pair:
        tokenizer.src_lang = full(tokenizer, pair[0])
        token = full(tokenizer, pair[1])
        target = tokenizer.convert_tokens_to_ids(token if "_" in token else f"__{token}__")
        how["decoder_start_token_id" if starts else "forced_bos_token_id"] = target
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    entry = {"source": pair and pair[0], "target": pair and pair[1], "text": text, "input_ids": ids[0].tolist()}
    for name, beams in (("greedy", 1), ("search", 3)):
        made = model.generate(input_ids=ids, do_sample=False, max_new_tokens=14, num_beams=beams, **how)[0][1:].tolist()
        entry[name] = [made, tokenizer.decode(made, skip_special_tokens=True)]
    return entry


def make(name, spec, out):
    kind, tokens, starts = spec
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = tokens(folder)
    seed = zlib.crc32(name.encode())
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, **settings(tokenizer, starts))
    config._attn_implementation = "eager"
    model = AutoModelForSeq2SeqLM.from_config(config).to(torch.float32).eval()
    with torch.no_grad():
        goldens.overwrite(model, generator, seq2seq.case(kind), None)
    model.save_pretrained(folder)
    # Random models say one word again and again.
    rules = {key: getattr(config, key) for key in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    (folder / "generation_config.json").write_text(json.dumps({**rules, "no_repeat_ngram_size": 1}, indent=2) + "\n")
    model = seq2seq.load(folder)
    pairs = PAIRS if hasattr(tokenizer, "src_lang") else [None]
    found = [translated(model, tokenizer, text, pair, starts) for pair in pairs for text in TEXTS]
    lines = ",\n".join(" " + json.dumps(entry, separators=(",", ":")) for entry in found)
    (folder / "expected.json").write_text(f"[\n{lines}\n]\n")
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert size < 150_000, f"{name}: {size} bytes"
    print(f"{name}: {size} bytes, {found[0]['greedy']}", flush=True)


if __name__ == "__main__":
    goldens.run(__doc__, "translation", CASES, make)
