"""Convolutions and transposed convolutions of every rank."""

import math

import torch
import torch.nn.functional as F

from common import bad, case, fault, rand, write

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def spelt(value):
    return str(list(value)) if isinstance(value, (list, tuple)) else str(value)


def attributes(**fields):
    return {name: spelt(value) for name, value in fields.items()}


def tolerance(w):
    """1e-6·√K over the K products of one output."""
    return 1e-6 * math.sqrt(max(1, w[0].numel()))


def conv(name, size, out, kernel, stride, padding, dilation, groups, kinds=("ordinary",), bias=True):
    """Conv1d, Conv2d or Conv3d by the rank of `kernel`; `size` is [N, C, spatial…]."""
    rank = len(kernel)
    x, w = rand(*size, seed=1), rand(out, size[1] // groups, *kernel, seed=2)
    operands = {"x": x, "W": w}
    if bias:
        operands["b"] = rand(out, seed=3)
    y = CONV[rank](x, w, operands.get("b"), stride, padding, dilation, groups)
    fields = (kernel, stride, padding, dilation)
    if rank == 1:
        fields = tuple(f[0] for f in fields)
    named = dict(zip(("kernel", "stride", "padding", "dilation"), fields), groups=groups)
    case(f"Conv{rank}d", name, attributes(**named), operands, y, tolerance(w), kinds)


conv("whisper", [1, 4, 12], 3, [3], [2], [1], [1], 1)
conv("plain", [2, 3, 9], 4, [3], [1], [0], [1], 1, bias=False)
conv("dilated_groups", [2, 4, 11], 6, [3], [2], [2], [2], 2, kinds=("odd",))
conv("depthwise", [1, 5, 7], 5, [5], [1], [2], [1], 5, kinds=("odd",), bias=False)
conv("one", [1, 1, 1], 1, [1], [1], [0], [1], 1, kinds=("size_one",))
conv("all_padding", [1, 2, 1], 2, [3], [3], [4], [2], 1, kinds=("size_one",))

conv("picture", [2, 3, 6, 8], 4, [3, 3], [1, 1], [1, 1], [1, 1], 1)
conv("asymmetric", [1, 2, 7, 9], 3, [3, 2], [2, 1], [1, 0], [1, 2], 1, kinds=("odd",))
conv("groups", [1, 4, 5, 7], 6, [2, 3], [1, 2], [2, 1], [2, 1], 2, kinds=("odd",), bias=False)
conv("depthwise", [1, 4, 5, 5], 8, [3, 3], [2, 2], [1, 1], [1, 1], 4)
conv("pointwise", [2, 3, 1, 1], 5, [1, 1], [1, 1], [0, 0], [1, 1], 1, kinds=("size_one",))
conv("strides_over_kernel", [1, 1, 8, 9], 2, [2, 1], [3, 4], [0, 0], [1, 1], 1)
conv("row", [1, 2, 1, 9], 2, [1, 5], [1, 2], [0, 3], [1, 1], 1, kinds=("size_one", "odd"))

conv("video", [1, 2, 4, 4, 6], 3, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], 1)
conv("asymmetric", [1, 2, 3, 5, 4], 4, [3, 1, 2], [1, 2, 1], [1, 0, 2], [1, 1, 3], 2, kinds=("odd",), bias=False)
conv("one", [1, 3, 1, 1, 1], 2, [1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1], 1, kinds=("size_one",))
conv("patches", [1, 3, 2, 4, 4], 5, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], 1)

