"""Cases of operations that change sizes or the number of dimensions."""

import numpy
import torch
from common import bad, case, fault, rand, write

NINE = (1, 2, 1, 3, 1, 2, 1, 1, 2)


def whole(*shape, seed=0):
    return rand(*shape, seed=seed, low=-9, high=9).floor().long()


def scalar():
    return torch.tensor(-1.5, dtype=torch.float64)


NUMPY_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def pad(name, mode, x, pads, value, kinds):
    pairs = list(zip(pads[::2], pads[1::2]))
    more = {"constant_values": value} if mode == "constant" else {}
    result = torch.from_numpy(numpy.pad(x.numpy(), pairs, NUMPY_MODES[mode], **more))
    case("Pad", f"{mode}_{name}", {"mode": mode, "pads": str(pads), "value": str(value)}, {"x": x}, result, kinds=kinds)


for mode in NUMPY_MODES:
    pad("ordinary", mode, rand(3, 4), [1, 2, 0, 3], 0.5, ["ordinary"])
    pad("nothing", mode, rand(3, 4), [0, 0, 0, 0], 0, ["ordinary"])
    pad("odd", mode, rand(5, 3, 7), [4, 0, 2, 2, 0, 6], -1.5, ["odd"])
    pad("integers", mode, whole(3, 5), [0, 2, 1, 4], 7, ["odd"])
    pad("truths", mode, rand(3, 3) > 0, [2, 0, 0, 1], 1, ["odd"])
    pad("nine_dimensions", mode, rand(*NINE), [0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1], 0, ["odd"])
    pad("beside_nothing", mode, rand(0, 3), [0, 0, 1, 2], 0, ["extreme"])
for mode in ["constant", "replicate"]:
    pad("size_one", mode, rand(1, 1), [3, 2, 0, 1], 2, ["size_one"])
pad("size_one", "reflect", rand(1, 4), [0, 0, 3, 3], 0, ["size_one"])
pad("of_nothing", "constant", rand(0), [2, 1], 3, ["extreme"])
pad("infinite", "constant", rand(2), [1, 1], float("-inf"), ["extreme"])
case("Pad", "constant_scalar", {"mode": "constant", "pads": "[]", "value": "0"}, {"x": scalar()}, scalar(), kinds=["size_one"])
zero = {"mode": "constant", "pads": "[1, 1]", "value": "0"}
fault("Pad", "far_too_large", zero | {"pads": "[0, 4000000000]"}, {"x": rand(2)}, "at most 268435456 elements")
fault("Pad", "far_too_large_beside_nothing", zero | {"pads": "[0, 0, 0, 4000000000]"}, {"x": rand(0, 2)}, "at most 268435456 elements")
bad("Pad", zero, ["f32[2, 3]"], "pads has 2 numbers, expected 4")
bad("Pad", zero | {"pads": "[1, -1]"}, ["f32[2]"], "the negative number -1 for dimension 0")
bad("Pad", zero | {"pads": "[9223372036854775807, 1]"}, ["f32[2]"], "too large to represent")
bad("Pad", zero | {"mode": "circular"}, ["f32[2]"], "`circular` is unknown")
bad("Pad", zero | {"mode": "reflect", "pads": "[0, 2]"}, ["f32[2]"], "too short for reflect")
bad("Pad", zero | {"mode": "reflect", "pads": "[1, 0]"}, ["f32[1]"], "too short for reflect")
bad("Pad", zero | {"mode": "replicate"}, ["f32[0]"], "too short for replicate")
bad("Pad", zero | {"value": "0.5"}, ["i64[2]"], "value is 0.5, which x of type i64 cannot hold")
bad("Pad", zero | {"value": "2"}, ["bool[2]"], "value is 2, which x of type bool cannot hold")

