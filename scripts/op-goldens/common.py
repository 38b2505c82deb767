"""What the scripts in this folder share: cases of operations with values from PyTorch.

Each script builds cases with `case`, `bad` and `fault` and ends with `write()`, which puts
`NAME.json` and `NAME.safetensors` of every operation it touched into executor/tests/ops/. Run them
all with `for f in scripts/op-goldens/*_*.py; do python "$f"; done`; they need torch and
safetensors. Values are computed in float64 and stored as float32.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

OUT = Path(__file__).resolve().parents[2] / "executor" / "tests" / "ops"
KINDS = {"ordinary", "size_one", "odd", "broadcast", "negative_axis", "extreme"}
_NAMES = {
    torch.float32: "f32",
    torch.float64: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.bool: "bool",
}
_ops: dict[str, dict] = {}
_tensors: dict[str, dict[str, torch.Tensor]] = {}


def rand(*shape, seed=0, low=-2.0, high=2.0):
    """Uniform float64 values that float32 holds exactly; the same seed and shape give the same."""
    generator = torch.Generator().manual_seed(seed + 7919 * len(shape) + sum(shape))
    values = torch.rand(*shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return values.float().double()


def _entry(op):
    return _ops.setdefault(op, {"op": op, "cases": [], "bad": [], "faults": []})


def _store(op, name, operands):
    tensors = _tensors.setdefault(op, {})
    types = []
    for operand, value in operands.items():
        value = torch.as_tensor(value)
        types.append(f"{operand}: {_NAMES[value.dtype]}")
        tensors[f"{name}/{operand}"] = _plain(value)
    return types


def _plain(value):
    # Truth values are stored as bytes; clones, since the format refuses shared memory.
    if value.dtype == torch.float64:
        value = value.float()
    if value.dtype == torch.bool:
        value = value.to(torch.uint8)
    return value.contiguous().clone()


def case(op, name, attributes, operands, results, tolerance=1e-6, kinds=("ordinary",)):
    """A case that must run: `attributes` are texts of every field as the text form spells them."""
    assert set(kinds) <= KINDS, kinds
    entry = _entry(op)
    assert name not in {c["name"] for c in entry["cases"] + entry["faults"]}, (op, name)
    results = [torch.as_tensor(r) for r in (results if isinstance(results, (list, tuple)) else [results])]
    types = _store(op, name, operands)
    for i, result in enumerate(results):
        _tensors[op][f"{name}/result{i}"] = _plain(result)
    entry["cases"].append(
        {
            "name": name,
            "kinds": list(kinds),
            "attributes": attributes,
            "operands": types,
            "results": len(results),
            "tolerance": tolerance,
        }
    )


def bad(op, attributes, operand_types, error):
    """Operands that the rule refuses, as types such as `f32[S, 4]`; `error` is part of its message."""
    _entry(op)["bad"].append({"attributes": attributes, "operands": list(operand_types), "error": error})


def fault(op, name, attributes, operands, error):
    """Operands that the rule takes and running refuses, for what they hold."""
    types = _store(op, name, operands)
    _entry(op)["faults"].append({"name": name, "attributes": attributes, "operands": types, "error": error})


def write():
    """Writes every operation that this script touched."""
    OUT.mkdir(parents=True, exist_ok=True)
    for op, entry in sorted(_ops.items()):
        text = json.dumps(entry, indent=1)
        (OUT / f"{op}.json").write_text(text + "\n")
        save_file(dict(sorted(_tensors.get(op, {}).items())), OUT / f"{op}.safetensors")
        print(f"{op}: {len(entry['cases'])} cases, {len(entry['bad'])} bad, {len(entry['faults'])} faults")
