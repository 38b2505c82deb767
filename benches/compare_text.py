#!/usr/bin/env python3
"""Vectors of sentences: Tallow beside PyTorch and ONNX Runtime, on one folder of sentence-transformers.

    benches/compare_text.py all-MiniLM-L6-v2 [--sentences 1000] [--threads 2] [--rounds 3] [--encoding q8]

Needs `torch`, `transformers`, `onnx`, `onnxruntime`; tallow is target/release/tallow, or --tallow. First 50 sentences
are compared with transformers: the least cosine in u32 and in q8. Then the engines take turns, for several rounds, on all
sentences, from text to vectors: transformers in batches of 32 in their order, PyTorch eager with its fused attention, ONNX
Runtime on the graph that torch.onnx exports; Tallow as its command runs them, a fresh process each time. Loading is left
out. Sentences are those of this repository's documentation.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BATCH = 32

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", type=Path)
parser.add_argument("--sentences", type=int, default=1000)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--encoding", default="q8", help="encoding of the model that is timed")
parser.add_argument("--tallow", default=str(ROOT / "target" / "release" / "tallow"))
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoModel, AutoTokenizer  # noqa: E402

transformers.logging.set_verbosity_error()
torch.set_num_threads(arguments.threads)


def sentences(count):
    """Prose of the documentation, a sentence each; over again where there is too little."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for line in prose.splitlines():
            if not line.startswith(("#", "|")):
                found += [s.strip() for s in re.split(r"(?<=[.:;!?]) ", line) if 3 <= len(s.split()) <= 60]
    return (found * (count // len(found) + 1))[:count]


def tallow(texts, file):
    """Vectors, seconds from text to vectors, tokens."""
    command = [arguments.tallow, "run", str(file), "--text", "-", "--json", "--threads", str(arguments.threads), "--packed-cache", "on"]
    done = subprocess.run(command, input="\n".join(texts), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    made = json.loads(done.stdout)
    return np.array([r["embedding"] for r in made["results"]]), made["seconds"], made["tokens"]


def pooled(states, mask):
    """The mean over the tokens, at length 1."""
    mask = mask[:, :, None].astype(np.float32)
    mean = (states * mask).sum(1) / mask.sum(1)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def batches(texts, run):
    """Vectors and seconds of an engine that takes padded batches."""
    started, made = time.perf_counter(), []
    for at in range(0, len(texts), BATCH):
        given = tokenizer(texts[at:at + BATCH], padding=True, truncation=True, max_length=limit, return_tensors="pt")
        made.append(pooled(run(given), given["attention_mask"].numpy()))
    return np.concatenate(made), time.perf_counter() - started


tokenizer = AutoTokenizer.from_pretrained(arguments.model)
limit = json.loads((arguments.model / "sentence_bert_config.json").read_text())["max_seq_length"]
model = AutoModel.from_pretrained(arguments.model, dtype=torch.float32).eval()


@torch.inference_mode()
def torch_states(given):
    return model(**given).last_hidden_state.numpy()


def export(folder):
    """ONNX Runtime over the exported graph."""
    import onnxruntime

    given = tokenizer(["one text", "and another one"], padding=True, return_tensors="pt")
    names = list(given)
    axes = {name: {0: "texts", 1: "tokens"} for name in [*names, "last_hidden_state"]}
    plain = AutoModel.from_pretrained(arguments.model, dtype=torch.float32, attn_implementation="eager").eval()

    class States(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = plain

        def forward(self, *values):
            return self.inner(**dict(zip(names, values))).last_hidden_state

    torch.onnx.export(States().eval(), tuple(given[n] for n in names), folder / "model.onnx", input_names=names,
                      output_names=["last_hidden_state"], dynamic_axes=axes, opset_version=17, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    return lambda given: session.run(["last_hidden_state"], {n: given[n].numpy() for n in names})[0]


def cosines(a, b):
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def main():
    texts = sentences(arguments.sentences)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        os.environ["TALLOW_CACHE"] = str(scratch / "cache")
        files = {}
        for encoding in dict.fromkeys(["u32", "q8", arguments.encoding]):
            files[encoding] = scratch / f"{encoding}.model"
            subprocess.run([arguments.tallow, "import", arguments.model, "-o", files[encoding], "--encoding", encoding],
                           check=True, capture_output=True)
        few = texts[:: max(1, len(texts) // 50)][:50]
        wanted = np.concatenate([pooled(torch_states(given), given["attention_mask"].numpy()) for text in few
                                 for given in [tokenizer([text], truncation=True, max_length=limit, return_tensors="pt")]])
        for encoding, file in files.items():
            print(f"{encoding}: least cosine with transformers over {len(few)} sentences {cosines(tallow(few, file)[0], wanted).min():.7f}")
        engines = {"tallow": lambda: tallow(texts, files[arguments.encoding])[1],
                   "torch": lambda: batches(texts, torch_states)[1]}
        try:
            states = export(scratch)
            engines["onnxruntime"] = lambda: batches(texts, states)[1]
        except Exception as error:  # An engine that is missing is named and left out.
            print(f"onnxruntime is left out: {error}", file=sys.stderr)
        tokens = tallow(texts, files[arguments.encoding])[2]
        seconds = {name: [] for name in engines}
        for _ in range(arguments.rounds):
            for name, run in engines.items():
                seconds[name].append(run())
        print(f"{len(texts)} sentences, {tokens} tokens, {arguments.threads} threads, {arguments.encoding}, median of {arguments.rounds}:")
        middle = {name: statistics.median(all_) for name, all_ in seconds.items()}
        for name, second in middle.items():
            spread = f"{min(seconds[name]):.3f}-{max(seconds[name]):.3f}"
            print(f"  {name:12} {second:7.3f} s ({spread})  {len(texts) / second:7.0f} sentences/s")
        best = min(second for name, second in middle.items() if name != "tallow")
        print(f"  tallow is {best / middle['tallow']:.2f} times as fast as the faster other")


main()
