#!/usr/bin/env python3
"""Writes format/tests/goldens/: what llama.cpp makes of a few rows of values.

    python3 scripts/make-encoding-goldens.py [--ggml LIBRARY] [--out FOLDER]

LIBRARY is llama.cpp's libggml-base shared library; by default that of an installed
llama-cpp-python. Needs numpy. The files are little-endian:

    source.f32      the values that were quantised
    TYPE.bytes      their quantisation as K-quant TYPE, without an importance matrix
    TYPE.f32        what llama.cpp decodes from TYPE.bytes
    TYPE.random     blocks of random bytes with finite scales
    TYPE.random.f32 what llama.cpp decodes from them

The output is the same on every run. Build llama.cpp for plain x86-64 (as its ggml-base library
is by default): fused multiplications would change the last bits of the searches.
"""

import argparse
import ctypes
import pathlib
import sys

import numpy as np

# GGUF type: (number, values per block, bytes per block, offsets of half-precision scales)
TYPES = {
    "f16": (1, 1, 2, ()),
    "bf16": (30, 1, 2, ()),
    "q4_0": (2, 32, 18, (0,)),
    "q4_1": (3, 32, 20, (0, 2)),
    "q5_0": (6, 32, 22, (0,)),
    "q5_1": (7, 32, 24, (0, 2)),
    "q8_0": (8, 32, 34, (0,)),
    "q2_k": (10, 256, 84, (80, 82)),
    "q3_k": (11, 256, 110, (108,)),
    "q4_k": (12, 256, 144, (0, 2)),
    "q5_k": (13, 256, 176, (0, 2)),
    "q6_k": (14, 256, 210, (208,)),
}
LEN = 256


def source():
    """Super-blocks of 256 values, one kind each."""
    rng = np.random.default_rng(20240607)
    normal = lambda deviation: rng.normal(0, deviation, LEN)
    outliers = normal(0.02)
    outliers[[3, 77, 200]] = [1.5, -2.25, 0.75]
    mixed = normal(0.05) * np.repeat(10.0 ** rng.uniform(-3, 2, 8), 32)
    sparse = np.where(rng.random(LEN) < 0.1, normal(1.0), 0.0)
    part_zero = normal(0.3)
    part_zero[64:160] = 0.0
    constant = np.repeat(np.array([0.5, -0.5, 0.0, 3.0, -7.0, 1e-3, -1e-3, 0.25]), 32)
    rows = [
        normal(0.02),
        outliers,
        mixed,
        sparse,
        part_zero,
        constant,
        -np.abs(normal(0.1)),
        1.0 + np.abs(normal(0.1)),
        normal(1e-6),
        normal(1e-39),
        rng.uniform(-300.0, 300.0, LEN),
        rng.integers(-7, 8, LEN) * 0.0625,
    ]
    return np.concatenate(rows).astype("<f4")


def library(path):
    if path is None:
        try:
            import llama_cpp
        except ImportError:
            sys.exit("give --ggml LIBRARY, or install llama-cpp-python")
        folder = pathlib.Path(llama_cpp.__file__).parent / "lib"
        found = [folder / name for name in ("libggml-base.so", "libggml-base.dylib")]
        path = next((str(p) for p in found if p.exists()), None)
        if path is None:
            sys.exit(f"no libggml-base in {folder}; give --ggml LIBRARY")
    ggml = ctypes.CDLL(path)
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_int64,
        ctypes.c_void_p,
    ]
    return ggml


def quantise(ggml, kind, values):
    number, block, size, _ = TYPES[kind]
    values = np.ascontiguousarray(values, dtype="<f4")
    out = np.zeros(values.size // block * size, dtype=np.uint8)
    # Rows of a super-block: every type takes them, and rows are independent.
    ggml.ggml_quantize_chunk(
        number, values.ctypes.data, out.ctypes.data, 0, values.size // LEN, LEN, None
    )
    return out


def dequantise(ggml, kind, data):
    _, block, size, _ = TYPES[kind]
    if kind == "f16":
        return data.view("<f2").astype("<f4")
    if kind == "bf16":
        return (data.view("<u2").astype("<u4") << 16).view("<f4")
    name = kind.replace("_k", "_K")
    function = getattr(ggml, f"dequantize_row_{name}")
    function.restype = None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    data = np.ascontiguousarray(data, dtype=np.uint8)
    out = np.zeros(data.size // size * block, dtype="<f4")
    function(data.ctypes.data, out.ctypes.data, out.size)
    return out


def random_blocks(kind, seed):
    """512 values' worth of random bytes, with scales that are finite."""
    _, block, size, scales = TYPES[kind]
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (512 // block, size), dtype=np.uint8)
    for place in scales or (0,):
        # An exponent below the top one.
        data[:, place + 1] &= 0xBF
    return data.reshape(-1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--ggml", metavar="LIBRARY")
    here = pathlib.Path(__file__).resolve().parent.parent
    arguments.add_argument("--out", type=pathlib.Path, default=here / "format/tests/goldens")
    arguments = arguments.parse_args()
    ggml = library(arguments.ggml)
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    values = source()
    values.tofile(out / "source.f32")
    for seed, kind in enumerate(TYPES):
        if kind.endswith("_k"):
            data = quantise(ggml, kind, values)
            data.tofile(out / f"{kind}.bytes")
            dequantise(ggml, kind, data).tofile(out / f"{kind}.f32")
        data = random_blocks(kind, seed)
        data.tofile(out / f"{kind}.random")
        dequantise(ggml, kind, data).tofile(out / f"{kind}.random.f32")


if __name__ == "__main__":
    main()
