"""Rope and RopeScaled: every scaling against transformers' frequencies, every layout, both kinds of pairs."""

import torch
from common import bad, case, fault, rand, write
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

# Angles are computed in single precision, as transformers does: one near 12 is off by up to 7e-7.
TOLERANCE = 3e-6
BASE = 10000.0


def turn(x, positions, frequencies, factor=1.0, interleaved=False):
    """x [tokens, heads, head_dim]; pairs (j, j + n) or (2j, 2j + 1), the rest of the head stays."""
    n = len(frequencies)
    angles = positions.double()[:, None, None] * torch.as_tensor(frequencies).double()
    cos, sin = angles.cos() * factor, angles.sin() * factor
    y = x.clone()
    a, b = (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if interleaved else (slice(0, n), slice(n, 2 * n))
    y[..., a] = x[..., a] * cos - x[..., b] * sin
    y[..., b] = x[..., b] * cos + x[..., a] * sin
    return y


def plain(width, rotary=None, base=BASE):
    """Frequencies of `width/2` pairs, of which the first `rotary/2` turn."""
    f = base ** (-2.0 * torch.arange(width // 2, dtype=torch.float64) / width)
    return torch.where(torch.arange(width // 2) < (width if rotary is None else rotary) // 2, f, 0.0)


def rope(head_dim, rope_dim, base=BASE):
    return {"head_dim": str(head_dim), "rope_dim": str(rope_dim), "base": str(base)}


def layouts(op, name, attributes, head_dim, heads, positions, y, kinds=("ordinary",)):
    """One text in the three layouts; `y` maps [tokens, heads, head_dim] to the same."""
    x = rand(len(positions), heads, head_dim, seed=1)
    out = y(x)
    case(op, name, attributes, {"x": x, "pos": positions}, out, TOLERANCE, kinds)
    rows = {"x": x.reshape(-1, head_dim), "pos": positions}
    case(op, f"{name}_rows", attributes, rows, out.reshape(-1, head_dim), TOLERANCE, kinds)
    batch = torch.stack([x, x.flip(2)]).transpose(1, 2)
    both = torch.stack([out, y(x.flip(2))]).transpose(1, 2)
    case(op, f"{name}_batch", attributes, {"x": batch, "pos": positions}, both, TOLERANCE, kinds)


places = torch.tensor([3, 4, 9])
layouts("Rope", "whole", rope(8, 8), 8, 2, places, lambda x: turn(x, places, plain(8)))
layouts("Rope", "proportional", rope(12, 4), 12, 3, places, lambda x: turn(x, places, plain(12, 4)), ["odd"])
one = torch.tensor([5])
layouts("Rope", "size_one", rope(2, 2), 2, 1, one, lambda x: turn(x, one, plain(2)), ["size_one"])
back = torch.tensor([0, -7])
layouts("Rope", "negative_places", rope(6, 6, 100.0), 6, 1, back, lambda x: turn(x, back, plain(6, base=100.0)), ["odd"])
# One position counts up over the tokens.
x = rand(4, 2, 8, seed=2)
case("Rope", "counts_up", rope(8, 8), {"x": x, "pos": torch.tensor(6)}, turn(x, torch.arange(6, 10), plain(8)), TOLERANCE)
case("Rope", "counts_up_from_a_vector", rope(8, 8), {"x": x, "pos": torch.tensor([6])}, turn(x, torch.arange(6, 10), plain(8)), TOLERANCE)
# Without an input of `S` tokens a call is of one token, and all its rows are heads of it.
case("Rope", "rows_of_one_token", rope(8, 8), {"x": x.reshape(-1, 8), "pos": torch.tensor(6)}, turn(x.reshape(1, 8, 8), torch.tensor([6]), plain(8)).reshape(-1, 8), TOLERANCE)
case("Rope", "nothing_turns", rope(8, 0), {"x": x, "pos": torch.tensor(6)}, x, 0.0)
bad("Rope", rope(8, 10), ["f32[S, 2, 8]", "i64[]"], "rope_dim 10 of head_dim 8")
bad("Rope", rope(7, 4), ["f32[S, 2, 7]", "i64[]"], "both must be even")
bad("Rope", rope(8, 8, 0.0), ["f32[S, 2, 8]", "i64[]"], "base is 0")
bad("Rope", rope(8, 8, "inf"), ["f32[S, 2, 8]", "i64[]"], "base is inf")
bad("Rope", rope(8, 8), ["f32[S, 2, 9]", "i64[]"], "the last dimension of x is 9")
bad("Rope", rope(8, 8), ["f32[8]", "i64[]"], "x has shape [8]")
bad("Rope", rope(8, 8), ["i64[S, 2, 8]", "i64[]"], "x has the type i64")
bad("Rope", rope(8, 8), ["f32[S, 2, 8]", "bool[]"], "pos has the type bool")
bad("Rope", rope(8, 8), ["f32[3, 2, 8]", "i64[2]"], "pos has 2 positions")
bad("Rope", rope(8, 8), ["f32[3, 2, 8]", "i64[1, 3]"], "pos has shape [1, 3]")
fault("Rope", "part_of_a_place", rope(8, 8), {"x": x, "pos": torch.tensor(1.5)}, "position 1.5 is no whole number")
fault("Rope", "past_the_integers", rope(8, 8), {"x": x, "pos": torch.tensor(2**63 - 2)}, "run past the last integer")


def scaled(head_dim, rope_dim, scaling, **numbers):
    zeros = {"factor": 1.0, "original": 0, "low": 0.0, "high": 0.0, "attention_factor": 1.0}
    lists = {"interleaved": "false", "short": "[]", "long": "[]", "base": BASE}
    values = {"scaling": scaling} | zeros | lists | numbers
    return rope(head_dim, rope_dim) | {name: str(value) for name, value in values.items()}


def theirs(kind, width, length=None, longest=64, **parameters):
    """transformers' frequencies of a head of `width` and factor on cosines and sines."""
    parameters = {"rope_type": kind, "rope_theta": BASE} | parameters
    config = LlamaConfig(hidden_size=width, num_attention_heads=1, head_dim=width, max_position_embeddings=longest, rope_parameters=parameters)
    return ROPE_INIT_FUNCTIONS[kind](config, device="cpu", seq_len=length)


def add(name, head_dim, attributes, frequencies, factor=1.0, interleaved=False, kinds=("ordinary",), positions=places):
    layouts("RopeScaled", name, attributes, head_dim, 2, positions, lambda x: turn(x, positions, frequencies, factor, interleaved), kinds)


for interleaved in (False, True):
    word, text = ("interleaved" if interleaved else "halves"), str(interleaved).lower()
    add(f"none_{word}", 8, scaled(8, 8, "none", interleaved=text), plain(8), interleaved=interleaved)
    add(f"prefix_{word}", 10, scaled(10, 6, "none", interleaved=text, attention_factor=0.5), plain(6), 0.5, interleaved, ["odd"])
add("size_one", 2, scaled(2, 2, "none"), plain(2), kinds=["size_one"], positions=one)
add("nothing_turns", 4, scaled(4, 0, "none"), torch.zeros(0))
linear, _ = theirs("linear", 8, factor=4.0)
add("linear", 8, scaled(8, 8, "linear", factor=4.0), linear)
# `original` is 6: places up to 4 are inside, up to 9 past it.
inside = torch.tensor([2, 3, 4])
for name, positions in (("inside", inside), ("past", places)):
    length = int(positions.max()) + 1
    frequencies, _ = theirs("dynamic", 8, length, 6, factor=4.0)
    add(f"dynamic_{name}", 8, scaled(8, 8, "dynamic", factor=4.0, original=6), frequencies, positions=positions)
    short, long = [1.0, 1.5, 2.0, 4.0], [1.0, 2.5, 5.0, 9.0]
    frequencies, factor = theirs("longrope", 8, length, factor=4.0, short_factor=short, long_factor=long, attention_factor=1.25, original_max_position_embeddings=6)
    assert factor == 1.25
    add(f"longrope_{name}", 8, scaled(8, 8, "longrope", original=6, attention_factor=1.25, short=short, long=long), frequencies, factor, positions=positions)
for truncate, name in ((True, "yarn"), (False, "yarn_exact")):
    frequencies, _ = theirs("yarn", 16, factor=4.0, beta_slow=1.0, beta_fast=32.0, truncate=truncate, original_max_position_embeddings=128, attention_factor=1.0)
    add(name, 16, scaled(16, 16, name, factor=4.0, original=128, low=1.0, high=32.0, attention_factor=1.139), frequencies, 1.139)
frequencies, _ = theirs("llama3", 16, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=128)
add("llama3", 16, scaled(16, 16, "llama3", factor=8.0, original=128, low=1.0, high=4.0), frequencies)
add("factors", 8, scaled(8, 8, "factors", short=[1.0, 2.0, 4.0, 8.0]), plain(8) / torch.tensor([1.0, 2.0, 4.0, 8.0]))

operands = ["f32[S, 2, 8]", "i64[]"]
for scaling in ("linear", "dynamic", "yarn", "yarn_exact", "llama3"):
    usable = {"original": 64, "low": 1.0, "high": 4.0}
    bad("RopeScaled", scaled(8, 8, scaling, **usable | {"factor": 0.0}), operands, f"factor is 0, the scaling {scaling}")
    bad("RopeScaled", scaled(8, 8, scaling, **usable | {"factor": -1.0}), operands, "factor is -1")
    bad("RopeScaled", scaled(8, 8, scaling, **usable | {"factor": "nan"}), operands, "factor is NaN")
for scaling in ("dynamic", "yarn", "yarn_exact", "llama3", "longrope"):
    bad("RopeScaled", scaled(8, 8, scaling, factor=2.0, low=1.0, high=4.0), operands, "original is 0")
for field in ("low", "high", "attention_factor"):
    bad("RopeScaled", scaled(8, 8, "none", **{field: "inf"}), operands, f"{field} is inf")
bad("RopeScaled", scaled(8, 8, "factors", short=[1.0, 2.0]), operands, "`short` has 2 factors, expected 4")
bad("RopeScaled", scaled(8, 8, "longrope", original=4, long=[1.0, 0.0, 1.0, 1.0]), operands, "`long` holds 0")
bad("RopeScaled", scaled(8, 8, "factors", short="[1, 1, inf, 1]"), operands, "`short` holds inf")
bad("RopeScaled", scaled(8, 8, "llama3", factor=2.0, original=64, low=2.0, high=2.0), operands, "low and high are both 2")
bad("RopeScaled", scaled(8, 8, "yarn", factor=2.0, original=64, low=0.0, high=2.0), operands, "needs numbers above 0")
bad("RopeScaled", scaled(8, 8, "spiral"), operands, "`spiral` is unknown")
bad("RopeScaled", scaled(8, 8, "none"), ["f32[S, 8, 2]", "i64[]"], "the last dimension of x is 2")
bad("RopeScaled", scaled(8, 8, "none"), ["bool[S, 2, 8]", "i64[]"], "x has the type bool")
fault("RopeScaled", "not_a_number", scaled(8, 8, "none"), {"x": x, "pos": torch.tensor(float("nan"))}, "position NaN is no whole number")

write()
