"""Pools, other sizes of pictures, and channels to space."""

import math

import torch
import torch.nn.functional as F

from common import bad, case, fault, rand, write


def pool(name, mode, size, kernel, stride, padding, kinds=("ordinary",)):
    x = rand(*size, seed=1)
    if mode == "max":
        y = F.max_pool2d(x, kernel, stride, padding)
    else:
        y = F.avg_pool2d(x, kernel, stride, padding, count_include_pad=True)
    fields = {"mode": mode, "kernel": str(kernel), "stride": str(stride), "padding": str(padding)}
    case("Pool", name, fields, {"x": x}, y, 1e-6 * math.sqrt(kernel[0] * kernel[1]), kinds)


for mode in ("max", "avg"):
    pool(f"{mode}_halves", mode, [2, 3, 6, 8], [2, 2], [2, 2], [0, 0])
    pool(f"{mode}_overlaps", mode, [1, 2, 7, 9], [3, 3], [2, 2], [1, 1], kinds=("odd",))
    pool(f"{mode}_asymmetric", mode, [1, 2, 5, 7], [2, 3], [1, 3], [1, 0], kinds=("odd",))
    pool(f"{mode}_one", mode, [1, 1, 1, 1], [1, 1], [1, 1], [0, 0], kinds=("size_one",))
    pool(f"{mode}_whole", mode, [2, 3, 5, 4], [5, 4], [1, 1], [0, 0])
    pool(f"{mode}_mostly_padding", mode, [1, 1, 1, 3], [4, 2], [1, 1], [2, 1], kinds=("size_one", "odd"))
fields = {"mode": "max", "kernel": "[2, 2]", "stride": "[1, 1]", "padding": "[1, 1]"}
x = torch.tensor([[[[-3e38, -float("inf")], [float("nan"), float("inf")]]]], dtype=torch.float64).float().double()
case("Pool", "max_extreme", fields, {"x": x}, F.max_pool2d(x, 2, 1, 1), kinds=("extreme",))
halves = {"mode": "max", "kernel": "[2, 2]", "stride": "[2, 2]", "padding": "[0, 0]"}
bad("Pool", halves | {"padding": "[2, 0]"}, ["f32[1, 3, 8, 8]"], "padding 2 is over half of kernel 2")
bad("Pool", halves | {"stride": "[2, 0]"}, ["f32[1, 3, 8, 8]"], "stride is 0")
bad("Pool", halves | {"kernel": "[0, 2]"}, ["f32[1, 3, 8, 8]"], "kernel is 0")
bad("Pool", halves | {"mode": "min"}, ["f32[1, 3, 8, 8]"], "`min` is unknown")
bad("Pool", halves, ["f32[1, 3, 8, 1]"], "larger than the size 1")
bad("Pool", halves, ["f32[3, 8, 8]"], "expected 4 dimensions")
bad("Pool", halves, ["i64[1, 3, 8, 8]"], "x has the type i64")


def interpolate(name, mode, size, scale, kinds=("ordinary",), tolerance=1e-6):
    """`nearest` with half-pixel centres is PyTorch's `nearest-exact`; its `nearest` has the corner."""
    x = rand(*size, seed=2)
    out = [math.floor(torch.tensor(n, dtype=torch.float32) * torch.tensor(scale, dtype=torch.float32)) for n in size[2:]]
    if mode == "nearest":
        y = F.interpolate(x, size=out, mode="nearest-exact")
    elif mode == "bilinear":
        y = F.interpolate(x, size=out, mode="bilinear", align_corners=False)
    else:
        y = F.interpolate(x, size=out, mode="area")
    case("Interpolate", name, {"mode": mode, "scale": str(scale)}, {"x": x}, y, tolerance, kinds)


for mode in ("nearest", "bilinear", "area"):
    interpolate(f"{mode}_twice", mode, [2, 2, 3, 4], 2)
    interpolate(f"{mode}_half", mode, [1, 2, 6, 8], 0.5)
    interpolate(f"{mode}_half_of_odd", mode, [1, 2, 7, 9], 0.5, kinds=("odd",))
    interpolate(f"{mode}_three_halves", mode, [1, 1, 5, 7], 1.5, kinds=("odd",))
    interpolate(f"{mode}_seven_tenths", mode, [1, 2, 10, 9], 0.7, kinds=("odd",))
    interpolate(f"{mode}_same", mode, [1, 2, 3, 5], 1, kinds=("odd",))
    interpolate(f"{mode}_one", mode, [1, 1, 1, 1], 3.25, kinds=("size_one",))
bad("Interpolate", {"mode": "nearest", "scale": "0"}, ["f32[1, 3, 8, 8]"], "scale is 0")
bad("Interpolate", {"mode": "nearest", "scale": "nan"}, ["f32[1, 3, 8, 8]"], "scale is NaN")
bad("Interpolate", {"mode": "nearest", "scale": "0.1"}, ["f32[1, 3, 8, 8]"], "leaves nothing")
bad("Interpolate", {"mode": "cubic", "scale": "2"}, ["f32[1, 3, 8, 8]"], "`cubic` is unknown")
bad("Interpolate", {"mode": "area", "scale": "2"}, ["f32[3, 8, 8]"], "expected 4 dimensions")
bad("Interpolate", {"mode": "area", "scale": "2"}, ["i64[1, 3, 8, 8]"], "x has the type i64")
fault("Interpolate", "far", {"mode": "area", "scale": "1e6"}, {"x": rand(1, 1, 2, 2)}, "elements are possible")


def shuffle(name, size, factor, kinds=("ordinary",)):
    x = rand(*size, seed=3)
    y = F.pixel_shuffle(x, factor)
    case("PixelShuffle", name, {"factor": str(factor)}, {"x": x}, y, kinds=kinds)
    case("PixelUnshuffle", name, {"factor": str(factor)}, {"x": y}, x, kinds=kinds)
    assert torch.equal(F.pixel_unshuffle(y, factor), x)


shuffle("two", [2, 8, 3, 4], 2)
shuffle("three", [1, 9, 5, 3], 3, kinds=("odd",))
shuffle("one", [1, 1, 1, 1], 1, kinds=("size_one",))
shuffle("single", [1, 4, 1, 1], 2, kinds=("size_one",))
for op in ("PixelShuffle", "PixelUnshuffle"):
    bad(op, {"factor": "0"}, ["f32[1, 4, 2, 2]"], "factor is 0")
    bad(op, {"factor": "2"}, ["f32[4, 2, 2]"], "expected 4 dimensions")
    bad(op, {"factor": "4294967295"}, ["f32[1, 4, 2, 2]"], "too large")
bad("PixelShuffle", {"factor": "2"}, ["f32[1, 10, 2, 2]"], "x has channels 10, no multiple of 4")
bad("PixelUnshuffle", {"factor": "2"}, ["f32[1, 3, 3, 2]"], "x has height 3, no multiple of 2")

bad("Unpatchify", {}, ["f32[1, 196, 768]"], "carries no patch size")
bad("Unpatchify", {}, ["i64[1, 196, 768]"], "carries no patch size")

write()