one = attributes(kernel=3, stride=1, padding=0, dilation=1, groups=1)
bad("Conv1d", one, ["f32[1, 8, 2]", "f32[4, 8, 3]"], "kernel 3 (dilation 1) is larger than the size 2")
bad("Conv1d", one | {"stride": "0"}, ["f32[1, 8, 9]", "f32[4, 8, 3]"], "stride is 0")
bad("Conv1d", one | {"dilation": "0"}, ["f32[1, 8, 9]", "f32[4, 8, 3]"], "dilation is 0")
bad("Conv1d", one | {"kernel": "0"}, ["f32[1, 8, 9]", "f32[4, 8, 0]"], "kernel is 0")
bad("Conv1d", one | {"groups": "0"}, ["f32[1, 8, 9]", "f32[4, 8, 3]"], "groups is 0")
bad("Conv1d", one | {"groups": "3"}, ["f32[1, 24, 9]", "f32[4, 8, 3]"], "no multiple of 3 groups")
bad("Conv1d", one, ["f32[1, 9, 9]", "f32[4, 8, 3]"], "x has 9 channels, W takes 8")
bad("Conv1d", one, ["f32[8, 9]", "f32[4, 8, 3]"], "expected 3 dimensions")
bad("Conv1d", one, ["f32[1, 8, 9]", "f32[4, 8, 5]"], "dimension 2 of W is 5, expected 3")
bad("Conv1d", one, ["f32[1, 8, 9]", "f32[4, 8, 3]", "f32[5]"], "the length of b is 5, expected 4")
bad("Conv1d", one, ["i64[1, 8, 9]", "f32[4, 8, 3]"], "x has the type i64")
bad("Conv1d", one | {"kernel": "-1"}, ["f32[1, 8, 9]", "f32[4, 8, 3]"], "`kernel`")
two = attributes(kernel=[3, 3], stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1)
bad("Conv2d", two, ["f32[1, 3, 8, 2]", "f32[4, 3, 3, 3]"], "larger than the size 2")
bad("Conv2d", two | {"stride": "[1, 0]"}, ["f32[1, 3, 8, 8]", "f32[4, 3, 3, 3]"], "stride is 0")
bad("Conv2d", two | {"kernel": "[3]"}, ["f32[1, 3, 8, 8]", "f32[4, 3, 3, 3]"], "expected 2 numbers")
bad("Conv2d", two, ["f32[1, 3, 8, 8]", "f32[4, 2, 3, 3]"], "x has 3 channels, W takes 2")
bad("Conv2d", two, ["f32[1, 3, 8, 8]", "bool[4, 3, 3, 3]"], "W has the type bool")
three = attributes(kernel=[1, 1, 1], stride=[1, 1, 1], padding=[0, 0, 0], dilation=[1, 1, 1], groups=1)
bad("Conv3d", three | {"dilation": "[1, 1, 0]"}, ["f32[1, 3, 2, 8, 8]", "f32[4, 3, 1, 1, 1]"], "dilation is 0")
bad("Conv3d", three, ["f32[1, 3, 8, 8]", "f32[4, 3, 1, 1, 1]"], "expected 5 dimensions")
bad("Conv3d", three, ["f32[1, 3, 8, 8, 8]", "i64[4, 3, 1, 1, 1]"], "W has the type i64")

# Sizes that only a hostile payload asks for.
far = attributes(kernel=1, stride=1, padding=4294967295, dilation=1, groups=1)
fault("Conv1d", "far", far, {"x": rand(1, 1, 2), "W": rand(1, 1, 1)}, "elements are possible")
far = attributes(kernel=[1, 1], stride=[1, 1], padding=[100000, 100000], dilation=[1, 1], groups=1)
fault("Conv2d", "far", far, {"x": rand(1, 1, 1, 1), "W": rand(1, 1, 1, 1)}, "elements are possible")


