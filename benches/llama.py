"""llama.cpp through the low-level interface of llama-cpp-python: what compare.py runs in fresh processes.

    llama.py info                                   version and CPU features, as JSON
    llama.py quantise SOURCE TARGET q8_0|q4_0       the quantiser of llama.cpp
    llama.py bench GGUF --threads N ...             speeds, first token, memory, as JSON
    llama.py tokens GGUF TEXT                       token ids of a text file, as JSON
    llama.py perplexity GGUF IDS.json --window N    perplexity and top-1 choices, as JSON

Times are those of llama_decode and llama_synchronize alone; the interpreter's start and numpy are left out.
"""

import argparse
import ctypes
import json
import sys
import time

import llama_cpp as ll
import numpy as np

# Silent: only the answer belongs on stdout, and progress dots of loading would fill the log.
LOG = ll.llama_log_callback(lambda level, text, user: None)
ll.llama_log_set(LOG, ctypes.c_void_p(0))


def peak():
    """Highest resident memory of this process in bytes; None where the system does not tell."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


class Model:
    """A loaded model with one context."""

    def __init__(self, path, threads, context, batch=512, all_logits=False):
        ll.llama_backend_init()
        params = ll.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = ll.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp cannot load {path}")
        params = ll.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = batch
        params.n_threads = params.n_threads_batch = threads
        params.no_perf = True
        self.context = ll.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"llama.cpp cannot make a context of {context} tokens for {path}")
        self.vocab = ll.llama_model_get_vocab(self.model)
        self.size = ll.llama_vocab_n_tokens(self.vocab)
        self.batch = ll.llama_batch_init(batch, 0, 1)
        self.width = batch

    def clear(self):
        ll.llama_memory_clear(ll.llama_get_memory(self.context), True)

    def decode(self, ids, past, logits="last"):
        """Runs at most one batch of ids; returns the seconds of llama_decode and llama_synchronize."""
        batch = self.batch
        batch.n_tokens = len(ids)
        for i, token in enumerate(ids):
            batch.token[i] = token
            batch.pos[i] = past + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = int(logits == "all" or i + 1 == len(ids))
        start = time.perf_counter()
        code = ll.llama_decode(self.context, batch)
        ll.llama_synchronize(self.context)
        seconds = time.perf_counter() - start
        if code != 0:
            sys.exit(f"llama_decode failed with {code}")
        return seconds

    def row(self, index=-1):
        """The logits of one row of the last batch, not copied."""
        return np.ctypeslib.as_array(ll.llama_get_logits_ith(self.context, index), (self.size,))

    def prefill(self, ids, past=0):
        seconds = 0.0
        for at in range(0, len(ids), self.width):
            seconds += self.decode(ids[at : at + self.width], past + at)
        return seconds

    def greedy(self, tokens, past):
        """Seconds of decoding so many tokens one by one; choosing them is not counted."""
        seconds = 0.0
        for i in range(tokens):
            token = int(self.row().argmax())
            seconds += self.decode([token], past + i)
        return seconds


def synthetic(count, vocabulary):
    """The token ids that `tallow bench` uses: a fixed linear congruential sequence."""
    ids, state = [], 1
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ids.append((state >> 33) % vocabulary)
    return ids


def bench(args):
    before = peak()
    start = time.perf_counter()
    context = max(args.depth + args.prefill) + args.decode + 64
    model = Model(args.gguf, args.threads, context)
    ids = synthetic(max(args.depth + args.prefill + [8]), model.size)
    model.decode(ids[:8], 0)
    int(model.row().argmax())
    first = time.perf_counter() - start
    result = {"first_token_seconds": first, "prefill": {}, "decode": {}}
    # Once unmeasured, so that every page that a prefill needs is there.
    model.clear()
    model.prefill(ids[: max(args.prefill)])
    for tokens in args.prefill:
        times = []
        for _ in range(args.repetitions):
            model.clear()
            times.append(model.prefill(ids[:tokens]))
        result["prefill"][tokens] = [tokens / t for t in times]
    for depth in args.depth:
        model.clear()
        model.prefill(ids[: max(depth, 1)])
        times = []
        for _ in range(args.repetitions):
            ll.llama_memory_seq_rm(ll.llama_get_memory(model.context), 0, max(depth, 1) - 1, -1)
            model.decode([ids[max(depth, 1) - 1]], max(depth, 1) - 1)
            times.append(model.greedy(args.decode, max(depth, 1)))
        result["decode"][depth] = [args.decode / t for t in times]
    result["peak_bytes"] = peak()
    result["interpreter_bytes"] = before
    return result


def quantise(args):
    params = ll.llama_model_quantize_default_params()
    params.ftype = {"q8_0": ll.LLAMA_FTYPE_MOSTLY_Q8_0, "q4_0": ll.LLAMA_FTYPE_MOSTLY_Q4_0}[args.type]
    params.allow_requantize = True
    code = ll.llama_model_quantize(args.source.encode(), args.target.encode(), ctypes.byref(params))
    if code != 0:
        sys.exit(f"llama.cpp cannot quantise {args.source} to {args.type}: code {code}")
    return {}


def tokens(args):
    params = ll.llama_model_default_params()
    params.vocab_only = True
    model = ll.llama_model_load_from_file(args.gguf.encode(), params)
    if not model:
        sys.exit(f"llama.cpp cannot load {args.gguf}")
    with open(args.text, "rb") as file:
        text = file.read()
    room = (ll.llama_token * (len(text) + 8))()
    count = ll.llama_tokenize(ll.llama_model_get_vocab(model), text, len(text), room, len(room), True, False)
    if count < 0:
        sys.exit(f"llama.cpp cannot tokenise {args.text}")
    return {"ids": list(room[:count])}


def perplexity(args):
    with open(args.ids) as file:
        ids = json.load(file)["ids"]
    model = Model(args.gguf, args.threads, args.window, batch=args.window)
    loss, count, choices = 0.0, 0, []
    for at in range(0, len(ids) - args.window + 1, args.window):
        window = ids[at : at + args.window]
        model.clear()
        model.decode(window, 0, logits="all")
        for i in range(args.window - 1):
            row = model.row(i).astype(np.float64)
            top = row.max()
            loss += top + np.log(np.exp(row - top).sum()) - row[window[i + 1]]
            choices.append(int(row.argmax()))
            count += 1
    return {"perplexity": float(np.exp(loss / count)), "tokens": count, "choices": choices}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info")
    command = commands.add_parser("quantise")
    command.add_argument("source")
    command.add_argument("target")
    command.add_argument("type", choices=["q8_0", "q4_0"])
    command = commands.add_parser("bench")
    command.add_argument("gguf")
    command.add_argument("--threads", type=int, default=1)
    command.add_argument("--repetitions", type=int, default=1)
    command.add_argument("--prefill", type=int, nargs="+", default=[64, 512])
    command.add_argument("--decode", type=int, default=128)
    command.add_argument("--depth", type=int, nargs="+", default=[0, 2048])
    command = commands.add_parser("tokens")
    command.add_argument("gguf")
    command.add_argument("text")
    command = commands.add_parser("perplexity")
    command.add_argument("gguf")
    command.add_argument("ids")
    command.add_argument("--window", type=int, default=512)
    command.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if args.command == "info":
        answer = {"version": ll.__version__, "system": ll.llama_print_system_info().decode().strip(" |\n")}
    else:
        answer = {"quantise": quantise, "bench": bench, "tokens": tokens, "perplexity": perplexity}[args.command](args)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
