"""Perplexity of a real text by both engines, from the same tokens in the same windows."""

import json
import pathlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
WINDOW = 512


def prose(paths):
    """English text without tables, code and lists of links."""
    paths = paths or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    kept, fenced = [], False
    for path in paths:
        for line in path.read_text(errors="replace").splitlines():
            if line.lstrip().startswith("```"):
                fenced = not fenced
            elif not fenced and not line.lstrip().startswith(("|", "#", "<", "- [", "$")):
                kept.append(line)
    return "\n".join(kept)


def of_logits(logits, ids):
    """Sum of negative log likelihoods of the tokens after the first, and the likeliest tokens."""
    logits = logits[:-1].astype(np.float64)
    top = logits.max(axis=1, keepdims=True)
    wanted = logits[np.arange(len(ids) - 1), ids[1:]]
    return (top[:, 0] + np.log(np.exp(logits - top).sum(axis=1)) - wanted).sum(), logits.argmax(axis=1)


def logits(tallow, model, window, output, run, *options):
    """The logits `[token, vocabulary]` of a window by `tallow run --all-logits`; `output` is a file for them."""
    given = "input_ids=" + ",".join(map(str, window))
    run([tallow, "run", model, "--input", given, "--all-logits", "--output", output, "--force", "--quiet", *options])
    return np.load(output).reshape(len(window), -1)


def ours(args, engine, variant, ids, run):
    """Perplexity and likeliest tokens by Tallow, a process a window."""
    loss, choices = 0.0, []
    output = args.cache / "logits.npy"
    threads = ["--threads", str(max(args.threads))]
    for at in range(0, len(ids) - WINDOW + 1, WINDOW):
        window = ids[at : at + WINDOW]
        found = logits(engine.command, engine.models[variant], window, output, run, *threads)
        one, likeliest = of_logits(found, np.array(window))
        loss += one
        choices.extend(likeliest.tolist())
    output.unlink(missing_ok=True)
    return float(np.exp(loss / len(choices))), choices


def theirs(args, engine, variant, ids, run):
    """The same by llama.cpp."""
    path = args.cache / "ids.json"
    path.write_text(json.dumps({"ids": ids}))
    options = ["--window", str(WINDOW), "--threads", str(max(args.threads))]
    found = json.loads(run([*engine.script, "perplexity", variant.path, path, *options]))
    path.unlink()
    return found["perplexity"], found["choices"]


def measure(args, engines, variants, run, failure, say):
    """A row for each variant; what cannot be measured says why."""
    if args.perplexity_tokens < WINDOW:
        return []
    tallow, llama = engines.get("tallow"), engines.get("llama.cpp")
    if llama is None:
        say("skipped: perplexity, whose tokens come from llama.cpp")
        return []
    text = args.cache / "prose.txt"
    text.write_text(prose(args.text))
    rows = []
    for variant in variants:
        say(f"perplexity: {variant.source} {variant.kind}")
        row = {"source": variant.source, "kind": variant.kind}
        rows.append(row)
        try:
            ids = json.loads(run([*llama.script, "tokens", variant.path, text]))["ids"]
            count = min(len(ids), args.perplexity_tokens) // WINDOW * WINDOW
            ids = ids[:count]
            row["tokens"] = count
            row["llama"], choices = theirs(args, llama, variant, ids, run)
            if tallow is not None and variant in getattr(tallow, "models", {}):
                row["tallow"], own = ours(args, tallow, variant, ids, run)
                row["agreement"] = float(np.mean(np.array(own) == np.array(choices)))
        except (failure, OSError) as error:
            row["error"] = f"not measured: {error}"
            say(row["error"])
    text.unlink(missing_ok=True)
    return rows
