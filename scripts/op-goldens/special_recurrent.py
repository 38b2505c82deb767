"""GatedDelta: the recurrent gated delta rule of Qwen3-Next, without its scale of the queries.

The reference in float64 is held against `torch_recurrent_gated_delta_rule` of transformers, which works in
float32 and divides the queries by the root of their width: they are multiplied by it before.

Needs torch, transformers and safetensors.
"""

import torch
from common import bad, case, rand, write
from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

OP = "GatedDelta"


def expected(q, k, v, g, beta, state):
    out = torch.zeros_like(v)
    state = state.clone()
    for t in range(q.shape[0]):
        state *= g[t].exp()[:, None, None]
        memory = torch.einsum("hkv,hk->hv", state, k[t])
        state += torch.einsum("hk,hv->hkv", k[t], (v[t] - memory) * beta[t][:, None])
        out[t] = torch.einsum("hkv,hk->hv", state, q[t])
    return out, state


def check(q, k, v, g, beta, state, out, last):
    batch = [t[None].float() for t in (q * q.shape[-1] ** 0.5, k, v, g, beta)]
    theirs, theirs_last = torch_recurrent_gated_delta_rule(
        *batch, initial_state=state[None].float(), output_final_state=True, use_qk_l2norm_in_kernel=False
    )
    for ours, other in ((out, theirs[0]), (last, theirs_last[0])):
        assert (ours - other.double()).abs().max() <= 2e-6 * max(1.0, ours.abs().max()), "transformers disagrees"


def add(name, s, heads, dk, dv, given, kinds, decay=(-1.0, 0.0), seed=0, tolerance=3e-6):
    # As in a model: keys and queries of length 1, a log decay of at most 0, beta between 0 and 1.
    unit = lambda t: (t / t.norm(dim=-1, keepdim=True)).float().double()
    q, k = unit(rand(s, heads, dk, seed=seed)), unit(rand(s, heads, dk, seed=seed + 1))
    v = rand(s, heads, dv, seed=seed + 2)
    g = rand(s, heads, seed=seed + 3, low=decay[0], high=decay[1])
    beta = rand(s, heads, seed=seed + 4, low=0.0, high=1.0)
    state = rand(heads, dk, dv, seed=seed + 5) if given else torch.zeros(heads, dk, dv, dtype=torch.float64)
    out, last = expected(q, k, v, g, beta, state)
    if s > 0:
        check(q, k, v, g, beta, state, out, last)
    operands = {"q": q, "k": k, "v": v, "g": g, "beta": beta} | ({"state": state} if given else {})
    case(OP, name, {}, operands, [out, last], tolerance=tolerance, kinds=kinds)


# Sums over Dk, again at each of S tokens.
add("from_zeros", 6, 2, 4, 3, False, ["ordinary"])
add("from_a_state", 6, 2, 4, 3, True, ["ordinary"])
add("one_token", 1, 2, 4, 4, True, ["ordinary"])
add("one_of_everything", 1, 1, 1, 1, True, ["size_one"])
add("odd_sizes", 7, 3, 5, 7, True, ["odd"], seed=9)
add("many_tokens", 40, 1, 3, 2, False, ["odd"], seed=5)
add("forgets_at_once", 4, 2, 3, 3, True, ["extreme"], decay=(-200.0, -150.0))
add("forgets_nothing", 4, 2, 3, 3, True, ["extreme"], decay=(0.0, 0.0))
add("no_token", 0, 2, 3, 4, True, ["extreme"])

X = ["f32[6, 2, 4]", "f32[6, 2, 4]", "f32[6, 2, 3]", "f32[6, 2]", "f32[6, 2]", "f32[2, 4, 3]"]


def wrong(at, ty, error):
    bad(OP, {}, X[:at] + [ty] + X[at + 1 :], error)


wrong(0, "f32[6, 8]", "q has shape [6, 8]")
wrong(1, "f32[6, 2, 5]", "k has shape [6, 2, 5], expected [6, 2, 4]")
wrong(2, "f32[6, 4, 3]", "the number of heads of v is 4, expected 2")
wrong(3, "f32[6, 1]", "g has shape [6, 1], expected [6, 2]")
wrong(4, "f32[2, 6]", "beta has shape [2, 6], expected [6, 2]")
wrong(5, "f32[2, 3, 4]", "state has shape [2, 3, 4], expected [2, 4, 3]")
wrong(4, "bool[6, 2]", "beta has the type bool")

write()
