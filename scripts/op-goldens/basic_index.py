"""Cases of lookups by index, reversals, and products of stacks of matrices."""

import math

import numpy
import torch
from common import bad, case, fault, rand, write

NINE = (1, 2, 1, 3, 1, 2, 1, 1, 2)


def i(*values):
    return torch.tensor(values, dtype=torch.int64)


def index(size, *shape, seed=5):
    return rand(*shape, seed=seed, low=0, high=size).floor().long()


def whole(*shape, seed=0):
    return rand(*shape, seed=seed, low=-9, high=9).floor().long()


def gather(name, x, at, axis, kinds):
    taken = torch.from_numpy(numpy.asarray(numpy.take(x.numpy(), at.long().numpy(), axis)))
    case("Gather", name, {"axis": str(axis)}, {"x": x, "index": at}, taken, kinds=kinds)


gather("ordinary", rand(10, 4), index(10, 3), 0, ["ordinary"])
gather("matrix_of_indices", rand(3, 6, 2), index(6, 2, 3), 1, ["ordinary"])
gather("size_one", rand(1, 1), index(1, 1), 0, ["size_one"])
gather("scalar_index", rand(5, 3), torch.tensor(4), 0, ["size_one"])
gather("odd", rand(5, 3, 7), index(7, 3, 1, 5), 2, ["odd"])
gather("negative", rand(5, 3, 7), index(3, 4), -2, ["odd", "negative_axis"])
gather("integers", whole(4, 3), index(3, 5), 1, ["odd"])
gather("truths", rand(4, 3) > 0, index(4, 5), 0, ["odd"])
gather("real_indices", rand(4, 3), index(4, 5).double(), 0, ["ordinary"])
gather("no_indices", rand(4, 3), index(4, 0), 0, ["extreme"])
gather("empty_rows", rand(4, 0), index(4, 2), 0, ["extreme"])
gather("nine_dimensions", rand(*NINE), index(3, 2, 2), 3, ["odd"])
for name, x, at, axis, error in [
    ("past_the_end", rand(4, 3), i(0, 4), 0, "index 4 lies outside dimension 0 of x, which has 4 elements"),
    ("negative_index", rand(4, 3), i(-1), 1, "index -1 lies outside dimension 1 of x, which has 3 elements"),
    ("not_whole", rand(4, 3), torch.tensor([1.5], dtype=torch.float64), 0, "index 1.5 lies outside"),
    ("not_a_number", rand(4, 3), torch.tensor([float("nan")]), 0, "index NaN lies outside"),
    ("of_none", rand(0, 3), i(0), 0, "index 0 lies outside dimension 0 of x, which has 0 elements"),
]:
    fault("Gather", name, {"axis": str(axis)}, {"x": x, "index": at}, error)
bad("Gather", {"axis": "2"}, ["f32[4, 3]", "i64[2]"], "dimension 2 does not exist")
bad("Gather", {"axis": "0"}, ["f32[]", "i64[2]"], "dimension 0 does not exist")
bad("Gather", {"axis": "0"}, ["f32[4, 3]", "bool[2]"], "index has the type bool")
bad("Gather", {"axis": "x"}, ["f32[4, 3]", "i64[2]"], "`x` is not a value of type i32")
bad("Gather", {"axis": "0"}, ["f32[4, 3]"], "takes the operands `x index`, found 1")


def each(name, x, at, axis, kinds):
    attributes = {"axis": str(axis)}
    case("GatherElements", name, attributes, {"x": x, "index": at}, torch.gather(x, axis, at.long()), kinds=kinds)


each("ordinary", rand(4, 6), index(6, 4, 3), 1, ["ordinary"])
each("first", rand(4, 6), index(4, 9, 6), 0, ["ordinary"])
each("smaller_index", rand(5, 4, 6), index(4, 3, 2, 5), 1, ["ordinary"])
each("size_one", rand(1, 1), index(1, 1, 1), 0, ["size_one"])
each("odd", rand(5, 3, 7), index(5, 2, 3, 7), 0, ["odd"])
each("negative", rand(5, 3, 7), index(3, 5, 1, 7), -2, ["odd", "negative_axis"])
each("integers", whole(4, 3), index(3, 4, 5), -1, ["odd", "negative_axis"])
each("truths", rand(4, 3) > 0, index(4, 2, 3), 0, ["odd"])
each("real_indices", rand(4, 3), index(3, 4, 2).double(), 1, ["ordinary"])
each("no_indices", rand(4, 3), index(4, 0, 3), 0, ["extreme"])
each("nine_dimensions", rand(*NINE), index(3, *NINE), 3, ["odd"])
fault("GatherElements", "past_the_end", {"axis": "1"}, {"x": rand(2, 3), "index": i(0, 3)[None]}, "index 3 lies outside dimension 1 of x, which has 3 elements")
fault("GatherElements", "negative_index", {"axis": "0"}, {"x": rand(2, 3), "index": i(-2)[None]}, "index -2 lies outside dimension 0 of x, which has 2 elements")
bad("GatherElements", {"axis": "2"}, ["f32[4, 3]", "i64[4, 3]"], "dimension 2 does not exist")
bad("GatherElements", {"axis": "0"}, ["f32[4, 3]", "i64[4]"], "the same number of dimensions")
bad("GatherElements", {"axis": "0"}, ["f32[4, 3]", "i64[4, 4]"], "dimension 1 must agree")
bad("GatherElements", {"axis": "0"}, ["f32[4, S]", "i64[4, T]"], "dimension 1 must agree")
bad("GatherElements", {"axis": "0"}, ["f32[4]", "bool[4]"], "index has the type bool")

