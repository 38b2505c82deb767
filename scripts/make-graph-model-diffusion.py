#!/usr/bin/env python3
"""Makes tests/graphs/diffusion: one step of a tiny diffusion transformer that is a graph and nothing else.

    python scripts/make-graph-model-diffusion.py [--out tests/graphs/diffusion]

Needs `torch` and `safetensors`; it is not part of the tests. The model is made of torch's modules with
random parameters and runs in float64, so that the values do not come from our operations: a transformer
over patches of a latent picture (Peebles and Xie 2023), whose norms are scaled and shifted by the time and a
class, with attention to the rows of a text, and one Euler step along the velocity that it predicts. The folder
holds:

    graph.txt                  the graph in our text form, sizes B (pictures) and T (rows of the text) open
    weights.safetensors        f32, under the names of torch's parameters
    inputs.safetensors         latent f32 [B, 4, 8, 8], t f32 [B], dt f32 [B], label i64 [B],
                               context f32 [B, T, 12]
    outputs.safetensors        x_next f32 [B, 4, 8, 8], denoised f32 [B, 4, 8, 8]
    inputs2, outputs2          the same for other sizes

`x_next` is the latent after the step of length `dt`; `denoised` is the picture without noise that the
velocity stands for at time `t` of the cosine schedule.

Before anything is written it is checked that every input changes every result, so that no golden passes
by accident.
"""

import argparse
import math
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

CHANNELS, SIZE, PATCH = 4, 8, 2
WIDTH, HEADS, HIDDEN, LAYERS = 24, 3, 48, 2
TEXT, CLASSES, TIMES = 12, 6, 16
SIDE = SIZE // PATCH
PATCHES, HEAD = SIDE * SIDE, WIDTH // HEADS
LIMIT = 150_000  # bytes of the folder


