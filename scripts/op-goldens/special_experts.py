"""ExpertMatmul: products of rows with the matrices of chosen experts, as an einsum over gathered matrices; and
ExpertFeedForward, three of them with a gate and a weighted sum.

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

FEED_FORWARD = "ExpertFeedForward"


def feed_forward(name, s, chosen, experts, k, width, activation, f, joined, kinds, seed=0, columns=None):
    generator = torch.Generator().manual_seed(seed)
    index = torch.stack([torch.randperm(experts, generator=generator)[:chosen] for _ in range(s)])
    x, weights = rand(s, k, seed=seed), rand(s, chosen, seed=seed + 1)
    gate, up = rand(experts, width, k, seed=seed + 2), rand(experts, width, k, seed=seed + 3)
    down = rand(experts, columns or k, width, seed=seed + 4)
    inner = {"W_gate_up": torch.cat([gate, up], 1)} if joined else {"W_gate": gate, "W_up": up}
    y = f(expected(x, gate, index)) * expected(x, up, index)
    y = (expected(y, down, index) * weights[:, :, None]).sum(1)
    operands = {"x": x, "index": index, "weights": weights} | inner | {"W_down": down}
    fields = {"activation": activation, "joined": str(joined).lower()}
    case(FEED_FORWARD, name, fields, operands, y, tolerance=1e-6 * k * width, kinds=kinds)


silu, gelu = torch.nn.functional.silu, torch.nn.functional.gelu
feed_forward("apart", 5, 2, 4, 8, 6, "silu", silu, False, ["ordinary"])
feed_forward("joined", 5, 2, 4, 8, 6, "gelu", gelu, True, ["ordinary"])
feed_forward("relu", 4, 3, 6, 4, 8, "relu", torch.relu, False, ["ordinary"], columns=5)
feed_forward("no_activation", 4, 1, 2, 4, 3, "none", lambda x: x, True, ["ordinary"])
feed_forward("one_of_everything", 1, 1, 1, 1, 1, "silu", silu, False, ["size_one"])
feed_forward("odd_sizes", 7, 3, 5, 7, 3, "tanh", torch.tanh, True, ["odd"], seed=3, columns=5)
plain, joined = {"activation": "silu", "joined": "false"}, {"activation": "silu", "joined": "true"}
first = ["f32[5, 8]", "i64[5, 2]", "f32[5, 2]"]
bad(FEED_FORWARD, plain, first + ["f32[4, 6, 8]", "f32[4, 8, 6]"], "3 matrices are wanted, found 2")
bad(FEED_FORWARD, joined, first + ["f32[4, 7, 8]", "f32[4, 8, 3]"], "no two halves")
bad(FEED_FORWARD, joined, first + ["f32[4, 6, 8]", "f32[4, 8, 6]"], "the last dimension of x is 3, expected 6")
bad(FEED_FORWARD, plain, first + ["f32[4, 6, 8]", "f32[4, 5, 8]", "f32[4, 8, 6]"], "they must agree")
bad(FEED_FORWARD, plain, ["f32[5, 8]", "i64[5, 2]", "f32[5, 3]"] + ["f32[4, 6, 8]"] * 2 + ["f32[4, 8, 6]"], "they must agree")
bad(FEED_FORWARD, plain, ["f32[5, 2, 8]"] + first[1:] + ["f32[4, 6, 8]"] * 2 + ["f32[4, 8, 6]"], "x has shape [5, 2, 8]")
w = rand(2, 3, 4)
operands = {"x": rand(3, 4), "index": torch.tensor([[0], [2], [1]]), "weights": rand(3, 1), "W_gate": w, "W_up": w}
fault(FEED_FORWARD, "past_the_last", plain, operands | {"W_down": rand(2, 4, 3)}, "id 2 is no row of a table of 2")

write()
