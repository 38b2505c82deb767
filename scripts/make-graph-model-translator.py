#!/usr/bin/env python3
"""Makes tests/graphs/translator: a tiny encoder-decoder that is a graph and nothing else.

    python scripts/make-graph-model-translator.py [--out tests/graphs/translator]

Needs `torch` and `safetensors`; it is not part of the tests. The model is made of torch's own
layers (`nn.TransformerEncoder`, `nn.TransformerDecoderLayer`, norms first) with random parameters
and runs in float64, so that the values do not come from our operations. The folder holds:

    graph.txt                  the graph in our text form, sizes B, S (target) and T (source) open
    weights.safetensors        f32, under the names of torch's parameters
    inputs.safetensors         source_ids i64 [B, T], target_ids i64 [B, S], source_mask i64 [B, T]
    outputs.safetensors        logits f32 [B, S, vocabulary]
    inputs2, outputs2          the same for other sizes

A 0 of `source_mask` hides a token of the source from the encoder and from the cross-attention of
the first decoder layer. The second layer sees all of the source, so that `SdpaCross`, which has no
mask, has its place.

Before anything is written it is checked that the mask, the order of the target and each table of
positions change the logits, so that no golden passes by accident.
"""

import argparse
import math
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

WIDTH, HEADS, HIDDEN, VOCABULARY, PLACES, LAYERS = 24, 3, 40, 41, 16, 2
LIMIT = 150_000  # bytes of the folder


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Embedding(VOCABULARY, WIDTH)
        self.target = nn.Embedding(VOCABULARY, WIDTH)
        self.source_place = nn.Embedding(PLACES, WIDTH)
        self.target_place = nn.Embedding(PLACES, WIDTH)
        options = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, **options)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, **options) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, source_ids, target_ids, source_mask):
        hidden = source_mask == 0
        places = torch.arange(PLACES)
        source = self.source(source_ids) + self.source_place(places[: source_ids.shape[1]])
        memory = self.encoder(source, src_key_padding_mask=hidden)
        y = self.target(target_ids) + self.target_place(places[: target_ids.shape[1]])
        n = target_ids.shape[1]
        future = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        for i, layer in enumerate(self.decoder):
            y = layer(y, memory, tgt_mask=future, memory_key_padding_mask=hidden if i == 0 else None)
        # The head is tied to the table of the target.
        return self.norm(y) @ self.target.weight.T