for name, x, shape, kinds in [
    ("ordinary", rand(3, 1), [3, 4], ["ordinary", "broadcast"]),
    ("keep", rand(3, 1), [-1, 4], ["ordinary", "broadcast"]),
    ("new_dimensions", rand(3, 1), [2, 1, -1, 5], ["broadcast"]),
    ("size_one", rand(1), [1, 1], ["size_one"]),
    ("odd", whole(1, 5, 1), [3, 5, 7], ["odd", "broadcast"]),
    ("scalar", scalar(), [2, 3], ["broadcast"]),
    ("truths", rand(1, 3) > 0, [5, -1], ["odd", "broadcast"]),
    ("to_nothing", rand(1, 3), [0, 3], ["extreme"]),
    ("nine_dimensions", rand(*NINE), [3, -1, 1, 3, 2, 2, 1, 1, 2], ["odd", "broadcast"]),
]:
    case("Expand", name, {"shape": str(shape)}, {"x": x}, x.expand(shape), kinds=kinds)
fault("Expand", "far_too_large", {"shape": "[65536, 65536]"}, {"x": rand(1)}, "at most 268435456 elements")
fault("Expand", "far_too_large_beside_nothing", {"shape": "[9223372036854775807, 0]"}, {"x": rand(0)}, "at most 268435456 elements")
bad("Expand", {"shape": "[4]"}, ["f32[3, 1]"], "at least the 2 of x [3, 1]")
bad("Expand", {"shape": "[-1, 3, 1]"}, ["f32[3, 1]"], "dimension 0 is new")
bad("Expand", {"shape": "[-2]"}, ["f32[1]"], "negative dimension -2")
bad("Expand", {"shape": "[4]"}, ["f32[3]"], "has 3 for 4")
bad("Expand", {"shape": "[4]"}, ["f32[S]"], "has S for 4")
bad("Expand", {"shape": str([1] * 17)}, ["f32[1]"], "at most 16")
bad("Expand", {"shape": "[1.5]"}, ["f32[1]"], "`1.5` is not a value of type i64")

for name, x, start, end, kinds in [
    ("ordinary", rand(2, 3, 4), 0, 1, ["ordinary"]),
    ("all", rand(2, 3, 4), 0, -1, ["ordinary", "negative_axis"]),
    ("one", rand(2, 3, 4), 1, 1, ["ordinary"]),
    ("size_one", rand(1, 1), 0, 1, ["size_one"]),
    ("scalar", scalar(), 0, -1, ["size_one"]),
    ("odd", whole(3, 5, 7), 1, 2, ["odd"]),
    ("negative", rand(3, 5, 7) > 0, -3, -2, ["odd", "negative_axis"]),
    ("empty", rand(3, 0, 2), 0, 2, ["extreme"]),
    ("nine_dimensions", rand(*NINE), 1, 7, ["odd"]),
]:
    case("Flatten", name, {"start": str(start), "end": str(end)}, {"x": x}, torch.flatten(x, start, end), kinds=kinds)
bad("Flatten", {"start": "1", "end": "0"}, ["f32[2, 3]"], "start is 1 and end 0")
bad("Flatten", {"start": "0", "end": "2"}, ["f32[2, 3]"], "dimension 2 does not exist")
bad("Flatten", {"start": "-3", "end": "1"}, ["f32[2, 3]"], "dimension -3 does not exist")
bad("Flatten", {"start": "0", "end": "1"}, ["f32[9223372036854775807, 2]"], "too large to represent")
# Every element type can be flattened.
bad("Flatten", {"start": "0", "end": "0"}, ["f32[2]", "f32[2]"], "takes the operands `x`, found 2")

