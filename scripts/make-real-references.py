#!/usr/bin/env python3
"""Records what llama.cpp does with the two real models, as references for tests.

    python scripts/make-real-references.py [--models models/real] [--out tests/references]

Needs `llama-cpp-python` and `jinja2`, and the models that `scripts/real-models.sh`
fetches (their folder: --models, else $TALLOW_REAL_MODELS, else models/real); it is
not part of the tests. One JSON file per model:

    file, sha256     the model file
    reference        what computed this: CPU, f16 cache, no flash attention
    prompts          greedy continuations, each
        messages     what the chat template was given; absent for a raw prompt
        prompt       the text, template applied
        prompt_ids   its ids, beginning token as the model asks for, special tokens parsed
        ids          up to 32 greedy ids; ends with the end-of-text token if one came
        ended        whether one came
        top          per id: [[best id, logit], [second id, logit]], so that near ties show
        text         the ids as text, special tokens left out
    tokenizer        [text, ids] of awkward strings, no beginning token, special tokens parsed
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
from pathlib import Path

import jinja2.sandbox
import llama_cpp
import numpy as np
from llama_cpp import Llama

STEPS = 32

STRINGS = [
    "", "a", " a", "  a", "   a", "a ", "a  ", " ", "  ", "    ", "\t", "\ta", "a\tb\t\tc", "\n",
    "\n\n", "\n\n\n a", "a\nb", "a \n b", "line\r\nnext\r\n", " \n \n", "Hello, world!",
    "Hello  world", "don't won't I'll we've THEY'RE it'S", "0", "42", "1234567890", "3.14159",
    "1,000,000", "v1.2.3-beta4", "x=y+z*2;", "def f(a, b):\n    return a + b\n",
    "if (x) {\n\t\ty++;\n}\n", "http://example.org/a?b=c&d=e#f", "naïve café déjà vu",
    "Ünïcödé ÄÖÜ ß", "e\u0301 e\u0301e\u0301 a\u0308", "日本語のテキスト", "中文字符，全角标点。",
    "한국어 문장", "Привет, мир", "مرحبا بالعالم", "שלום", "नमस्ते", "ไทย", "😀", "a😀b 😀😀",
    "👨‍👩‍👧‍👦 family", "🏳️‍🌈🇫🇷", "½ ² ⅷ ①", "a\u00a0b\u2003c\u3000d", "\u200bzero\u200dwidth\ufeff",
    "\x01\x02\x1b[0m\x7f", "…—–“quoted”‘x’", "____ ---- ==== ####", "aaaaaaaaaaaaaaaaaaaaaaaa",
    "CamelCaseIdentifierWithDigits123", "snake_case_name", "ALL CAPS TEXT", "▁▁under▁score",
    "\ue000private\U000f0000",
]

MODELS = {
    "gemma3-270m": dict(
        file="gemma3-270m-q4_k_m.gguf",
        prompts=["We hold these truths to be self-evident, that all",
                 "In the beginning God created",
                 "1, 2, 3, 4, 5,",
                 "The capital of France is",
                 "Once upon a time, there was a little girl",
                 "Water boils at"],
        strings=["<bos>", "<start_of_turn>user\nhi<end_of_turn>\n", "a<end_of_turn>b",
                 " <start_of_turn> ", "<unused0>x", "<bos", "<0x0A>", "<unk>", "</s>",
                 "<table>", "<h1>Title</h1>"]),
    "qwen2.5-coder-0.5b": dict(
        file="qwen2.5-coder-0.5b.gguf",
        prompts=["def is_prime(n):\n",
                 [{"role": "user", "content": "What is the capital of France?"}],
                 [{"role": "system", "content": "You are terse."},
                  {"role": "user", "content": "Count from 1 to 10."},
                  {"role": "assistant", "content": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"},
                  {"role": "user", "content": "Now backwards."}],
                 [{"role": "user", "content": "Write a Rust function that reverses a string."}],
                 [{"role": "user", "content": "Explain what a hash map is."}],
                 "The quick brown fox"],
        strings=["<|endoftext|>", "<|im_start|>user\nhi<|im_end|>\n", "a<|im_end|>b",
                 " <|im_start|> ", "<|fim_prefix|>x<|fim_suffix|>y<|fim_middle|>", "<|im_start|",
                 "<tool_call>", "<|unknown|>"]),
}


def sha256(path):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def render(model, messages):
    """The model's own chat template, with the prompt for an answer."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(model.metadata["tokenizer.chat_template"]).render(
        messages=messages, add_generation_prompt=True, tools=None, bos_token="", eos_token="")