class Text:
    """Statements of the graph, values by name."""

    def __init__(self):
        self.lines = []
        self.weights = {}
        self.count = 0

    def op(self, result, call, attributes=""):
        """One result of the type `result`; gives its name."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"{name}: {result} = {call}{' { ' + attributes + ' }' if attributes else ''}")
        return name

    def weight(self, name, parameters):
        if name not in self.weights:
            shape = ", ".join(str(n) for n in parameters[name].shape)
            self.lines.append(f'weight %{name} = "{name}": f32[{shape}]')
            self.weights[name] = f"%{name}"
        return self.weights[name]


def graph(parameters):
    text = Text()
    d, h = WIDTH, WIDTH // HEADS

    def weight(name):
        return text.weight(name, parameters)

    def norm(x, ty, name):
        return text.op(ty, f"LayerNorm({x}, {weight(name + '.weight')}, {weight(name + '.bias')})", "eps = 0.00001")

    def linear(x, size, matrix, bias):
        product = text.op(f"f32[B, {size}]", f"Matmul({x}, {matrix})")
        return text.op(f"f32[B, {size}]", f"Add({product}, {bias})")

    def heads(x, n):
        split = text.op(f"f32[B, {n}, {HEADS}, {h}]", f"Unflatten({x})", f"axis = -1, sizes = [-1, {h}]")
        return text.op(f"f32[B, {HEADS}, {n}, {h}]", f"Permute({split})", "dims = [0, 2, 1, 3]")

    def merged(x, n, name):
        back = text.op(f"f32[B, {n}, {HEADS}, {h}]", f"Permute({x})", "dims = [0, 2, 1, 3]")
        wide = text.op(f"f32[B, {n}, {d}]", f"Flatten({back})", "start = 2, end = 3")
        return linear(wide, f"{n}, {d}", weight(name + ".out_proj.weight"), weight(name + ".out_proj.bias"))

    def attention(q, k, v, n, mask=None, causal=False):
        if mask is None and not causal:
            return text.op(f"f32[B, {HEADS}, {n}, {h}]", f"SdpaCross({q}, {k}, {v})", f"heads = {HEADS}, head_dim = {h}")
        more = f", {mask}" if mask else ""
        numbers = f"heads = {HEADS}, kv_heads = {HEADS}, head_dim = {h}, causal = {str(causal).lower()}"
        return text.op(f"f32[B, {HEADS}, {n}, {h}]", f"Sdpa({q}, {k}, {v}{more})", numbers)

    def attends_itself(x, n, name, **how):
        all_three = linear(x, f"{n}, {3 * d}", weight(name + ".in_proj_weight"), weight(name + ".in_proj_bias"))
        parts = [f"{all_three}.{part}" for part in "qkv"]
        results = ", ".join(f"{part}: f32[B, {n}, {d}]" for part in parts)
        text.lines.append(f"{results} = Chunk({all_three}) {{ axis = 2, chunks = 3 }}")
        return merged(attention(*(heads(part, n) for part in parts), n, **how), n, name)

    def attends_memory(x, memory, name, **how):
        def rows(start, end, x, n):
            size = end - start
            cut = f"axis = 0, start = {start}, end = {end}"
            matrix = text.op(f"f32[{size}, {d}]", f"Slice({weight(name + '.in_proj_weight')})", cut)
            bias = text.op(f"f32[{size}]", f"Slice({weight(name + '.in_proj_bias')})", cut)
            return linear(x, f"{n}, {size}", matrix, bias)

        q, both = rows(0, d, x, "S"), rows(d, 3 * d, memory, "T")
        results = ", ".join(f"{both}.{part}: f32[B, T, {d}]" for part in "kv")
        text.lines.append(f"{results} = Chunk({both}) {{ axis = 2, chunks = 2 }}")
        kv = [heads(f"{both}.{part}", "T") for part in "kv"]
        return merged(attention(heads(q, "S"), *kv, "S", **how), "S", name)

    def plus(x, y, n):
        return text.op(f"f32[B, {n}, {d}]", f"Add({x}, {y})")

    def feeds_forward(x, n, name):
        up = linear(x, f"{n}, {HIDDEN}", weight(name + ".linear1.weight"), weight(name + ".linear1.bias"))
        act = text.op(f"f32[B, {n}, {HIDDEN}]", f"Gelu({up})", "approximate = false")
        return linear(act, f"{n}, {d}", weight(name + ".linear2.weight"), weight(name + ".linear2.bias"))

    def embed(ids, n, name):
        rows = text.op(f"f32[B, {n}, {d}]", f"TokenEmbed({ids}, {weight(name + '.weight')})")
        return text.op(f"f32[B, {n}, {d}]", f"PosEmbed({rows}, {weight(name + '_place.weight')})")

    text.lines.append("// 0 where a token of the source is seen, negative infinity where it is hidden.")
    zero = text.op("i64[B, T]", "MulScalar(%source_mask)", "value = 0")
    hidden = text.op("bool[B, T]", f"Compare(%source_mask, {zero})", "how = eq")
    seen = text.op("f32[B, T]", f"Cast({zero})", "dtype = f32")
    never = text.op("f32[B, T]", f"AddScalar({seen})", "value = -inf")
    flat = text.op("f32[B, T]", f"Select({hidden}, {never}, {seen})")
    mask = text.op("f32[B, 1, 1, T]", f"Unsqueeze({flat})", "axes = [1, 2]")

    x = embed("%source_ids", "T", "source")
    for i in range(LAYERS):
        name = f"encoder.layers.{i}"
        text.lines.append(f"// Encoder layer {i}.")
        normed = norm(x, f"f32[B, T, {d}]", name + ".norm1")
        x = plus(x, attends_itself(normed, "T", name + ".self_attn", mask=mask), "T")
        x = plus(x, feeds_forward(norm(x, f"f32[B, T, {d}]", name + ".norm2"), "T", name), "T")
    memory = norm(x, f"f32[B, T, {d}]", "encoder.norm")

    y = embed("%target_ids", "S", "target")
    for i in range(LAYERS):
        name = f"decoder.{i}"
        text.lines.append(f"// Decoder layer {i}.")
        normed = norm(y, f"f32[B, S, {d}]", name + ".norm1")
        y = plus(y, attends_itself(normed, "S", name + ".self_attn", causal=True), "S")
        normed = norm(y, f"f32[B, S, {d}]", name + ".norm2")
        how = {"mask": mask} if i == 0 else {}
        y = plus(y, attends_memory(normed, memory, name + ".multihead_attn", **how), "S")
        y = plus(y, feeds_forward(norm(y, f"f32[B, S, {d}]", name + ".norm3"), "S", name), "S")
    y = norm(y, f"f32[B, S, {d}]", "norm")
    logits = text.op(f"f32[B, S, {VOCABULARY}]", f"Matmul({y}, {weight('target.weight')})")
    inputs = ["source_ids: i64[B, T]", "target_ids: i64[B, S]", "source_mask: i64[B, T]"]
    lines = [f"input %{i}" for i in inputs] + text.lines + [f"output logits = {logits}"]
    return "graph {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def example(batch, source, target, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = lambda n: torch.randint(0, VOCABULARY, (batch, n), generator=generator)
    mask = (torch.arange(source)[None, :] < torch.tensor(lengths)[:, None]).long()
    return {"source_ids": ids(source), "target_ids": ids(target), "source_mask": mask}


def check(model, inputs):
    """Each part of the model must matter."""
    logits = model(**inputs)
    assert torch.isfinite(logits).all()
    off = lambda other: ((other - logits).abs().max() / logits.abs().max()).item()
    assert off(model(**inputs | {"source_mask": torch.ones_like(inputs["source_mask"])})) > 1e-2, "the mask"
    ids = inputs["target_ids"]
    later = ids.clone()
    later[:, -1] = (ids[:, -1] + 1) % VOCABULARY
    assert off(model(**inputs | {"target_ids": later})) > 1e-2, "the target"
    assert (model(**inputs | {"target_ids": later}) - logits)[:, :-1].abs().max() == 0, "causality"
    for table in (model.source_place, model.target_place):
        kept = table.weight.data.clone()
        table.weight.data.zero_()
        assert off(model(**inputs)) > 1e-2, "positions"
        table.weight.data.copy_(kept)
    return logits


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", default=Path(__file__).resolve().parents[1] / "tests" / "graphs" / "translator")
    out = Path(arguments.parse_args().out)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    generator = torch.Generator().manual_seed(20)
    model = Translator().double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            spread = 0.8 if p.dim() == 1 else 1.2 / math.sqrt(p.shape[-1]) if "weight" in name else 0.5
            values = torch.randn(p.shape, generator=generator, dtype=torch.float64) * spread
            if "norm" in name and name.endswith("weight"):
                values += 1
            # Multiples of 1/65536, which every encoding of whole tensors holds exactly.
            p.copy_((values * 65536).round() / 65536)
        first = example(2, 7, 5, [7, 4], 1)
        second = example(3, 4, 9, [1, 4, 3], 2)
        results = [check(model, first), check(model, second)]
    out.mkdir(parents=True, exist_ok=True)
    parameters = dict(model.named_parameters())
    (out / "graph.txt").write_text(graph(parameters))
    save_file({n: p.data.float().contiguous() for n, p in sorted(parameters.items())}, out / "weights.safetensors")
    for suffix, inputs, logits in zip(["", "2"], [first, second], results):
        save_file(inputs, out / f"inputs{suffix}.safetensors")
        save_file({"logits": logits.float().contiguous()}, out / f"outputs{suffix}.safetensors")
    for file in out.iterdir():
        file.chmod(0o644)
    size = sum(file.stat().st_size for file in out.iterdir())
    assert size < LIMIT, f"{size} bytes"
    print(f"{out}: {size} bytes, {len(parameters)} weights")


if __name__ == "__main__":
    main()
