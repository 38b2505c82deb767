"""Transpose, Reshape, Permute, Concat, Split, Chunk, Slice: elements move, none changes."""

import torch
from common import bad, case, rand, write

END = 2**63 - 1


def move(op, name, attributes, operands, results, kinds=("ordinary",)):
    case(op, name, attributes, operands, results, 0.0, kinds)


# Transpose and Permute do the same under two names.
for op, field in (("Transpose", "perm"), ("Permute", "dims")):
    for name, shape, dims, kind in (
        ("matrix", (3, 8), [1, 0], "ordinary"),
        ("heads", (2, 4, 3, 6), [0, 2, 1, 3], "ordinary"),
        ("odd", (3, 5, 7), [2, 0, 1], "odd"),
        ("same", (3, 4), [0, 1], "ordinary"),
        ("vector", (5,), [0], "odd"),
        ("size_one", (1, 1), [1, 0], "size_one"),
        ("scalar", (), [], "size_one"),
    ):
        x = rand(*(shape or (1,))).reshape(shape)
        move(op, name, {field: str(dims)}, {"x": x}, x.permute(dims).clone(), [kind])
    whole = torch.arange(12).reshape(3, 4)
    move(op, "integers", {field: "[1, 0]"}, {"x": whole}, whole.T)
    move(op, "truths", {field: "[1, 0]"}, {"x": whole > 4}, whole.T > 4)
    bad(op, {field: "[0, 0]"}, ["f32[3, 8]"], "is not a permutation")
    bad(op, {field: "[0, 2]"}, ["f32[3, 8]"], "is not a permutation")
    bad(op, {field: "[0]"}, ["f32[3, 8]"], "names 1 dimensions")
    bad(op, {field: "[-1, 0]"}, ["f32[3, 8]"], "not a value of type u32")

# Reshape
for name, shape, to, kind in (
    ("matrix", (3, 8), [4, 6], "ordinary"),
    ("open", (3, 8), [-1, 2, 4], "ordinary"),
    ("flat", (3, 5, 7), [-1], "odd"),
    ("open_last", (3, 5, 7), [15, -1], "odd"),
    ("to_scalar", (1, 1), [], "size_one"),
    ("size_one", (1,), [1, 1, 1], "size_one"),
    ("empty", (0, 4), [2, -1], "extreme"),
):
    x = rand(*shape)
    move("Reshape", name, {"shape": str(to)}, {"x": x}, x.reshape(to) if name != "empty" else torch.zeros(2, 0), [kind])
move("Reshape", "integers", {"shape": "[4, -1]"}, {"x": whole}, whole.reshape(4, 3))
move("Reshape", "truths", {"shape": "[12]"}, {"x": whole > 4}, whole.reshape(12) > 4)
bad("Reshape", {"shape": "[-1, 3]"}, ["f32[2, 4]"], "no multiple of the 3")
bad("Reshape", {"shape": "[-1, -1]"}, ["f32[2, 4]"], "more than one -1")
bad("Reshape", {"shape": "[-2, 4]"}, ["f32[2, 4]"], "negative dimension -2")
bad("Reshape", {"shape": "[9]"}, ["f32[2, 4]"], "8 elements, [9] has 9")
bad("Reshape", {"shape": "[0, 9223372036854775807, 2]"}, ["f32[0]"], "too large")
bad("Reshape", {"shape": "eight"}, ["f32[8]"], "is not a list")

# Concat
for name, shapes, axis, kind in (
    ("rows", ((2, 4), (3, 4)), 0, "ordinary"),
    ("columns", ((3, 2), (3, 5), (3, 1)), 1, "odd"),
    ("middle", ((2, 3, 4), (2, 1, 4)), 1, "ordinary"),
    ("alone", ((3, 5),), 0, "odd"),
    ("with_nothing", ((0, 4), (3, 4)), 0, "extreme"),
    ("size_one", ((1,), (1,)), 0, "size_one"),
):
    parts = [rand(*shape, seed=i) for i, shape in enumerate(shapes)]
    move("Concat", name, {"axis": str(axis)}, {f"x{i}": p for i, p in enumerate(parts)}, torch.cat(parts, axis), [kind])