def modulated(x, scale, shift):
    return F.layer_norm(x, (WIDTH,), eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


def split(x):
    return x.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.modulation = nn.Linear(WIDTH, 6 * WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.cross_norm = nn.LayerNorm(WIDTH)
        self.cross_q = nn.Linear(WIDTH, WIDTH)
        self.cross_kv = nn.Linear(TEXT, 2 * WIDTH)
        self.cross_proj = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x, condition, context):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(F.silu(condition)).chunk(6, dim=1)
        q, k, v = (split(part) for part in self.qkv(modulated(x, scale1, shift1)).chunk(3, dim=-1))
        x = x + gate1[:, None] * self.proj(merged(F.scaled_dot_product_attention(q, k, v)))
        q = split(self.cross_q(self.cross_norm(x)))
        k, v = (split(part) for part in self.cross_kv(context).chunk(2, dim=-1))
        x = x + self.cross_proj(merged(F.scaled_dot_product_attention(q, k, v)))
        hidden = F.gelu(self.up(modulated(x, scale2, shift2)), approximate="tanh")
        return x + gate2[:, None] * self.down(hidden)


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(CHANNELS, WIDTH, PATCH, stride=PATCH)
        self.place = nn.Embedding(PATCHES, WIDTH)
        self.time1 = nn.Linear(TIMES, WIDTH)
        self.time2 = nn.Linear(WIDTH, WIDTH)
        self.label = nn.Embedding(CLASSES, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.modulation = nn.Linear(WIDTH, 2 * WIDTH)
        self.out = nn.Linear(WIDTH, CHANNELS * PATCH * PATCH)

    def forward(self, latent, t, dt, label, context):
        frequencies = 10000.0 ** (-torch.arange(TIMES // 2, dtype=torch.float64) / (TIMES // 2))
        angles = 1000 * t[:, None] * frequencies
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        condition = self.time2(F.silu(self.time1(waves))) + self.label(label)
        x = self.patch(latent).flatten(2).transpose(1, 2) + self.place.weight
        for block in self.blocks:
            x = block(x, condition, context)
        shift, scale = self.modulation(F.silu(condition)).chunk(2, dim=1)
        x = self.out(modulated(x, scale, shift))
        velocity = x.unflatten(1, (SIDE, SIDE)).unflatten(-1, (CHANNELS, PATCH, PATCH))
        velocity = velocity.permute(0, 3, 1, 4, 2, 5).reshape(-1, CHANNELS, SIZE, SIZE)
        wide = lambda value: value[:, None, None, None]
        alpha, sigma = torch.cos(math.pi / 2 * t), torch.sin(math.pi / 2 * t)
        return {
            "x_next": latent + velocity * wide(dt),
            "denoised": wide(alpha) * latent - wide(sigma) * velocity,
        }


class Text:
    """Statements of the graph, values by name."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.lines = []
        self.weights = {}
        self.count = 0

    def op(self, shape, call, attributes=""):
        """One f32 result; gives its name."""
        self.count += 1
        name = f"%v{self.count}"
        self.lines.append(f"{name}: f32[{shape}] = {call}{' { ' + attributes + ' }' if attributes else ''}")
        return name

    def weight(self, name):
        if name not in self.weights:
            shape = ", ".join(str(n) for n in self.parameters[name].shape)
            self.lines.append(f'weight %{name} = "{name}": f32[{shape}]')
            self.weights[name] = f"%{name}"
        return self.weights[name]

    def linear(self, x, shape, name):
        product = self.op(shape, f"Matmul({x}, {self.weight(name + '.weight')})")
        return self.op(shape, f"Add({product}, {self.weight(name + '.bias')})")

    def chunk(self, x, shape, axis, n):
        parts = [f"{x}.{i}" for i in range(n)]
        results = ", ".join(f"{part}: f32[{shape}]" for part in parts)
        self.lines.append(f"{results} = Chunk({x}) {{ axis = {axis}, chunks = {n} }}")
        return parts

    def modulations(self, condition, n, name):
        active = self.op(f"B, {WIDTH}", f"Silu({condition})")
        return self.chunk(self.linear(active, f"B, {n * WIDTH}", name), f"B, {WIDTH}", 1, n)


def graph(parameters):
    text = Text(parameters)
    rows = f"B, {PATCHES}, {WIDTH}"

    def heads(x, n):
        parts = text.op(f"B, {n}, {HEADS}, {HEAD}", f"Unflatten({x})", f"axis = -1, sizes = [{HEADS}, -1]")
        return text.op(f"B, {HEADS}, {n}, {HEAD}", f"Permute({parts})", "dims = [0, 2, 1, 3]")

    def joined(x, name):
        back = text.op(f"B, {PATCHES}, {HEADS}, {HEAD}", f"Permute({x})", "dims = [0, 2, 1, 3]")
        wide = text.op(rows, f"Reshape({back})", f"shape = [-1, {PATCHES}, {WIDTH}]")
        return text.linear(wide, rows, name)

    def gated(x, gate, y):
        gate = text.op(f"B, 1, {WIDTH}", f"Reshape({gate})", f"shape = [-1, 1, {WIDTH}]")
        return text.op(rows, f"Add({x}, {text.op(rows, f'Mul({y}, {gate})')})")

    text.lines.append("// What the time and the class ask for.")
    scaled = text.op("B", "MulScalar(%t)", "value = 1000")
    waves = text.op(f"B, {TIMES}", f"SinusoidalEmbed({scaled})", f"dim = {TIMES}")
    active = text.op(f"B, {WIDTH}", f"Silu({text.linear(waves, f'B, {WIDTH}', 'time1')})")
    time = text.linear(active, f"B, {WIDTH}", "time2")
    label = text.op(f"B, {WIDTH}", f"TokenEmbed(%label, {text.weight('label.weight')})")
    condition = text.op(f"B, {WIDTH}", f"Add({time}, {label})")

    text.lines.append("// Patches as rows.")
    operands = f"%latent, {text.weight('patch.weight')}, {text.weight('patch.bias')}"
    patches = text.op(f"B, {WIDTH}, {SIDE}, {SIDE}", f"PatchEmbed({operands})", f"patch = {PATCH}")
    flat = text.op(f"B, {WIDTH}, {PATCHES}", f"Reshape({patches})", f"shape = [-1, {WIDTH}, {PATCHES}]")
    x = text.op(rows, f"Transpose({flat})", "perm = [0, 2, 1]")
    x = text.op(rows, f"PosEmbed({x}, {text.weight('place.weight')})")

    for i in range(LAYERS):
        name = f"blocks.{i}"
        text.lines.append(f"// Block {i}.")
        shift1, scale1, gate1, shift2, scale2, gate2 = text.modulations(condition, 6, name + ".modulation")
        normed = text.op(rows, f"AdaLN({x}, {scale1}, {shift1})")
        qkv = text.linear(normed, f"B, {PATCHES}, {3 * WIDTH}", name + ".qkv")
        q, k, v = (heads(part, PATCHES) for part in text.chunk(qkv, rows, 2, 3))
        numbers = f"heads = {HEADS}, kv_heads = {HEADS}, head_dim = {HEAD}, causal = false"
        y = text.op(f"B, {HEADS}, {PATCHES}, {HEAD}", f"Sdpa({q}, {k}, {v})", numbers)
        x = gated(x, gate1, joined(y, name + ".proj"))

        parts = ", ".join(text.weight(f"{name}.cross_norm.{part}") for part in ("weight", "bias"))
        normed = text.op(rows, f"LayerNorm({x}, {parts})", "eps = 1e-5")
        q = heads(text.linear(normed, rows, name + ".cross_q"), PATCHES)
        kv = text.linear("%context", f"B, T, {2 * WIDTH}", name + ".cross_kv")
        k, v = (heads(part, "T") for part in text.chunk(kv, f"B, T, {WIDTH}", 2, 2))
        numbers = f"heads = {HEADS}, head_dim = {HEAD}"
        y = text.op(f"B, {HEADS}, {PATCHES}, {HEAD}", f"SdpaCross({q}, {k}, {v})", numbers)
        x = text.op(rows, f"Add({x}, {joined(y, name + '.cross_proj')})")

        normed = text.op(rows, f"AdaLN({x}, {scale2}, {shift2})")
        up = text.linear(normed, f"B, {PATCHES}, {HIDDEN}", name + ".up")
        act = text.op(f"B, {PATCHES}, {HIDDEN}", f"Gelu({up})", "approximate = true")
        x = gated(x, gate2, text.linear(act, rows, name + ".down"))

    text.lines.append("// Rows as patches of the velocity.")
    shift, scale = text.modulations(condition, 2, "modulation")
    normed = text.op(rows, f"AdaLN({x}, {scale}, {shift})")
    flat = text.linear(normed, f"B, {PATCHES}, {CHANNELS * PATCH * PATCH}", "out")
    sizes = [SIDE, SIDE, CHANNELS, PATCH, PATCH]
    parts = text.op(f"B, {', '.join(map(str, sizes))}", f"Reshape({flat})", f"shape = {[-1, *sizes]}")
    order = text.op(f"B, {CHANNELS}, {SIDE}, {PATCH}, {SIDE}, {PATCH}", f"Permute({parts})", "dims = [0, 3, 1, 4, 2, 5]")
    picture = f"B, {CHANNELS}, {SIZE}, {SIZE}"
    velocity = text.op(picture, f"Reshape({order})", f"shape = [-1, {CHANNELS}, {SIZE}, {SIZE}]")

    text.lines.append("// The step, and the picture that the velocity stands for.")
    wide = lambda value: text.op("B, 1, 1, 1", f"Reshape({value})", "shape = [-1, 1, 1, 1]")
    x_next = text.op(picture, f"FlowStep(%latent, {velocity}, {wide('%dt')})")
    text.lines.append("%alpha: f32[B], %sigma: f32[B] = NoiseSchedule(%t)")
    kept = text.op(picture, f"Mul(%latent, {wide('%alpha')})")
    noise = text.op(picture, f"Mul({velocity}, {wide('%sigma')})")
    denoised = text.op(picture, f"Sub({kept}, {noise})")
    inputs = [
        f"latent: f32[{picture}]",
        "t: f32[B]",
        "dt: f32[B]",
        "label: i64[B]",
        f"context: f32[B, T, {TEXT}]",
    ]
    lines = [f"input %{i}" for i in inputs] + text.lines
    lines += [f"output x_next = {x_next}", f"output denoised = {denoised}"]
    return "graph {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def example(batch, words, times, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    random = lambda *shape: torch.randn(*shape, generator=generator).double()
    return {
        "latent": random(batch, CHANNELS, SIZE, SIZE),
        "t": torch.tensor(times, dtype=torch.float64),
        "dt": torch.tensor(steps, dtype=torch.float64),
        "label": torch.randint(0, CLASSES, (batch,), generator=generator),
        "context": random(batch, words, TEXT),
    }


def check(model, inputs):
    """Each input must matter to each result but the length of the step to what it does not enter."""
    results = model(**inputs)
    for name, value in inputs.items():
        other = (value + 1) % CLASSES if name == "label" else value + 0.1 * (1 + value.abs())
        changed = model(**inputs | {name: other})
        for result, had in results.items():
            assert torch.isfinite(had).all()
            off = ((changed[result] - had).abs().max() / had.abs().max()).item()
            assert off > 1e-2 or (name, result) == ("dt", "denoised"), f"{name} does not change {result}: {off}"
    return results


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", default=Path(__file__).resolve().parents[1] / "tests" / "graphs" / "diffusion")
    out = Path(arguments.parse_args().out)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(30)
    model = Diffusion().double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            spread = 0.3 if p.dim() == 1 else 1.2 / math.sqrt(p[0].numel())
            values = torch.randn(p.shape, generator=generator, dtype=torch.float64) * spread
            if name.endswith("norm.weight"):
                values += 1
            # Multiples of 1/65536, which every encoding of whole tensors holds exactly.
            p.copy_((values * 65536).round() / 65536)
        first = example(2, 5, [0.125, 0.75], [0.25, -0.125], 1)
        second = example(3, 1, [0.5, 0.9375, 0.0625], [0.5, 1.0, 0.125], 2)
        results = [check(model, first), check(model, second)]
    out.mkdir(parents=True, exist_ok=True)
    plain = lambda t: {n: (v.float() if v.is_floating_point() else v).contiguous() for n, v in sorted(t.items())}
    parameters = {name: p.data for name, p in model.named_parameters()}
    (out / "graph.txt").write_text(graph(parameters))
    save_file(plain(parameters), out / "weights.safetensors")
    for suffix, inputs, outputs in zip(["", "2"], [first, second], results):
        save_file(plain(inputs), out / f"inputs{suffix}.safetensors")
        save_file(plain(outputs), out / f"outputs{suffix}.safetensors")
    for file in out.iterdir():
        file.chmod(0o644)
    size = sum(file.stat().st_size for file in out.iterdir())
    assert size < LIMIT, f"{size} bytes"
    print(f"{out}: {size} bytes, {len(parameters)} weights")


if __name__ == "__main__":
    main()