def causal(name, channels, out, per_group, kernel, length, kinds=("ordinary",), bias=True):
    x, w = rand(2, channels, length, seed=4), rand(out, per_group, kernel, seed=5)
    operands = {"x": x, "W": w}
    if bias:
        operands["b"] = rand(out, seed=6)
    padded = F.pad(x, (kernel - 1, 0))
    y = F.conv1d(padded, w, operands.get("b"), groups=channels // per_group)
    case("CausalConv1d", name, attributes(kernel=kernel), operands, y, tolerance(w), kinds)


causal("mamba", 6, 6, 1, 4, 8)
causal("dense", 4, 3, 4, 3, 5, kinds=("odd",), bias=False)
causal("groups", 4, 6, 2, 2, 7, kinds=("odd",))
causal("kernel_over_length", 3, 3, 1, 5, 2)
causal("one", 1, 1, 1, 1, 1, kinds=("size_one",))
bad("CausalConv1d", attributes(kernel=4), ["f32[1, 64, 9]", "f32[64, 3, 4]"], "no multiple of the 3 of W")
bad("CausalConv1d", attributes(kernel=0), ["f32[1, 4, 9]", "f32[4, 1, 0]"], "kernel is 0")
bad("CausalConv1d", attributes(kernel=4), ["f32[1, 4, 9]", "f32[4, 1, 3]"], "dimension 2 of W is 3, expected 4")
bad("CausalConv1d", attributes(kernel=4), ["i64[1, 4, 9]", "f32[4, 1, 4]"], "x has the type i64")


def depthwise(name, size, out, kernel, stride, kinds=("ordinary",), bias=True):
    rank = len(size) - 2
    x, w = rand(*size, seed=7), rand(out, 1, *[kernel] * rank, seed=8)
    operands = {"x": x, "W": w}
    if bias:
        operands["b"] = rand(out, seed=9)
    y = CONV[rank](x, w, operands.get("b"), stride=stride, padding=kernel // 2, groups=size[1])
    case("DepthwiseConv", name, attributes(kernel=kernel, stride=stride), operands, y, tolerance(w), kinds)


depthwise("picture", [2, 3, 5, 6], 3, 3, 1)
depthwise("strided", [1, 4, 7, 8], 4, 5, 2, kinds=("odd",), bias=False)
depthwise("multiplier", [1, 2, 5, 5], 6, 3, 2, kinds=("odd",))
depthwise("even_kernel", [1, 2, 4, 4], 2, 4, 3)
depthwise("row", [2, 3, 9], 3, 3, 2, kinds=("odd",))
depthwise("row_multiplier", [1, 2, 6], 4, 5, 1, bias=False)
depthwise("one", [1, 1, 1, 1], 1, 1, 1, kinds=("size_one",))
bad("DepthwiseConv", attributes(kernel=3, stride=0), ["f32[1, 3, 5, 5]", "f32[3, 1, 3, 3]"], "stride is 0")
bad("DepthwiseConv", attributes(kernel=3, stride=1), ["f32[3, 5]", "f32[3, 1, 3]"], "[N, C, L] or [N, C, H, W]")
bad("DepthwiseConv", attributes(kernel=3, stride=1), ["f32[1, 3, 5]", "f32[3, 3, 3]"], "W takes 9")
bad("DepthwiseConv", attributes(kernel=3, stride=1), ["f32[1, 3, 5]", "f32[4, 1, 3]"], "no multiple of 3 groups")
bad("DepthwiseConv", attributes(kernel=3, stride=1), ["bool[1, 3, 5]", "f32[3, 1, 3]"], "x has the type bool")


def patches(name, size, out, patch, kinds=("ordinary",), bias=True):
    x, w = rand(*size, seed=10), rand(out, size[1], patch, patch, seed=11)
    operands = {"x": x, "W": w}
    if bias:
        operands["b"] = rand(out, seed=12)
    y = F.conv2d(x, w, operands.get("b"), stride=patch)
    case("PatchEmbed", name, attributes(patch=patch), operands, y, tolerance(w), kinds)


patches("vit", [2, 3, 8, 4], 5, 4)
patches("remainder", [1, 3, 7, 9], 4, 3, kinds=("odd",), bias=False)
patches("one", [1, 1, 1, 1], 2, 1, kinds=("size_one",))
bad("PatchEmbed", attributes(patch=0), ["f32[1, 3, 8, 8]", "f32[4, 3, 0, 0]"], "kernel is 0")
bad("PatchEmbed", attributes(patch=14), ["f32[1, 3, 13, 28]", "f32[4, 3, 14, 14]"], "larger than the size 13")
bad("PatchEmbed", attributes(patch=4), ["f32[1, 3, 8, 8]", "f32[4, 3, 4, 3]"], "dimension 3 of W is 3, expected 4")
bad("PatchEmbed", attributes(patch=4), ["i64[1, 3, 8, 8]", "f32[4, 3, 4, 4]"], "x has the type i64")


def transposed(name, size, out, kernel, stride, padding, more, dilation, groups, kinds=("ordinary",), bias=True):
    """ConvTranspose1d by whole numbers, ConvTranspose2d by pairs."""
    rank = len(kernel)
    x, w = rand(*size, seed=13), rand(size[1], out // groups, *kernel, seed=14)
    operands = {"x": x, "W": w}
    if bias:
        operands["b"] = rand(out, seed=15)
    transpose = F.conv_transpose1d if rank == 1 else F.conv_transpose2d
    y = transpose(x, w, operands.get("b"), stride, padding, more, groups, dilation)
    if rank == 1:
        fields = dict(
            kernel=kernel[0],
            stride=stride[0],
            padding=padding[0],
            output_padding=more[0],
            dilation=dilation[0],
            groups=groups,
        )
    else:
        fields = dict(kernel=kernel, stride=stride, padding=padding)
    products = size[1] // groups * w[0, 0].numel()
    case(f"ConvTranspose{rank}d", name, attributes(**fields), operands, y, 1e-6 * math.sqrt(products), kinds)


transposed("twice", [2, 3, 5], 4, [4], [2], [1], [0], [1], 1)
transposed("plain", [1, 3, 4], 2, [3], [1], [0], [0], [1], 1, bias=False)
transposed("all_fields", [2, 4, 5], 6, [3], [3], [2], [2], [2], 2, kinds=("odd",))
transposed("depthwise", [1, 4, 7], 4, [5], [2], [2], [1], [1], 4, kinds=("odd",), bias=False)
transposed("dilation_over_stride", [1, 2, 3], 2, [2], [1], [0], [2], [3], 1)
transposed("one", [1, 1, 1], 1, [1], [1], [0], [0], [1], 1, kinds=("size_one",))
transposed("one_wide", [1, 2, 1], 3, [5], [4], [1], [0], [1], 1, kinds=("size_one",))
transposed("twice", [2, 3, 4, 5], 2, [2, 2], [2, 2], [0, 0], [0, 0], [1, 1], 1)
transposed("asymmetric", [1, 4, 3, 5], 3, [3, 4], [2, 3], [1, 0], [0, 0], [1, 1], 1, kinds=("odd",), bias=False)
transposed("stride_over_kernel", [1, 2, 3, 3], 2, [1, 2], [3, 2], [0, 1], [0, 0], [1, 1], 1)
transposed("one", [1, 2, 1, 1], 3, [3, 1], [2, 2], [1, 0], [0, 0], [1, 1], 1, kinds=("size_one",))
up = attributes(kernel=4, stride=2, padding=1, output_padding=0, dilation=1, groups=1)
bad("ConvTranspose1d", up | {"stride": "0"}, ["f32[1, 8, 5]", "f32[8, 3, 4]"], "stride is 0")
bad("ConvTranspose1d", up | {"groups": "0"}, ["f32[1, 8, 5]", "f32[8, 3, 4]"], "groups is 0")
bad("ConvTranspose1d", up | {"groups": "3"}, ["f32[1, 8, 5]", "f32[8, 3, 4]"], "no multiple of 3 groups")
bad("ConvTranspose1d", up | {"output_padding": "2"}, ["f32[1, 8, 5]", "f32[8, 3, 4]"], "output_padding 2")
bad("ConvTranspose1d", up | {"padding": "9"}, ["f32[1, 8, 5]", "f32[8, 3, 4]"], "padding 9 leaves nothing")
bad("ConvTranspose1d", up, ["f32[1, 9, 5]", "f32[8, 3, 4]"], "dimension 0 of W is 8, expected 9")
bad("ConvTranspose1d", up, ["f32[1, 8, 5]", "f32[8, 3, 4]", "f32[8]"], "the length of b is 8, expected 3")
bad("ConvTranspose1d", up, ["i64[1, 8, 5]", "f32[8, 3, 4]"], "x has the type i64")
up = attributes(kernel=[4, 4], stride=[2, 2], padding=[1, 1])
bad("ConvTranspose2d", up | {"stride": "[2, 0]"}, ["f32[1, 8, 5, 5]", "f32[8, 3, 4, 4]"], "stride is 0")
bad("ConvTranspose2d", up | {"padding": "[9, 0]"}, ["f32[1, 8, 5, 5]", "f32[8, 3, 4, 4]"], "padding 9 leaves nothing")
bad("ConvTranspose2d", up, ["f32[1, 8, 5, 5]", "f32[8, 3, 4, 3]"], "dimension 3 of W is 3, expected 4")
bad("ConvTranspose2d", up, ["f32[1, 8, 5, 5]", "bool[8, 3, 4, 4]"], "W has the type bool")
far = attributes(kernel=[1, 1], stride=[4294967295, 4294967295], padding=[0, 0])
fault("ConvTranspose2d", "far", far, {"x": rand(1, 1, 2, 2), "W": rand(1, 1, 1, 1)}, "elements are possible")

write()