move("Concat", "integers", {"axis": "1"}, {"a": whole, "b": whole[:, :1]}, torch.cat([whole, whole[:, :1]], 1))
few = torch.tensor([[1, 2, 250]], dtype=torch.uint8)
move("Concat", "bytes", {"axis": "0"}, {"a": few, "b": few}, torch.cat([few, few]))
move("Concat", "truths", {"axis": "0"}, {"a": whole > 4, "b": whole < 2}, torch.cat([whole > 4, whole < 2]))
bad("Concat", {"axis": "1"}, ["f32[2, 4]", "f32[3, 4]"], "differ outside dimension 1")
bad("Concat", {"axis": "0"}, ["f32[2, 4]", "f32[4]"], "differ outside dimension 0")
bad("Concat", {"axis": "0"}, ["f32[2, 4]", "i64[2, 4]"], "differ outside dimension 0")
bad("Concat", {"axis": "2"}, ["f32[2, 4]"], "dimension 2 does not exist")
bad("Concat", {"axis": "0"}, [], "at least one operand")
bad("Concat", {"axis": "-1"}, ["f32[2, 4]"], "not a value of type u32")

# Split and Chunk
for name, shape, axis, sizes, kind in (
    ("columns", (3, 8), 1, [3, 5], "ordinary"),
    ("rows", (6, 4), 0, [1, 2, 3], "ordinary"),
    ("odd", (2, 7, 3), 1, [5, 0, 2], "odd"),
    ("one_part", (3, 5), 1, [5], "odd"),
    ("size_one", (1,), 0, [1], "size_one"),
):
    x = rand(*shape)
    move("Split", name, {"axis": str(axis), "sizes": str(sizes)}, {"x": x}, list(x.split(sizes, axis)), [kind])
move("Split", "integers", {"axis": "1", "sizes": "[1, 3]"}, {"x": whole}, list(whole.split([1, 3], 1)))
bad("Split", {"axis": "1", "sizes": "[3, 4]"}, ["f32[3, 8]"], "add up to 7")
bad("Split", {"axis": "1", "sizes": "[]"}, ["f32[3, 0]"], "sizes is empty")
bad("Split", {"axis": "2", "sizes": "[3]"}, ["f32[3, 8]"], "dimension 2 does not exist")
bad("Split", {"axis": "0", "sizes": "[3]"}, ["f32[S, 8]"], "add up to 3")
for name, shape, axis, chunks, kind in (
    ("halves", (3, 8), 1, 2, "ordinary"),
    ("rows", (6, 4), 0, 3, "ordinary"),
    ("odd", (2, 9, 5), 1, 3, "odd"),
    ("one_chunk", (3, 5), 0, 1, "odd"),
    ("size_one", (1, 1), 1, 1, "size_one"),
):
    x = rand(*shape)
    move("Chunk", name, {"axis": str(axis), "chunks": str(chunks)}, {"x": x}, list(x.chunk(chunks, axis)), [kind])
move("Chunk", "truths", {"axis": "1", "chunks": "2"}, {"x": whole > 4}, list((whole > 4).chunk(2, 1)))
bad("Chunk", {"axis": "1", "chunks": "3"}, ["f32[3, 8]"], "no multiple of 3")
bad("Chunk", {"axis": "1", "chunks": "0"}, ["f32[3, 8]"], "0 chunks")
bad("Chunk", {"axis": "1", "chunks": "4294967295"}, ["f32[3, 8]"], "are not possible")
bad("Chunk", {"axis": "5", "chunks": "2"}, ["f32[3, 8]"], "dimension 5 does not exist")

# Slice: bounds from either end.
for name, shape, axis, start, end, kind in (
    ("columns", (3, 8), 1, 2, 5, "ordinary"),
    ("last_row", (5, 4), 0, -1, END, "negative_axis"),
    ("from_the_end", (3, 9), 1, -4, -1, "negative_axis"),
    ("to_before_the_end", (3, 9), 1, 2, -2, "odd"),
    ("odd", (3, 5, 7), 2, 1, END, "odd"),
    ("all", (3, 5), 0, 0, END, "ordinary"),
    ("none", (3, 5), 0, 2, 2, "extreme"),
    ("size_one", (1,), 0, 0, 1, "size_one"),
):
    x = rand(*shape)
    part = x[(slice(None),) * axis + (slice(start, None if end == END else end),)]
    move("Slice", name, {"axis": str(axis), "start": str(start), "end": str(end)}, {"x": x}, part, [kind])
move("Slice", "integers", {"axis": "0", "start": "1", "end": "3"}, {"x": whole}, whole[1:3])
span = lambda axis, start, end: {"axis": str(axis), "start": str(start), "end": str(end)}
bad("Slice", span(1, 2, 9), ["f32[3, 8]"], "lies outside dimension 1")
bad("Slice", span(1, -9, 2), ["f32[3, 8]"], "lies outside dimension 1")
bad("Slice", span(0, 3, 2), ["f32[S, 8]"], "is empty backwards")
bad("Slice", span(2, 0, 1), ["f32[3, 8]"], "dimension 2 does not exist")
bad("Slice", span(0, -(2**63), 0), ["f32[3, 8]"], "lies outside dimension 0")

write()