for name, x, axis, sizes, kinds in [
    ("ordinary", rand(3, 8), 1, [2, 4], ["ordinary"]),
    ("open", rand(8, 3), 0, [2, -1], ["ordinary"]),
    ("size_one", rand(1), 0, [1, -1, 1], ["size_one"]),
    ("odd", whole(3, 15, 2), 1, [3, 5], ["odd"]),
    ("negative", rand(3, 15, 2) > 0, -2, [-1, 3], ["odd", "negative_axis"]),
    ("one", rand(3, 4), 0, [3], ["ordinary"]),
    ("nine_dimensions", rand(*NINE), 3, [3, 1, -1], ["odd"]),
    ("empty", rand(0, 4), 0, [2, -1], ["extreme"]),
]:
    result = torch.unflatten(x, axis, sizes) if x.numel() else x.reshape(2, 0, 4)
    case("Unflatten", name, {"axis": str(axis), "sizes": str(sizes)}, {"x": x}, result, kinds=kinds)
bad("Unflatten", {"axis": "1", "sizes": "[3, 2]"}, ["f32[2, 8]"], "the product 6")
bad("Unflatten", {"axis": "1", "sizes": "[3, -1]"}, ["f32[2, 8]"], "no multiple of the 3")
bad("Unflatten", {"axis": "1", "sizes": "[-1, -1]"}, ["f32[2, 8]"], "more than one -1")
bad("Unflatten", {"axis": "1", "sizes": "[-4, 2]"}, ["f32[2, 8]"], "the negative number -4")
bad("Unflatten", {"axis": "1", "sizes": "[]"}, ["f32[2, 1]"], "sizes has 0 numbers")
bad("Unflatten", {"axis": "2", "sizes": "[1]"}, ["f32[2, 8]"], "dimension 2 does not exist")
bad("Unflatten", {"axis": "0", "sizes": "[2, 4]"}, ["f32[S]"], "the product 8")
bad("Unflatten", {"axis": "0", "sizes": "[1]"}, ["f32[1]", "f32[1]"], "takes the operands `x`, found 2")

for name, x, axes, kinds in [
    ("ordinary", rand(3, 1, 4), [1], ["ordinary"]),
    ("two", rand(1, 3, 1), [0, 2], ["ordinary"]),
    ("none", rand(1, 3), [], ["ordinary"]),
    ("size_one", rand(1, 1), [0, 1], ["size_one"]),
    ("odd", whole(3, 1, 5), [1], ["odd"]),
    ("negative", rand(1, 3, 1) > 0, [-1, -3], ["odd", "negative_axis"]),
    ("nine_dimensions", rand(*NINE), [0, 2, -2], ["odd"]),
]:
    result = x.squeeze(tuple(axes)) if axes else x
    case("Squeeze", name, {"axes": str(axes)}, {"x": x}, result, kinds=kinds)
bad("Squeeze", {"axes": "[0]"}, ["f32[2, 1]"], "which is 2; only 1 drops out")
bad("Squeeze", {"axes": "[0]"}, ["f32[S, 1]"], "which is S; only 1 drops out")
bad("Squeeze", {"axes": "[1, -1]"}, ["f32[2, 1]"], "twice")
bad("Squeeze", {"axes": "[2]"}, ["f32[2, 1]"], "dimension 2 does not exist")
bad("Squeeze", {"axes": "[0]"}, ["f32[1]", "f32[1]"], "takes the operands `x`, found 2")

for name, x, axes, kinds in [
    ("ordinary", rand(3, 4), [1], ["ordinary"]),
    ("two", rand(3, 4), [3, 0], ["ordinary"]),
    ("none", rand(3, 4), [], ["ordinary"]),
    ("size_one", rand(1), [0], ["size_one"]),
    ("scalar", scalar(), [0, 1], ["size_one"]),
    ("odd", whole(3, 5), [-1, 1], ["odd", "negative_axis"]),
    ("nine_dimensions", rand(*NINE), [0, -1, 4], ["odd", "negative_axis"]),
]:
    result = torch.from_numpy(numpy.expand_dims(x.numpy(), tuple(axes)))
    case("Unsqueeze", name, {"axes": str(axes)}, {"x": x}, result, kinds=kinds)
