"""Quantize and Dequantize: each encoding against llama.cpp's values or a search over every scale."""

from pathlib import Path

import gguf
import numpy
import torch
from common import bad, case, fault, rand, write

GOLDENS = Path(__file__).resolve().parents[2] / "format" / "tests" / "goldens"


def fixed(x, steps):
    return torch.round(x.double() * steps) / steps


def block_of_32(x, scales, code, divisor):
    """The scale of least squared error among `scales(largest magnitude)`, of equal ones the smaller."""
    out = []
    for run in x.double().numpy().reshape(-1, 32):
        best = None
        for scale in scales(numpy.abs(run).max()):
            values = code(run * divisor / scale) * scale / divisor if scale else numpy.zeros(32)
            error = ((run - values) ** 2).sum()
            if best is None or error < best[0]:
                best = error, values
        out.append(best[1])
    return torch.from_numpy(numpy.stack(out)).reshape(x.shape)


def q8(x):
    def scales(top):
        cover = int(numpy.ceil(top * 256))
        return range(max(cover - 1, 0), cover + 2)

    return block_of_32(x, scales, lambda v: numpy.clip(numpy.rint(v), -127, 127), 32512)


def q4(x):
    def scales(top):
        return range(int(numpy.ceil(top * 256 * 0.8)), int(top * 256 * 1.3) + 1)

    return block_of_32(x, scales, lambda v: numpy.clip(numpy.rint(v), -8, 7), 2048)


def add(dtype, name, x, y, kind="ordinary", tolerance=1e-6):
    case("Quantize", f"{dtype}_{name}", {"dtype": dtype}, {"x": x}, y, tolerance, [kind])


for dtype, through in (
    ("f32", lambda x: x),
    ("f16", lambda x: x.half().double()),
    ("bf16", lambda x: x.float().bfloat16().double()),
    ("u32", lambda x: fixed(x, 65536)),
    ("u16", lambda x: fixed(x, 256)),
):
    add(dtype, "matrix", rand(3, 8), through(rand(3, 8)), tolerance=0.0)
    add(dtype, "odd", rand(5, 7), through(rand(5, 7)), "odd", 0.0)
    add(dtype, "size_one", rand(1), through(rand(1)), "size_one", 0.0)
    add(dtype, "scalar", rand(1)[0], through(rand(1)[0]), "size_one", 0.0)
    # Ties go to even.
    ties = torch.tensor([0.5, 1.5, -0.5, 2.5]).double() / (256 if dtype == "u16" else 65536)
    if dtype in ("u16", "u32"):
        add(dtype, "ties", ties, through(ties), "extreme", 0.0)
for dtype, f in (("q8", q8), ("q4", q4)):
    for name, x, kind in (("matrix", rand(2, 64), "ordinary"), ("odd", rand(3, 32), "odd"), ("one_block", rand(32, seed=1), "size_one")):
        add(dtype, name, x, f(x), kind)
    zeros = torch.zeros(2, 32).double()
    add(dtype, "zeros", zeros, zeros, "extreme", 0.0)
signs = torch.tensor([[1.0, 0.0, -1.0, 1.0], [-0.0, -1.0, -1.0, 0.0]]).double()
add("ternary", "signs", signs, signs, tolerance=0.0)
add("ternary", "odd", signs[:1].repeat(3, 3), signs[:1].repeat(3, 3), "odd", 0.0)
source = numpy.fromfile(GOLDENS / "source.f32", "<f4").reshape(-1, 256)
for dtype, kind in (("q2k", "Q2_K"), ("q3k", "Q3_K"), ("q4k", "Q4_K"), ("q5k", "Q5_K"), ("q6k", "Q6_K")):
    blocks = numpy.fromfile(GOLDENS / f"{kind.lower()}.bytes", numpy.uint8).reshape(len(source), -1)
    values = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    for row, name in ((0, "normal"), (1, "outliers")):
        x, y = torch.from_numpy(source[row].copy()), torch.from_numpy(values[row].copy())
        add(dtype, name, x.double()[None], y.double()[None], ("ordinary", "odd")[row], 0.0)
for dtype in ("i8", "u8", "bool", "q8_0", "q4_0", "i32", "i64"):
    bad("Quantize", {"dtype": dtype}, ["f32[S, 256]"], f"values cannot be rounded through {dtype}")
for dtype, block in (("ternary", 4), ("q8", 32), ("q4", 32), ("q2k", 256), ("q3k", 256), ("q4k", 256), ("q5k", 256), ("q6k", 256)):
    bad("Quantize", {"dtype": dtype}, [f"f32[S, {block + 2}]"], f"no multiple of the {block} values of a block of {dtype}")
    bad("Quantize", {"dtype": dtype}, ["f32[]"], "x is a scalar")
bad("Quantize", {"dtype": "q9"}, ["f32[S, 256]"], "`q9` is not a dtype")
bad("Quantize", {"dtype": "q8"}, ["i64[S, 32]"], "x has the type i64")
far = torch.tensor([1.0, 1e6, 0.0, 0.0])
for dtype in ("u16", "u32", "f16"):
    fault("Quantize", f"{dtype}_range", {"dtype": dtype}, {"x": far}, f"x cannot be kept as {dtype}: value 1 is 1000000")
fault("Quantize", "ternary_range", {"dtype": "ternary"}, {"x": far}, "value 1 is 1000000, but ternary holds only")
fault("Quantize", "not_a_number", {"dtype": "q8"}, {"x": torch.full((32,), float("nan"))}, "x cannot be kept as q8: value 0 is not a finite")

# Dequantize: operands are decoded as they are read, so that what a computed one holds stays.
for name, shape, kind in (("matrix", (3, 8), "ordinary"), ("odd", (5, 7), "odd"), ("size_one", (1,), "size_one")):
    case("Dequantize", name, {}, {"x": rand(*shape)}, rand(*shape), 0.0, [kind])
bad("Dequantize", {}, ["i64[S]"], "x has the type i64")
bad("Dequantize", {}, [], "takes the operands `x`, found 0")

write()
