#!/usr/bin/env python3
"""Writes what the modules of a transformers model give, for `tallow diff --against`.

    python scripts/dump-intermediates.py MODEL OUT.safetensors --text "Once upon a time"
    python scripts/dump-intermediates.py MODEL OUT.safetensors --ids 1,5,9

Needs `torch`, `transformers` and `safetensors`. MODEL is a folder or a name that
`from_pretrained` takes. OUT holds `input_ids`, `logits`, and one tensor for each module with
parameters, named by its path (`model.layers.0.self_attn.q_proj`), as f32 without the batch
dimension; of a module that is called more than once, the first call. One forward pass in f32
on the eager path, without a cache.
"""

import argparse

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def dump(model, ids):
    """The tensors by module path."""
    tensors = {}

    def hook(path):
        def keep(_module, _inputs, output):
            first = output[0] if isinstance(output, (tuple, list)) else output
            if torch.is_tensor(first) and path not in tensors:
                tensors[path] = first[0].detach().to(torch.float32).clone().contiguous()
        return keep

    for path, module in model.named_modules():
        if path and next(module.parameters(), None) is not None:
            module.register_forward_hook(hook(path))
    with torch.no_grad():
        logits = model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0]
    return {**tensors, "input_ids": ids, "logits": logits.to(torch.float32).contiguous()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("out")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--text")
    given.add_argument("--ids", help="numbers with commas between them")
    args = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(
        args.model, dtype=torch.float32, attn_implementation="eager").eval()
    if args.ids:
        ids = torch.tensor([int(i) for i in args.ids.split(",")])
    else:
        ids = torch.tensor(AutoTokenizer.from_pretrained(args.model)(args.text).input_ids)
    tensors = dump(model, ids)
    save_file(tensors, args.out)
    print(f"{args.out}: {len(tensors)} tensors of {len(ids)} tokens")


if __name__ == "__main__":
    main()