for name, x, axes, kinds in [
    ("ordinary", rand(3, 4), [1], ["ordinary"]),
    ("both", rand(3, 4), [0, 1], ["ordinary"]),
    ("none", rand(3, 4), [], ["ordinary"]),
    ("size_one", rand(1, 1), [0], ["size_one"]),
    ("odd", whole(5, 3, 7), [1], ["odd"]),
    ("negative", rand(5, 3, 7) > 0, [-1, 0], ["odd", "negative_axis"]),
    ("empty", rand(0, 3), [0, 1], ["extreme"]),
    ("nine_dimensions", rand(*NINE), [1, 3, -1], ["odd"]),
]:
    case("Flip", name, {"axes": str(axes)}, {"x": x}, torch.flip(x, axes), kinds=kinds)
bad("Flip", {"axes": "[2]"}, ["f32[2, 3]"], "dimension 2 does not exist")
bad("Flip", {"axes": "[0, 0]"}, ["f32[2, 3]"], "axes name dimension 0 of [2, 3] twice")
bad("Flip", {"axes": "[0]"}, ["f32[]"], "dimension 0 does not exist")
bad("Flip", {"axes": "0"}, ["f32[2]"], "`0` is not a list")

for name, one, other, kinds in [
    ("ordinary", (3, 4), (4, 5), ["ordinary"]),
    ("stack", (2, 3, 4), (2, 4, 5), ["ordinary"]),
    ("size_one", (1, 1), (1, 1), ["size_one"]),
    ("odd", (5, 3, 7), (5, 7, 1), ["odd"]),
    ("broadcast", (2, 1, 3, 4), (3, 4, 5), ["broadcast"]),
    ("both_broadcast", (2, 1, 3, 5), (1, 3, 5, 2), ["odd", "broadcast"]),
    ("one_stack", (3, 4), (2, 3, 4, 2), ["broadcast"]),
    ("no_inner", (2, 3, 0), (0, 4), ["extreme", "broadcast"]),
    ("no_rows", (2, 0, 3), (3, 4), ["extreme", "broadcast"]),
    ("nine_dimensions", (1, 2, 1, 1, 1, 2, 1, 3, 5), (2, 1, 1, 1, 5, 2), ["odd", "broadcast"]),
    ("long", (2, 100), (100, 2), ["extreme"]),
]:
    a, b = rand(*one, seed=1), rand(*other, seed=2)
    product = torch.from_numpy(numpy.matmul(a.numpy(), b.numpy()))
    tolerance = 1e-6 * math.sqrt(max(1, one[-1]))
    case("BatchMatmul", name, {"transpose_b": "false"}, {"a": a, "b": b}, product, tolerance, kinds)
    turned = {"a": a, "b": b.transpose(-1, -2)}
    case("BatchMatmul", f"{name}_transposed", {"transpose_b": "true"}, turned, product, tolerance, kinds)
bad("BatchMatmul", {"transpose_b": "true"}, ["f32[2, 3]", "f32[3, 4]"], "the inner sizes are 3 and 4")
bad("BatchMatmul", {"transpose_b": "false"}, ["f32[2, 3]", "f32[4, 3]"], "the inner sizes are 3 and 4")
bad("BatchMatmul", {"transpose_b": "false"}, ["f32[3]", "f32[3, 4]"], "a has shape [3], expected at least 2")
bad("BatchMatmul", {"transpose_b": "false"}, ["f32[3, 4]", "f32[]"], "b has shape [], expected at least 2")
bad("BatchMatmul", {"transpose_b": "false"}, ["f32[2, 3, 4]", "f32[3, 4, 2]"], "do not broadcast: 2 against 3")
bad("BatchMatmul", {"transpose_b": "false"}, ["i64[2, 3]", "i64[3, 2]"], "a has the type i64, expected real")
bad("BatchMatmul", {"transpose_b": "2"}, ["f32[2, 3]", "f32[3, 2]"], "neither true nor false")

write()