def greedy(model, ids):
    """(ids, top two per step, whether an end-of-text token came)."""
    vocab = llama_cpp.llama_model_get_vocab(model.model)
    model.reset()
    model.eval(ids)
    out, top = [], []
    while len(out) < STEPS:
        row = np.ctypeslib.as_array(
            llama_cpp.llama_get_logits_ith(model.ctx, -1), shape=(model.n_vocab(),))
        first, second = (int(i) for i in np.argsort(-row, kind="stable")[:2])
        top.append([[i, round(float(row[i]), 4)] for i in (first, second)])
        out.append(first)
        if llama_cpp.llama_vocab_is_eog(vocab, first):
            return out, top, True
        if len(out) < STEPS:
            model.eval([first])
    return out, top, False


def record(name, spec, models, out):
    path = models / spec["file"]
    model = Llama(str(path), n_ctx=512, n_threads=2, n_threads_batch=2, n_gpu_layers=0,
                  flash_attn=False, verbose=False)
    vocab = llama_cpp.llama_model_get_vocab(model.model)
    add_bos = bool(llama_cpp.llama_vocab_get_add_bos(vocab))
    prompts = []
    for prompt in spec["prompts"]:
        entry = {}
        if not isinstance(prompt, str):
            entry["messages"] = prompt
            prompt = render(model, prompt)
        ids = model.tokenize(prompt.encode(), add_bos=add_bos, special=True)
        produced, top, ended = greedy(model, ids)
        entry |= dict(prompt=prompt, prompt_ids=ids, ids=produced, ended=ended, top=top,
                      text=model.detokenize(produced).decode("utf-8", "replace"))
        prompts.append(entry)
        closest = min(a[1] - b[1] for a, b in top)
        print(f"{name}: {prompt!r} → {entry['text']!r}, closest call {closest:.3f}", flush=True)
    strings = [[text, model.tokenize(text.encode(), add_bos=False, special=True)]
               for text in STRINGS + spec["strings"]]
    record = dict(
        file=spec["file"], sha256=sha256(path), add_bos=add_bos,
        reference=f"llama-cpp-python {importlib.metadata.version('llama-cpp-python')}, CPU, "
                  "f16 cache, no flash attention",
        prompts=prompts, tokenizer=strings)
    target = out / f"{name}.json"
    target.write_text(dump(record) + "\n")
    print(f"{target}: {target.stat().st_size} bytes, {len(strings)} strings")


def dump(value, depth=0):
    """JSON with lists of scalars, and of short lists, on one line."""
    flat = json.dumps(value, ensure_ascii=True)
    if not isinstance(value, (dict, list)) or len(flat) < 90 or (
            isinstance(value, list) and all(not isinstance(v, (dict, list)) for v in value)):
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        body = [f"{json.dumps(k)}: {dump(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(pad + line for line in body) + "\n" + " " * depth + "}"
    body = [dump(v, depth + 1) for v in value]
    return "[\n" + ",\n".join(pad + line for line in body) + "\n" + " " * depth + "]"


def main():
    here = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path(
        os.environ.get("TALLOW_REAL_MODELS") or here / "models" / "real"))
    parser.add_argument("--out", type=Path, default=here / "tests" / "references")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, spec in MODELS.items():
        record(name, spec, arguments.models, arguments.out)


if __name__ == "__main__":
    main()
