"""ExpertMatmul: products of rows with the matrices of chosen experts, as an einsum over gathered matrices.

Needs torch and safetensors.
"""

import torch
from common import bad, case, fault, rand, write

OP = "ExpertMatmul"


def expected(x, w, index):
    x = x if x.dim() == 3 else x[:, None, :].expand(-1, index.shape[1], -1)
    return torch.einsum("sck,scnk->scn", x, w[index])


def add(name, s, chosen, experts, n, k, each, kinds, index=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = rand(s, chosen, k, seed=seed) if each else rand(s, k, seed=seed)
    w = rand(experts, n, k, seed=seed + 1)
    if index is None:
        index = torch.stack([torch.randperm(experts, generator=generator)[:chosen] for _ in range(s)])
    y = expected(x, w, index)
    case(OP, name, {}, {"x": x, "W": w, "index": index}, y, tolerance=1e-6 * k**0.5, kinds=kinds)


add("shared_rows", 5, 2, 4, 6, 8, False, ["ordinary"])
add("row_of_each_choice", 4, 2, 4, 6, 8, True, ["ordinary"])
add("one_of_everything", 1, 1, 1, 1, 1, False, ["size_one"])
add("one_token_each", 1, 3, 3, 1, 5, True, ["size_one", "odd"])
add("odd_sizes", 7, 3, 5, 3, 7, False, ["odd"], seed=3)
add("all_choose_the_same", 6, 1, 3, 4, 4, False, ["extreme"], index=torch.full((6, 1), 2))
add("the_same_expert_twice", 2, 2, 3, 4, 4, True, ["extreme"], index=torch.tensor([[1, 1], [0, 2]]))
# Indices may be whole real numbers, as ids may.
x, w, index = rand(3, 4), rand(2, 3, 4), torch.tensor([[1], [0], [1]])
case(OP, "whole_real_numbers", {}, {"x": x, "W": w, "index": index.double()}, expected(x, w, index), tolerance=2e-6)

bad(OP, {}, ["f32[5, 7]", "f32[4, 6, 8]", "i64[5, 2]"], "the last dimension of x is 7, expected 8")
bad(OP, {}, ["f32[5, 8]", "f32[4, 6, 8]", "i64[4, 2]"], "the number of rows of index is 4, expected 5")
bad(OP, {}, ["f32[5, 3, 8]", "f32[4, 6, 8]", "i64[5, 2]"], "the number of choices of index is 2, expected 3")
bad(OP, {}, ["f32[5, 8]", "f32[6, 8]", "i64[5, 2]"], "W has shape [6, 8]")
bad(OP, {}, ["i64[5, 8]", "f32[4, 6, 8]", "i64[5, 2]"], "x has the type i64")
bad(OP, {}, ["f32[5, 8]", "f32[4, 6, 8]", "bool[5, 2]"], "index has the type bool")
fault(OP, "past_the_last", {}, {"x": x, "W": w, "index": torch.tensor([[0], [2], [1]])}, "id 2 is no row of a table of 2")
fault(OP, "negative", {}, {"x": x, "W": w, "index": torch.tensor([[0], [-1], [1]])}, "id -1 is no row of a table of 2")

write()
