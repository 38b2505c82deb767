"""The table of docs/performance.md from the measurements of compare.py."""

import statistics

BEGIN = "<!-- measured: begin (written by benches/compare.py) -->"
END = "<!-- measured: end -->"


def numbered(row):
    """A row as it was before JSON made texts of the numbers that are keys."""
    measured = row.get("measured", {})
    for key, value in measured.items():
        if isinstance(value, dict):
            measured[key] = {int(n): v for n, v in value.items()}
    return row


def cell(values, digits=1):
    """Median, and how far the values spread."""
    if not values:
        return "—"
    middle = statistics.median(values)
    spread = f" ({min(values):.{digits}f}–{max(values):.{digits}f})" if len(values) > 1 else ""
    return f"{middle:.{digits}f}{spread}"


def ratio(ours, theirs):
    if not ours or not theirs:
        return "—"
    return f"{statistics.median(ours) / statistics.median(theirs):.2f}"


def percent(values):
    return f"{100 * statistics.median(values):.0f} %" if values else "—"


def rows_of(result):
    """Rows by source, kind and threads: what each engine measured."""
    found = {}
    for row in result["rows"]:
        found.setdefault((row["source"], row["kind"], row["threads"]), {})[row["engine"]] = row
    return found


def speeds(result, what, digits=1):
    """Lines of one quantity; `what` is its path in the measurements."""
    for (source, kind, threads), by_engine in rows_of(result).items():

        def values(engine):
            at = by_engine.get(engine, {}).get("measured", {})
            for key in what:
                at = at.get(key, {}) if isinstance(at, dict) else {}
            return at or []

        ours, llama, candle = values("tallow"), values("llama.cpp"), values("candle")
        if not (ours or llama or candle):
            continue
        yield (source, kind, threads), ours, llama, candle


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def rate_table(result, title, what, share=None):
    rows = []
    limits = {key: values for key, values, _, _ in speeds(result, share)} if share else {}
    for key, ours, llama, candle in speeds(result, what):
        row = [key[0], key[1], key[2], cell(ours), cell(llama), cell(candle), ratio(ours, llama)]
        rows.append(row + ([percent(limits.get(key))] if share else []))
    if not rows:
        return ""
    head = ["model", "source", "threads", "Tallow", "llama.cpp", "Candle", "Tallow / llama.cpp"]
    return f"\n**{title}**\n\n" + markdown(head + (["share of limit"] if share else []), rows)


def best_table(result, title, what, unit):
    rows = []
    for key, ours, llama, candle in speeds(result, what):
        scaled = [[v * unit for v in values] for values in (ours, llama, candle)]
        rows.append([*key, *(cell(v, 0) for v in scaled), ratio(ours, llama)])
    head = ["model", "source", "threads", "Tallow", "llama.cpp", "Candle", "Tallow / llama.cpp"]
    return f"\n**{title}**\n\n" + markdown(head, rows) if rows else ""


def sizes(result):
    rows, seen = [], set()
    for (source, kind, _), by_engine in rows_of(result).items():
        if (source, kind) in seen:
            continue
        seen.add((source, kind))
        ours, llama = by_engine.get("tallow", {}), by_engine.get("llama.cpp", {})
        megabytes = lambda row: f"{row['bytes'] / 1e6:.0f}" if row.get("bytes") else "—"
        read = ours.get("measured", {}).get("bytes_per_token", {}).get(0)
        read = f"{statistics.median(read if isinstance(read, list) else [read]) / 1e6:.0f}" if read else "—"
        theirs = f"{llama['read'] / 1e6:.0f}" if llama.get("read") else "—"
        rows.append([source, kind, ours.get("encoding", "—"), megabytes(ours), megabytes(llama), read, theirs])
    head = ["model", "source", "`.model` made with", "its size, MB", "size of the GGUF, MB"]
    head += ["read for a token: Tallow, MB", "llama.cpp, MB"]
    return "\n**Sizes**\n\n" + markdown(head, rows) if rows else ""


def quality(result):
    rows = []
    for row in result.get("quality") or []:
        if "error" in row:
            rows.append([row["source"], row["kind"], row["tokens"] if "tokens" in row else "—", row["error"], "—", "—", "—"])
            continue
        change = 100 * (row["tallow"] / row["llama"] - 1) if row.get("llama") and row.get("tallow") else None
        number = lambda v: f"{v:.3f}" if v else "—"
        rows.append(
            [
                row["source"],
                row["kind"],
                row["tokens"],
                number(row.get("tallow")),
                number(row.get("llama")),
                "—" if change is None else f"{change:+.2f} %",
                percent([row["agreement"]]) if row.get("agreement") is not None else "—",
            ]
        )
    head = ["model", "source", "tokens", "Tallow", "llama.cpp", "difference", "same likeliest token"]
    return "\n**Perplexity of English prose** (less is better)\n\n" + markdown(head, rows) if rows else ""


def text(result):
    """Everything between the markers."""
    machine = result["processor"]
    features = ", ".join(machine["features"]) or "no vector extensions known here"
    out = f"Machine: {machine['model']}, {machine['cores']} cores ({features}).\n"
    versions = ", ".join(f"{name} {version}" for name, version in result["engines"].items())
    out += f"Engines: {versions}.\n"
    if result.get("llama_system"):
        out += f"llama.cpp was built with: {result['llama_system']}.\n"
    for name, why in result.get("missing", {}).items():
        out += f"Left out: {name}: {why}.\n"
    for row in result["rows"]:
        if "error" in row:
            out += f"Left out: {row['engine']}, {row['source']} {row['kind']}, {row['threads']} threads: {row['error']}.\n"
    rounds = result["rounds"]
    out += f"{rounds} round{'s' if rounds != 1 else ''}, the engines in turn; each cell is the median, with least and greatest.\n"
    depths = sorted({n for r in result["rows"] for n in r.get("measured", {}).get("decode", {})})
    prompts = sorted({n for r in result["rows"] for n in r.get("measured", {}).get("prefill", {})}, reverse=True)
    tokens = result.get("decode_tokens", 128)
    for depth in depths:
        title = f"Decode, {tokens} tokens at depth {depth}, tokens/s"
        out += rate_table(result, title, ["decode", depth], ["share_of_bandwidth", depth])
    for prompt in prompts:
        out += rate_table(result, f"Prefill of {prompt}, tokens/s", ["prefill", prompt], ["share_of_peak", prompt])
    out += best_table(result, "Open to first token, ms (less is better)", ["first_token_seconds"], 1e3)
    out += best_table(result, "Peak resident memory, MB (less is better)", ["peak_bytes"], 1e-6)
    return out + sizes(result) + quality(result)


def replace(path, table):
    """Puts the table between the markers of a page."""
    page = path.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{path}: has no markers `{BEGIN}` and `{END}` for the table")
    path.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}")
