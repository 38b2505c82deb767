"""Normalisations over the last dimension, over channels, and their fused forms."""

import torch
from common import bad, case, rand, write

F = torch.nn.functional
EPS = 1e-5


def eps(value=EPS):
    return {"eps": str(value)}


def rms(x, g, e=EPS):
    y = x / (x.pow(2).mean(-1, keepdim=True) + e).sqrt() * g
    assert torch.allclose(y, F.rms_norm(x, g.shape, g, e))
    return y


# Sums over up to 9 values; the mean is taken away before squaring.
TOLERANCE = 3e-6

for name, shape, kinds in (
    ("matrix", (4, 8), ["ordinary"]),
    ("batch", (2, 3, 6), ["ordinary"]),
    ("vector", (8,), ["ordinary"]),
    ("odd", (3, 5, 7), ["odd"]),
    ("size_one", (1, 1), ["size_one"]),
):
    x, g, b = rand(*shape), rand(shape[-1], seed=1), rand(shape[-1], seed=2)
    case("RmsNorm", name, eps(), {"x": x, "g": g}, rms(x, g), TOLERANCE, kinds)
    case("LayerNorm", name, eps(), {"x": x, "g": g, "b": b}, F.layer_norm(x, g.shape, g, b, EPS), TOLERANCE, kinds)
    skip = rand(*shape, seed=3)
    case("FusedSkipNorm", name, eps(), {"x": x, "skip": skip, "g": g}, [rms(x + skip, g), x + skip], TOLERANCE, kinds)
    w = rand(3, shape[-1], seed=4)
    # A sum over the products of a norm.
    case("FusedNormMatmul", name, eps(), {"x": x, "g": g, "W": w}, rms(x, g) @ w.T, 2 * TOLERANCE, kinds)
x, g, b = rand(3, 8) * 1e15, rand(8, seed=1), rand(8, seed=2)
x = x.float().double()
case("RmsNorm", "extreme", eps(), {"x": x, "g": g}, rms(x, g), TOLERANCE, ["extreme"])
case("LayerNorm", "extreme", eps(), {"x": x, "g": g, "b": b}, F.layer_norm(x, (8,), g, b, EPS), TOLERANCE, ["extreme"])
shifted = (rand(3, 8) + 1000.0).float().double()
case("LayerNorm", "far_from_zero", eps(), {"x": shifted, "g": g, "b": b}, F.layer_norm(shifted, (8,), g, b, EPS), TOLERANCE, ["extreme"])
zero = torch.zeros(2, 8).double()
case("RmsNorm", "zeros", eps(1e-6), {"x": zero, "g": g}, zero, 0.0, ["extreme"])
case("LayerNorm", "zeros", eps(1e-6), {"x": zero, "g": g, "b": b}, b.expand(2, 8), 0.0, ["extreme"])
case("RmsNorm", "eps_of_one", eps(1.0), {"x": rand(3, 8), "g": g}, rms(rand(3, 8), g, 1.0), TOLERANCE)
for op, more in (("RmsNorm", []), ("LayerNorm", ["f32[8]"])):
    bad(op, eps("-1"), ["f32[S, 8]", "f32[8]", *more], "eps is -1")
    bad(op, eps("nan"), ["f32[S, 8]", "f32[8]", *more], "eps is NaN")
    bad(op, eps(), ["f32[S, 8]", "f32[7]", *more], "the length of g is 7, expected 8")
    bad(op, eps(), ["f32[S, 8]", "f32[1, 8]", *more], "g has shape [1, 8]")
    bad(op, eps(), ["i64[S, 8]", "f32[8]", *more], "x has the type i64")
    bad(op, eps(), ["f32[]", "f32[8]", *more], "x is a scalar")
bad("LayerNorm", eps(), ["f32[S, 8]", "f32[8]", "f32[7]"], "the length of b is 7")
bad("FusedSkipNorm", eps("inf"), ["f32[S, 8]", "f32[S, 8]", "f32[8]"], "eps is inf")
bad("FusedSkipNorm", eps(), ["f32[S, 8]", "f32[8]", "f32[8]"], "they must agree")
bad("FusedSkipNorm", eps(), ["i64[S, 8]", "i64[S, 8]", "f32[8]"], "x has the type i64")
bad("FusedNormMatmul", eps("-1"), ["f32[S, 8]", "f32[8]", "f32[4, 8]"], "eps is -1")
bad("FusedNormMatmul", eps(), ["f32[S, 8]", "f32[8]", "f32[4, 7]"], "the last dimension of W is 7")
bad("FusedNormMatmul", eps(), ["f32[S, 8]", "bool[8]", "f32[4, 8]"], "g has the type bool")

def by_groups(x, groups, g, b):
    """PyTorch's group norm, by its formula where PyTorch refuses groups of one value."""
    parts = x.reshape(x.shape[0], groups, -1)
    parts = (parts - parts.mean(-1, keepdim=True)) / (parts.var(-1, unbiased=False, keepdim=True) + EPS).sqrt()
    spread = lambda t: t.reshape(-1, *[1] * (x.dim() - 2))
    y = parts.reshape(x.shape) * spread(g) + spread(b)
    if parts.shape[-1] > 1:
        assert torch.allclose(y, F.group_norm(x, groups, g, b, EPS))
    return y


