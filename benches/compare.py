#!/usr/bin/env python3
"""Speeds, memory and quality of Tallow beside llama.cpp and Candle, from the same GGUF sources in one run.

    benches/compare.py qwen=qwen2.5-coder-0.5b.gguf gemma=gemma-3-270m.gguf --cache ~/.cache/tallow-bench

Each source is measured as it is shipped, and as Q8_0 and Q4_0 made from it by llama.cpp's quantiser. The engines take
turns, a fresh process each time, for several rounds: other load then hits all of them. Tallow's command is
target/release/tallow, llama.cpp comes from the package llama-cpp-python of --python, Candle from benches/candle. An
engine that is missing or fails is named and left out. docs/performance.md says what the figures mean.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import compare_quality as quality
import compare_table as table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
ENGINES = ["tallow", "llama.cpp", "candle"]


class Failure(Exception):
    """An engine could not do what was asked."""


def run(command, timeout=1800, env=None):
    """Output of a command; a failure says what it wrote."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env, check=False)
    except FileNotFoundError as error:
        raise Failure(f"cannot start {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Failure(f"{pathlib.Path(command[0]).name} took more than {timeout} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        last = next((line for line in lines if line.startswith("error")), lines[-1])
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        hint = ""
        if done.returncode == -11 and "llama" in " ".join(map(str, command)):
            hint = " (built by GCC 12 with AMX? see benches/gcc12_amx.h)"
        raise Failure(f"{how}: {last}{hint}")
    return done.stdout


def say(text):
    print(text, file=sys.stderr, flush=True)


class Tallow:
    """This repository's command."""

    name = "tallow"

    def __init__(self, args):
        self.command = args.tallow
        self.args = args
        self.version = run([self.command, "--version"]).split()[-1]

    def prepare(self, variant):
        """Imports a GGUF file. The choice of `tallow import` is taken, but for Q4_0: there it would be q8."""
        self.models = getattr(self, "models", {})
        encoding = "q4" if variant.kind == "Q4_0" else "auto"
        target = self.args.cache / f"{variant.path.stem}-{encoding}.model"
        if not target.exists() or target.stat().st_mtime < variant.path.stat().st_mtime:
            say(f"tallow import {variant.path.name} as {encoding}")
            run([self.command, "import", variant.path, "-o", target, "--encoding", encoding, "--force", "--quiet"])
        self.models[variant] = target
        return {"bytes": target.stat().st_size, "encoding": encoding}

    def measure(self, variant, threads):
        args, model = self.args, self.models[variant]
        options = ["--threads", str(threads), "--repetitions", str(args.repetitions), "--json", "--quiet"]
        options += ["--prefill", ",".join(map(str, args.prefill)), "--decode", str(args.decode)]
        options += ["--depth", ",".join(map(str, args.depth))]
        found = json.loads(run([self.command, "bench", model, *options]))
        start = time.perf_counter()
        run([self.command, "run", model, "--raw", args.prompt, "-n", "1", "--temperature", "0", "--threads", str(threads), "--quiet"])
        first = time.perf_counter() - start
        decode = {d["depth"]: d for d in found["decode"]}
        prefill = {p["tokens"]: p for p in found["prefill"]}
        return {
            "first_token_seconds": first,
            "peak_bytes": found["peak_memory_bytes"],
            "prefill": {n: p["tokens_per_second"]["values"] for n, p in prefill.items()},
            "decode": {n: d["tokens_per_second"]["values"] for n, d in decode.items()},
            "share_of_peak": {n: p["share_of_peak"]["values"] for n, p in prefill.items()},
            "share_of_bandwidth": {n: d["share_of_bandwidth"]["values"] for n, d in decode.items()},
            "bytes_per_token": {n: d["bytes_per_token"] for n, d in decode.items()},
            "bandwidth": found["bandwidth_bytes_per_second"]["values"],
        }


class Llama:
    """llama.cpp, by benches/llama.py in a fresh interpreter."""

    name = "llama.cpp"

    def __init__(self, args):
        self.args = args
        self.script = [args.python, HERE / "llama.py"]
        info = json.loads(run([*self.script, "info"]))
        self.version = f"llama-cpp-python {info['version']}"
        self.system = info["system"]

    def prepare(self, variant):
        read = json.loads(run([*self.script, "read", variant.path]))["bytes"]
        return {"bytes": variant.path.stat().st_size, "encoding": variant.kind, "read": read}

    def measure(self, variant, threads):
        args = self.args
        options = ["--threads", threads, "--repetitions", args.repetitions, "--decode", args.decode]
        options += ["--prefill", *args.prefill, "--depth", *args.depth]
        found = json.loads(run([*self.script, "bench", variant.path, *map(str, options)]))
        found["peak_bytes"] -= found["interpreter_bytes"] or 0
        return numbered(found)


class Candle:
    """Candle's quantised models, by the program of benches/candle."""

    name = "candle"

    def __init__(self, args):
        self.args = args
        self.command = args.candle
        self.version = f"candle-transformers {run([self.command, '--version']).strip()}"

    def prepare(self, variant):
        return {"bytes": variant.path.stat().st_size, "encoding": variant.kind}

    def measure(self, variant, threads):
        args = self.args
        environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
        options = [variant.path, args.repetitions, args.decode, *args.prefill]
        return numbered(json.loads(run([self.command, *map(str, options)], env=environment)))


def numbered(found):
    """JSON makes texts of the numbers that are keys."""
    return {k: {int(n): v for n, v in d.items()} if isinstance(d, dict) else d for k, d in found.items()}


class Variant:
    """A source in one quantisation."""

    def __init__(self, source, kind, path):
        self.source, self.kind, self.path = source, kind, path


def variants(args, llama):
    """Every source in every wanted quantisation, made where it is missing."""
    found = []
    for name, path in args.sources:
        for kind in args.kinds:
            if kind == "shipped":
                found.append(Variant(name, kind, path))
                continue
            target = args.cache / f"{path.stem}-{kind.lower()}.gguf"
            if not target.exists():
                if llama is None:
                    say(f"skipped: {name} as {kind}, which llama.cpp would have to make")
                    continue
                say(f"quantising {name} to {kind}")
                part = target.with_suffix(".part")
                try:
                    run([*llama.script, "quantise", path, part, kind.lower()])
                except Failure as failure:
                    say(f"skipped: {name} as {kind}: {failure}")
                    continue
                part.rename(target)
            found.append(Variant(name, kind, target))
    return found


def processor():
    """What the machine is, without naming it."""
    fields = {}
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    wanted = ["avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16"]
    flags = fields.get("flags", "").split()
    return {
        "model": fields.get("model name", "unknown processor"),
        "cores": os.cpu_count(),
        "features": [f for f in wanted if f in flags],
    }


def merge(into, found):
    """Adds one round to the measurements before."""
    for key, value in found.items():
        if isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        elif value is not None:
            into.setdefault(key, []).extend(value if isinstance(value, list) else [value])


def engines(args):
    """Engines that are there, and why the others are not."""
    found, missing = [], {}
    for kind in [Tallow, Llama, Candle]:
        if kind.name not in args.engines:
            continue
        try:
            found.append(kind(args))
        except (Failure, json.JSONDecodeError, IndexError) as failure:
            missing[kind.name] = str(failure)
            say(f"skipped: {kind.name}: {failure}")
    return found, missing


def measure(args, found, chosen, keep):
    """All rounds: in each, every engine measures every variant with every number of threads. `keep` gets all rows after
    each measurement, so that a run that is stopped loses one."""
    rows = {}

    def as_list():
        return [
            {"source": v.source, "kind": v.kind, "threads": t, "engine": name, **row}
            for (v, t, name), row in rows.items()
        ]

    for variant in chosen:
        for engine in found:
            try:
                size = engine.prepare(variant)
            except Failure as failure:
                size = {"error": str(failure)}
                say(f"skipped: {engine.name} on {variant.source} {variant.kind}: {failure}")
            for threads in args.threads:
                rows[variant, threads, engine.name] = dict(size)
    for number in range(args.rounds):
        for variant in chosen:
            for threads in args.threads:
                # Another order each round, so that none always follows the same one.
                turn = number % len(found)
                for engine in found[turn:] + found[:turn]:
                    row = rows[variant, threads, engine.name]
                    if "error" in row:
                        continue
                    say(f"round {number + 1} of {args.rounds}: {engine.name}, {variant.source} {variant.kind}, {threads} threads")
                    try:
                        merge(row.setdefault("measured", {}), engine.measure(variant, threads))
                    except Failure as failure:
                        row["error"] = str(failure)
                        say(f"failed: {engine.name} on {variant.source} {variant.kind}: {failure}")
                    keep(as_list())
    return as_list()


def source(text):
    name, equals, path = text.partition("=")
    path = pathlib.Path(path if equals else name)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{path} is no file")
    return (name if equals else path.stem), path


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=source, metavar="NAME=GGUF")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="folder for quantised and imported models")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has llama-cpp-python and numpy")
    parser.add_argument("--tallow", type=pathlib.Path, default=ROOT / "target/release/tallow")
    parser.add_argument("--candle", type=pathlib.Path, default=HERE / "candle/target/release/bench-candle")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--kinds", nargs="+", choices=["Q8_0", "Q4_0", "shipped"], default=["Q8_0", "Q4_0", "shipped"])
    parser.add_argument("--threads", nargs="+", type=int, default=[2, 1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=1, help="measurements in each process")
    parser.add_argument("--prefill", nargs="+", type=int, default=[64, 512])
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--depth", nargs="+", type=int, default=[0, 2048])
    parser.add_argument("--prompt", default="The quick brown fox jumps over the lazy", help="for the first token: 8 tokens")
    parser.add_argument("--text", type=pathlib.Path, nargs="*", help="prose for perplexity; by default this project's documents")
    parser.add_argument("--perplexity-tokens", type=int, default=2048, help="0 leaves quality out")
    parser.add_argument("--json", type=pathlib.Path, help="write all measurements here")
    parser.add_argument("--from-json", type=pathlib.Path, help="measure nothing: make the table of these measurements")
    parser.add_argument("--write", action="store_true", help="replace the table in docs/performance.md")
    return parser.parse_args()


def main():
    args = arguments()
    args.cache.mkdir(parents=True, exist_ok=True)
    if args.from_json:
        result = json.loads(args.from_json.read_text())
        result["rows"] = [table.numbered(row) for row in result["rows"]]
    else:
        found, missing = engines(args)
        if not found:
            sys.exit("no engine is there; nothing was measured")
        by_name = {engine.name: engine for engine in found}
        chosen = variants(args, by_name.get("llama.cpp"))
        result = {
            "processor": processor(),
            "engines": {e.name: e.version for e in found},
            "llama_system": getattr(by_name.get("llama.cpp"), "system", None),
            "missing": missing,
            "rounds": args.rounds,
            "decode_tokens": args.decode,
            "rows": [],
            "quality": [],
        }

        def save(**parts):
            result.update(parts)
            if args.json:
                part = args.json.with_name(args.json.name + ".part")
                part.write_text(json.dumps(result, indent=1) + "\n")
                part.replace(args.json)

        try:
            save(rows=measure(args, found, chosen, lambda rows: save(rows=rows)))
            save(quality=quality.measure(args, by_name, chosen, run, Failure, say))
        except KeyboardInterrupt:
            say("stopped: what was measured so far follows")
    text = table.text(result)
    print(text)
    if args.write:
        table.replace(ROOT / "docs/performance.md", text)


if __name__ == "__main__":
    main()
