"""Cases of Constant, which has no operands.

Needs torch and safetensors.
"""

import torch
from common import bad, case, fault, write

REAL, WHOLE, TRUTH = torch.float64, torch.int64, torch.bool
LARGEST = 2**24 - 1

for name, dtype, values, shape, kinds in [
    ("ordinary", "f32", [0.5, -1.25, 3, 1e-3, 7e20, -0.0], [2, 3], ["ordinary"]),
    ("one_value", "f32", [0.25], [3, 4], ["ordinary"]),
    ("scalar", "f32", [-2.5], [], ["size_one"]),
    ("size_one", "f32", [1.5], [1, 1], ["size_one"]),
    ("odd", "f32", [x / 8 - 3 for x in range(3 * 5 * 7)], [3, 5, 7], ["odd"]),
    ("nine_dimensions", "f32", [x / 4 for x in range(24)], [1, 2, 1, 3, 1, 2, 1, 1, 2], ["odd"]),
    ("nothing", "f32", [1], [0, 3], ["extreme"]),
    ("infinities", "f32", [float("inf"), float("-inf"), float("nan")], [3], ["extreme"]),
    ("half", "f16", [1, -0.5, 2048], [3], ["odd"]),
    ("brain", "bf16", [1, -0.5, 2.0**100], [3], ["odd"]),
    ("integers", "i64", [LARGEST, -LARGEST, 0, 5], [2, 2], ["ordinary"]),
    ("one_integer", "i64", [7], [2, 1, 3], ["ordinary"]),
    ("bytes", "u8", [0, 255, 3], [3], ["odd"]),
    ("truths", "bool", [1, 0, 0, 1], [4], ["ordinary"]),
    ("one_truth", "bool", [1], [2, 3], ["ordinary"]),
]:
    kind = {"f32": REAL, "f16": torch.float16, "bf16": torch.bfloat16, "i64": WHOLE, "u8": torch.uint8, "bool": TRUTH}
    exact = torch.tensor(values, dtype=torch.float64)
    # A value is stored as f32.
    result = exact.float().to(kind[dtype])
    result = result[0].expand(shape) if len(values) == 1 else result.reshape(shape)
    attributes = {"dtype": dtype, "shape": str(shape), "values": str(values)}
    case("Constant", name, attributes, {}, result, kinds=kinds)

bad("Constant", {"dtype": "f32", "shape": "[-1]", "values": "[1]"}, [], "`shape` holds -1, expected sizes of at least 0")
bad("Constant", {"dtype": "f32", "shape": "[2, 2]", "values": "[1, 2, 3]"}, [], "3 elements, expected 1 or the 4")
bad("Constant", {"dtype": "f32", "shape": "[2]", "values": "[]"}, [], "0 elements, expected 1 or the 2")
bad("Constant", {"dtype": "f32", "shape": str([2**40] * 2), "values": "[1]"}, [], "more elements than 64 bits count")
bad("Constant", {"dtype": "q8", "shape": "[2]", "values": "[1]"}, [], "`dtype` is q8, which only weights have")
bad("Constant", {"dtype": "i64", "shape": "[2]", "values": "[1, 0.5]"}, [], "0.5, which is no i64")
bad("Constant", {"dtype": "i64", "shape": "[1]", "values": f"[{2**24}]"}, [], "not below 2^24")
bad("Constant", {"dtype": "u8", "shape": "[2]", "values": "[0, 256]"}, [], "256, which is no u8")
bad("Constant", {"dtype": "bool", "shape": "[2]", "values": "[0, 2]"}, [], "2, which is no bool")
bad("Constant", {"dtype": "f32", "shape": "[2]", "values": "[1]"}, ["f32[2]"], "found 1")
fault("Constant", "large", {"dtype": "f32", "shape": str([2**40]), "values": "[1]"}, {}, "elements")

write()