# Over channels.
for name, shape, groups, kinds in (
    ("pictures", (2, 6, 3, 4), 3, ["ordinary"]),
    ("signals", (3, 4, 5), 2, ["ordinary"]),
    ("volumes", (1, 4, 2, 3, 2), 4, ["odd"]),
    ("rows", (3, 6), 2, ["odd"]),
    ("one_group", (2, 5, 7), 1, ["odd"]),
    ("size_one", (1, 1, 1), 1, ["size_one"]),
):
    c = shape[1]
    x, g, b = rand(*shape), rand(c, seed=1), rand(c, seed=2)
    mean, var = rand(c, seed=3), rand(c, seed=4, low=0.1)
    operands = {"x": x, "g": g, "b": b}
    batch = F.batch_norm(x, mean, var, g, b, False, 0.1, EPS)
    case("BatchNorm", name, eps() | {"momentum": "0.1"}, operands | {"mean": mean, "var": var}, batch, TOLERANCE, kinds)
    # Groups of up to 36 values.
    grouped = by_groups(x, groups, g, b)
    case("GroupNorm", name, eps() | {"groups": str(groups)}, operands, grouped, 6e-6, kinds)
    each = by_groups(x, c, g, b)
    if len(shape) > 2 and x[0, 0].numel() > 1:
        assert torch.allclose(each, F.instance_norm(x, weight=g, bias=b, eps=EPS))
    case("InstanceNorm", name, eps(), operands, each, TOLERANCE, kinds)
three = ["f32[N, 8, H, W]", "f32[8]", "f32[8]"]
for op, fields, more in (("BatchNorm", {"momentum": "0.1"}, ["f32[8]"] * 2), ("GroupNorm", {"groups": "4"}, []), ("InstanceNorm", {}, [])):
    bad(op, eps("-1") | fields, three + more, "eps is -1")
    bad(op, eps() | fields, ["f32[8]", "f32[8]", "f32[8]", *more], "expected [N, C, …]")
    bad(op, eps() | fields, ["f32[N, 8, L]", "f32[8]", "f32[9]", *more], "b has shape [9], expected [8]")
    bad(op, eps() | fields, ["i64[N, 8, L]", "f32[8]", "f32[8]", *more], "x has the type i64")
bad("BatchNorm", eps() | {"momentum": "0.1"}, [*three, "f32[8]", "f32[7]"], "var has shape [7]")
bad("GroupNorm", eps() | {"groups": "3"}, three, "8 channels are no multiple of 3 groups")
bad("GroupNorm", eps() | {"groups": "0"}, three, "0 groups")

# AdaLN: one row of scales for all, one per sample, one per place.
x = rand(2, 3, 8)
normed = F.layer_norm(x, (8,), eps=1e-6)
for name, of_scale, of_shift, kinds in (
    ("one_row", (8,), (8,), ["broadcast"]),
    ("row_per_sample", (2, 8), (2, 8), ["broadcast"]),
    ("row_per_sample_spread", (2, 1, 8), (2, 1, 8), ["broadcast"]),
    ("row_per_place", (2, 3, 8), (2, 3, 8), ["ordinary"]),
    ("mixed", (2, 8), (8,), ["broadcast"]),
    ("one_sample", (1, 8), (1, 3, 1), ["broadcast"]),
):
    scale, shift = rand(*of_scale, seed=1), rand(*of_shift, seed=2)
    spread = lambda t: t[:, None] if t.dim() == 2 else t
    case("AdaLN", name, {}, {"x": x, "scale": scale, "shift": shift}, normed * (1 + spread(scale)) + spread(shift), TOLERANCE, kinds)
square = rand(3, 3, 5)
scale, shift = rand(3, 5, seed=1), rand(3, 5, seed=2)
case("AdaLN", "samples_before_places", {}, {"x": square, "scale": scale, "shift": shift}, F.layer_norm(square, (5,), eps=1e-6) * (1 + scale[:, None]) + shift[:, None], TOLERANCE, ["odd"])
case("AdaLN", "matrix", {}, {"x": square[0], "scale": scale, "shift": shift}, F.layer_norm(square[0], (5,), eps=1e-6) * (1 + scale) + shift, TOLERANCE, ["odd"])
case("AdaLN", "pictures", {}, {"x": rand(2, 2, 2, 4), "scale": rand(2, 4), "shift": rand(4)}, F.layer_norm(rand(2, 2, 2, 4), (4,), eps=1e-6) * (1 + rand(2, 4)[:, None, None]) + rand(4), TOLERANCE, ["broadcast"])
case("AdaLN", "size_one", {}, {"x": rand(1, 1), "scale": rand(1), "shift": rand(1, seed=2)}, rand(1, seed=2)[None], TOLERANCE, ["size_one"])
bad("AdaLN", {}, ["f32[S, 8]", "f32[7]", "f32[8]"], "scale has shape [7]")
bad("AdaLN", {}, ["f32[B, S, 8]", "f32[8]", "f32[S, 8]"], "shift has shape [S, 8], which does not broadcast to [B, 8]")
bad("AdaLN", {}, ["f32[S, 8]", "i64[8]", "f32[8]"], "scale has the type i64")
bad("AdaLN", {}, ["f32[]", "f32[8]", "f32[8]"], "x is a scalar")

write()