bad("Unsqueeze", {"axes": "[3]"}, ["f32[2, 3]"], "dimension 3 does not exist")
bad("Unsqueeze", {"axes": "[0, -3]"}, ["f32[2]"], "dimension 0 of [1, 1, 1] twice")
bad("Unsqueeze", {"axes": str([0] * 15)}, ["f32[2, 3]"], "17 dimensions, at most 16")
bad("Unsqueeze", {"axes": "[0]"}, ["f32[1]", "f32[1]"], "takes the operands `x`, found 2")

for name, x, repeats, kinds in [
    ("ordinary", rand(3, 4), [2, 3], ["ordinary"]),
    ("once", rand(3, 4), [1, 1], ["ordinary"]),
    ("size_one", rand(1, 1), [4, 1], ["size_one"]),
    ("odd", whole(3, 5), [3, 1], ["odd"]),
    ("truths", rand(3, 1, 5) > 0, [1, 3, 2], ["odd"]),
    ("scalar", scalar(), [], ["size_one"]),
    ("never", rand(3, 4), [2, 0], ["extreme"]),
    ("of_nothing", rand(0, 4), [5, 2], ["extreme"]),
    ("nine_dimensions", rand(*NINE), [2, 1, 3, 1, 1, 2, 1, 1, 1], ["odd"]),
]:
    result = torch.from_numpy(numpy.tile(x.numpy(), repeats)) if repeats else x
    case("Tile", name, {"repeats": str(repeats)}, {"x": x}, result, kinds=kinds)
fault("Tile", "far_too_large", {"repeats": "[4000000000, 4000000000]"}, {"x": rand(2, 3)}, "at most 268435456 elements")
fault("Tile", "far_too_large_beside_nothing", {"repeats": "[4000000000, 1]"}, {"x": rand(2, 0)}, "at most 268435456 elements")
bad("Tile", {"repeats": "[2]"}, ["f32[2, 3]"], "repeats has 1 numbers")
bad("Tile", {"repeats": "[2, 2, 2]"}, ["f32[2, 3]"], "repeats has 3 numbers")
bad("Tile", {"repeats": "[-1]"}, ["f32[2]"], "`-1` is not a value of type u32")
bad("Tile", {"repeats": "[4294967295]"}, ["f32[9223372036854775807]"], "too large to represent")

for name, x, axis, times, kinds in [
    ("ordinary", rand(3, 4), 0, 2, ["ordinary"]),
    ("once", rand(3, 4), 1, 1, ["ordinary"]),
    ("size_one", rand(1, 1), 1, 5, ["size_one"]),
    ("odd", whole(3, 5, 7), 1, 3, ["odd"]),
    ("negative", rand(3, 5, 1) > 0, -1, 3, ["odd", "negative_axis"]),
    ("never", rand(3, 4), 0, 0, ["extreme"]),
    ("nine_dimensions", rand(*NINE), 3, 2, ["odd"]),
]:
    result = torch.repeat_interleave(x, times, dim=axis)
    case("RepeatEach", name, {"axis": str(axis), "times": str(times)}, {"x": x}, result, kinds=kinds)
fault("RepeatEach", "far_too_large", {"axis": "0", "times": "4000000000"}, {"x": rand(2, 3)}, "at most 268435456 elements")
fault("RepeatEach", "far_too_large_beside_nothing", {"axis": "0", "times": "4000000000"}, {"x": rand(2, 0)}, "at most 268435456 elements")
bad("RepeatEach", {"axis": "2", "times": "1"}, ["f32[2, 3]"], "dimension 2 does not exist")
bad("RepeatEach", {"axis": "0", "times": "1"}, ["f32[]"], "dimension 0 does not exist")
bad("RepeatEach", {"axis": "0", "times": "-1"}, ["f32[2]"], "`-1` is not a value of type u32")
bad("RepeatEach", {"axis": "0", "times": "2"}, ["f32[2]", "f32[2]"], "takes the operands `x`, found 2")

write()
