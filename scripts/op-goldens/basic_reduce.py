"""Cases of reductions, running sums, the largest values, and numbers that follow from a size."""

import math

import torch
from common import bad, case, fault, rand, write

INF, NAN = float("inf"), float("nan")
NINE = (1, 2, 1, 3, 1, 2, 1, 1, 2)


def f(*values):
    return torch.tensor(values, dtype=torch.float64)


def i(*values):
    return torch.tensor(values, dtype=torch.int64)


def whole(*shape, seed=0, low=-5, high=5):
    return rand(*shape, seed=seed, low=low, high=high).floor().long()


def reference(how, x, axes, keep):
    axes = sorted({a % x.dim() for a in axes}) if axes else list(range(x.dim()))
    if how == "sum":
        return x.sum(axes, keepdim=keep) if axes else x
    if how == "mean":
        return x.mean(axes, keepdim=keep) if axes else x
    if how in ("max", "min"):
        return getattr(x, "amax" if how == "max" else "amin")(axes, keepdim=keep) if axes else x
    for a in reversed(axes):
        x = x.prod(a, keepdim=keep)
    return x


def spell(value):
    return str(value).lower() if isinstance(value, bool) else str(list(value))


def reduction(name, how, x, axes, keep, kinds):
    axes_text, result = spell(axes), reference(how, x, axes, keep)
    count = max(1, x.numel() // max(1, result.numel()))
    attributes = {"how": how, "axes": axes_text, "keep": spell(keep)}
    case("Reduce", f"{how}_{name}", attributes, {"x": x}, result, 1e-6 * math.sqrt(count), kinds)


for how in ["sum", "mean", "max", "min", "prod"]:
    reduction("ordinary", how, rand(3, 4), [1], False, ["ordinary"])
    reduction("keep", how, rand(3, 4), [0], True, ["ordinary"])
    reduction("size_one", how, rand(1, 1), [0], False, ["size_one"])
    reduction("odd", how, rand(5, 3, 7), [2, 0], False, ["odd"])
    reduction("negative", how, rand(5, 3, 7), [-2], True, ["odd", "negative_axis"])
    reduction("middle", how, rand(2, 3, 4, 5), [1, -2], False, ["ordinary", "negative_axis"])
    reduction("all", how, rand(3, 5), [], False, ["odd"])
    reduction("all_keep", how, rand(3, 5), [], True, ["odd"])
    reduction("scalar", how, f(-1.25)[0], [], False, ["size_one"])
    reduction("nine_dimensions", how, rand(*NINE), [1, 3, -1], False, ["odd"])
    reduction("extreme", how, f(NAN, 1, INF, -INF, 0).repeat(2, 1).T * f(1, -1), [1], False, ["extreme"])
    reduction("no_rows", how, rand(0, 3), [1], False, ["extreme"])
    if how != "mean":
        reduction("integers", how, whole(3, 4), [1], False, ["ordinary"])
        reduction("integers_all", how, whole(3, 3), [], True, ["odd"])
for how in ["sum", "mean", "prod"]:
    reduction("of_none", how, rand(3, 0), [1], True, ["extreme"])
for how in ["sum", "prod"]:
    reduction("integers_of_none", how, whole(0, 3), [0], False, ["extreme"])
# What single precision would lose or overflow on the way.
lossy = torch.cat([f(16777216.0), torch.ones(400, dtype=torch.float64), f(-16777216.0)])
reduction("long", "sum", lossy, [0], False, ["extreme"])
reduction("far", "prod", f(1e30, 1e30, 1e-30, 1e-30), [0], False, ["extreme"])
# Sums and products whose steps leave 64 bits and whose result does not.
exact = i(2**63 - 1, 1, -1)
case("Reduce", "sum_far_integers", {"how": "sum", "axes": "[0]", "keep": "false"}, {"x": exact}, i(2**63 - 1)[0], kinds=["extreme"])
case("Reduce", "prod_far_integers", {"how": "prod", "axes": "[0]", "keep": "false"}, {"x": i(2**62, 2, -1)}, i(-(2**63))[0], kinds=["extreme"])
fault("Reduce", "sum_overflow", {"how": "sum", "axes": "[0]", "keep": "false"}, {"x": i(2**63 - 1, 1)}, "does not fit in 64 bits")
fault("Reduce", "prod_overflow", {"how": "prod", "axes": "[0]", "keep": "false"}, {"x": i(2**62, 2)}, "does not fit in 64 bits")
fine = {"how": "sum", "axes": "[0]", "keep": "false"}
bad("Reduce", fine | {"axes": "[2]"}, ["f32[2, 3]"], "dimension 2 does not exist")
bad("Reduce", fine | {"axes": "[-3]"}, ["f32[2, 3]"], "dimension -3 does not exist")
bad("Reduce", fine | {"axes": "[0, -2]"}, ["f32[2, 3]"], "axes name dimension 0 of [2, 3] twice")
bad("Reduce", fine, ["f32[]"], "dimension 0 does not exist")
bad("Reduce", fine | {"how": "std"}, ["f32[2, 3]"], "`std` is unknown")
bad("Reduce", fine, ["bool[2, 3]"], "x has the type bool, expected numbers")
bad("Reduce", fine | {"how": "mean"}, ["i64[2, 3]"], "x has the type i64, expected real")
bad("Reduce", fine | {"how": "max"}, ["f32[0, 3]"], "dimension 0 is empty")
bad("Reduce", fine | {"how": "min", "axes": "[]"}, ["i64[2, 0]"], "dimension 1 is empty")

for name, x, axis, kinds in [
    ("ordinary", rand(3, 4), 1, ["ordinary"]),
    ("first", rand(3, 4), 0, ["ordinary"]),
    ("size_one", rand(1, 1), 0, ["size_one"]),
    ("odd", rand(5, 3, 7), 1, ["odd"]),
    ("negative", rand(5, 3, 7), -3, ["odd", "negative_axis"]),
    ("nine_dimensions", rand(*NINE), 3, ["odd"]),
    ("integers", whole(3, 5), -1, ["odd", "negative_axis"]),
    ("empty", rand(3, 0), 1, ["extreme"]),
    ("extreme", f(1, INF, 2, -INF, 3, NAN), 0, ["extreme"]),
    ("long", lossy, 0, ["extreme"]),
]:
    tolerance = 1e-6 * math.sqrt(max(1, x.shape[axis]))
    case("CumSum", name, {"axis": str(axis)}, {"x": x}, x.cumsum(axis), tolerance, kinds)
fault("CumSum", "overflow", {"axis": "0"}, {"x": i(2**63 - 1, 1)}, "does not fit in 64 bits")
bad("CumSum", {"axis": "2"}, ["f32[2, 3]"], "dimension 2 does not exist")
bad("CumSum", {"axis": "0"}, ["f32[]"], "dimension 0 does not exist")
bad("CumSum", {"axis": "0"}, ["bool[2]"], "x has the type bool, expected numbers")


def top(name, x, axis, k, kinds):
    # A stable sort in descending order keeps ties by index; torch puts NaN first, as documented.
    values, index = x.sort(dim=axis, descending=True, stable=True)
    result = [values.narrow(axis, 0, k), index.narrow(axis, 0, k)]
    case("TopK", name, {"axis": str(axis), "k": str(k)}, {"x": x}, result, kinds=kinds)


top("ordinary", rand(3, 6), 1, 2, ["ordinary"])
top("first", rand(6, 3), 0, 4, ["ordinary"])
top("size_one", rand(1, 1), 0, 1, ["size_one"])
top("odd", rand(3, 7, 5), 1, 3, ["odd"])
top("negative", rand(3, 7, 5), -2, 7, ["odd", "negative_axis"])
top("none", rand(3, 4), 1, 0, ["extreme"])
top("empty", rand(0, 4), 1, 2, ["extreme"])
top("nine_dimensions", rand(*NINE), 3, 2, ["odd"])
top("ties", whole(4, 9, low=0, high=3).double(), 1, 5, ["extreme"])
top("integers", whole(3, 7), -1, 3, ["odd", "negative_axis"])
top("far_integers", i(2**53, 2**53 + 1, -(2**63), 2**63 - 1), 0, 4, ["extreme"])
top("extreme", f(1, NAN, INF, -INF, NAN, 0, -0.0), 0, 7, ["extreme"])
bad("TopK", {"axis": "1", "k": "4"}, ["f32[2, 3]"], "k is 4, and dimension 1 of x [2, 3] has 3 elements")
bad("TopK", {"axis": "-3", "k": "1"}, ["f32[2, 3]"], "dimension -3 does not exist")
bad("TopK", {"axis": "0", "k": "1"}, ["f32[]"], "dimension 0 does not exist")
bad("TopK", {"axis": "0", "k": "-1"}, ["f32[2]"], "`-1` is not a value of type u32")
bad("TopK", {"axis": "0", "k": "1"}, ["bool[2]"], "x has the type bool, expected numbers")

for name, x, axis, kinds in [
    ("ordinary", rand(3, 4), 1, ["ordinary"]),
    ("size_one", rand(1), 0, ["size_one"]),
    ("odd", whole(5, 3, 7), 2, ["odd"]),
    ("negative", rand(5, 3, 7) > 0, -3, ["odd", "negative_axis"]),
    ("nine_dimensions", rand(*NINE), -6, ["odd", "negative_axis"]),
    ("empty", rand(0, 3), 0, ["extreme"]),
]:
    n = x.shape[axis]
    case("Size", name, {"axis": str(axis)}, {"x": x}, torch.tensor(n), kinds=kinds)
    case("Iota", name, {"axis": str(axis)}, {"x": x}, torch.arange(n), kinds=kinds)
for op in ["Size", "Iota"]:
    bad(op, {"axis": "2"}, ["f32[2, 3]"], "dimension 2 does not exist")
    bad(op, {"axis": "0"}, ["f32[]"], "dimension 0 does not exist")
    bad(op, {}, ["f32[2]"], "missing")
    # Every element type has a size.
    bad(op, {"axis": "0"}, ["f32[2]", "f32[2]"], "takes the operands `x`, found 2")

# Bytes stay bytes.
small = torch.tensor([[3, 200, 9], [50, 1, 5]], dtype=torch.uint8)
for how, result in [("sum", [212, 56]), ("max", [200, 50]), ("min", [3, 1])]:
    attributes = {"how": how, "axes": "[1]", "keep": "false"}
    case("Reduce", f"{how}_bytes", attributes, {"x": small}, torch.tensor(result, dtype=torch.uint8))
case("CumSum", "bytes", {"axis": "0"}, {"x": small}, small.cumsum(0).to(torch.uint8))
top("bytes", small, 1, 2, ["ordinary"])
fault("Reduce", "sum_past_bytes", {"how": "sum", "axes": "[]", "keep": "false"}, {"x": small}, "the result 268 does not fit in u8")
past = torch.tensor([200, 100], dtype=torch.uint8)
fault("CumSum", "past_bytes", {"axis": "0"}, {"x": past}, "the result 300 does not fit in u8")

# Rows of segments.
COMBINE = {
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(0),
    "max": lambda x: x.amax(0),
    "min": lambda x: x.amin(0),
    "prod": lambda x: x.prod(0),
}


def segments(name, how, x, starts, kinds=("ordinary",)):
    ends = [*starts[1:], x.shape[0]]
    rows = [COMBINE[how](x[a:b]) for a, b in zip(starts, ends)]
    result = torch.stack(rows) if rows else x[:0]
    case("SegmentReduce", name, {"how": how}, {"x": x, "starts": i(*starts)}, result, kinds=kinds)


for how in COMBINE:
    segments(how, how, rand(7, 4), [0, 2, 6])
segments("size_one", "mean", rand(1, 1), [0], ["size_one"])
segments("odd", "mean", rand(5, 3, 7), [0, 1], ["odd"])
segments("vector", "max", rand(5), [0, 3])
segments("none", "max", rand(0, 3), [], ["extreme"])
segments("infinite", "max", f(-INF, 1.0, NAN, 2.0)[:, None], [0, 2, 3], ["extreme"])
bad("SegmentReduce", {"how": "mean"}, ["i64[S, 4]", "i64[B]"], "x has the type i64")
bad("SegmentReduce", {"how": "mean"}, ["f32[]", "i64[B]"], "x is a scalar")
bad("SegmentReduce", {"how": "mean"}, ["f32[S, 4]", "f32[B]"], "starts has the type f32")
bad("SegmentReduce", {"how": "mean"}, ["f32[S, 4]", "i64[B, 1]"], "starts has shape [B, 1]")
for name, starts in [("late", [1, 2]), ("falling", [0, 3, 2]), ("empty", [0, 0]), ("past", [0, 4])]:
    fault("SegmentReduce", name, {"how": "sum"}, {"x": rand(4, 2), "starts": i(*starts)}, f"starts is {starts}, expected 0")

write()
