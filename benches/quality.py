#!/usr/bin/env python3
"""Logits of Tallow's kernels beside those of its plain interpreter, on the same stored weights.

    benches/quality.py qwen=qwen-q8_0-auto.model --ids qwen.json --cache ~/.cache/tallow-bench

A text of --tokens tokens is computed in windows of 512, each with all of its logits, once by the default engine and once
by `--reference`, which decodes the weights and computes in single precision. For each model: the cosine of the logits
(mean, worst position), how often both find the same token the likeliest, and both perplexities. Token ids come as a JSON
list for each model (`benches/llama.py tokens GGUF TEXT` prints one), and with `--begin` the id that begins a text.
"""

import argparse
import json
import pathlib
import sys

import numpy as np

import compare_quality as quality
from compare import Failure, run

ROOT = pathlib.Path(__file__).resolve().parent.parent


def source(text):
    name, _, path = text.partition("=")
    if not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=MODEL")
    return name, pathlib.Path(path)


def measure(args, model, ids):
    cosines, same, losses, count = [], 0, np.zeros(2), 0
    # Each window begins as a text does, where the model has a token for that.
    begin = [args.begin] if args.begin is not None else []
    step = quality.WINDOW - len(begin)
    for at in range(0, len(ids) - step + 1, step):
        window = begin + ids[at : at + step]
        out = args.cache / "logits.npy"
        found = [quality.logits(args.tallow, model, window, out, run, *how) for how in ([], ["--reference"])]
        fast, exact = (x.astype(np.float64) for x in found)
        sizes = np.sqrt((fast**2).sum(1) * (exact**2).sum(1))
        cosines.extend(((fast * exact).sum(1) / sizes).tolist())
        same += int((fast.argmax(1) == exact.argmax(1)).sum())
        losses += [quality.of_logits(x, np.array(window))[0] for x in found]
        count += len(window) - 1
    return {
        "tokens": len(cosines),
        "cosine": float(np.mean(cosines)),
        "worst": float(np.min(cosines)),
        "below_0.999": int(np.sum(np.array(cosines) < 0.999)),
        "same_token": same / len(cosines),
        "perplexity": float(np.exp(losses[0] / count)),
        "perplexity_reference": float(np.exp(losses[1] / count)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=source, metavar="NAME=MODEL")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="folder for logits, which go again")
    parser.add_argument("--tallow", type=pathlib.Path, default=ROOT / "target/release/tallow")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--ids", type=pathlib.Path, required=True, help="a JSON list of token ids")
    parser.add_argument("--begin", type=int, help="id of the token that begins each window")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.tallow = args.tallow.resolve()
    args.cache.mkdir(parents=True, exist_ok=True)
    ids = json.loads(args.ids.read_text())
    ids = ids["ids"] if isinstance(ids, dict) else ids
    rows = []
    for name, model in args.models:
        try:
            rows.append({"model": name} | measure(args, model, ids[: args.tokens]))
        except Failure as failure:
            sys.exit(f"{model}: {failure}")
        if not args.json:
            print("  ".join(f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}" for key, value in rows[-1].items()))
    (args.cache / "logits.npy").unlink(missing_ok=True)
    if args.json:
        print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
