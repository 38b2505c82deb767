"""Sdpa, SdpaCross, SdpaWindow, FlashAttention, Attention: every layout of heads, masks, windows."""

import math

import torch
from common import bad, case, fault, rand, write

# Scores are sums over the head, results sums over the keys: no more than 16 of either here.
TOLERANCE = 4e-6
FORMS = ("wide", "rows", "batched")


def attend(q, k, v, causal=False, window=0, scale=None, softcap=0.0, mask=None):
    """q [B, heads, S, d], k and v [B, kv_heads, T, d]; hidden keys do not count, a query without keys gives zeros."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    s, t = q.shape[2], k.shape[2]
    scores = q @ k.transpose(2, 3) * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = torch.where(mask <= -1e30, -math.inf, scores + mask)
    here = torch.arange(s)[:, None] + t - s
    keys = torch.arange(t)[None, :]
    if causal:
        scores = scores.masked_fill(keys > here, -math.inf)
    if window:
        scores = scores.masked_fill(keys <= here - window, -math.inf)
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    if softcap == 0 and window == 0 and mask is None and (not causal or s == t):
        torch_says = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        assert torch.allclose(torch_says, weights @ v, atol=1e-12)
    return weights @ v


def laid_out(x, form):
    """[B, heads, S, d] in one of the three forms; the first two have no batch."""
    if form == "batched":
        return x
    assert x.shape[0] == 1
    token_major = x[0].transpose(0, 1)
    return token_major.reshape(x.shape[2], -1) if form == "wide" else token_major.reshape(-1, x.shape[3])


def add(op, name, attributes, heads, kv_heads, dim, s, t, forms=("wide",) * 3, batch=1, mask=None, kinds=("ordinary",), **rules):
    q = rand(batch, heads, s, dim, seed=1)
    k, v = rand(batch, kv_heads, t, dim, seed=2), rand(batch, kv_heads, t, dim, seed=3)
    y = attend(q, k, v, mask=mask, **rules)
    operands = {"q": laid_out(q, forms[0]), "k": laid_out(k, forms[1]), "v": laid_out(v, forms[2])}
    if mask is not None:
        operands["mask"] = mask
    case(op, name, attributes, operands, laid_out(y, forms[0]), TOLERANCE, kinds)


def sdpa(heads, kv_heads, dim, causal):
    return {"heads": str(heads), "kv_heads": str(kv_heads), "head_dim": str(dim), "causal": str(causal).lower()}


def attention(heads, kv_heads, dim, causal, window=0, scale=0.5, softcap=0.0):
    return sdpa(heads, kv_heads, dim, causal) | {"window": str(window), "scale": str(scale), "softcap": str(softcap)}


def masks(heads, s, t):
    """A mask whose second row hides every key, with each kind of least number."""
    mask = rand(s, t, seed=4)
    mask[0, 1] = -math.inf
    mask[1] = torch.tensor([-math.inf, -3.4028234663852886e38, -1e30] * t)[:t].double()
    return mask, torch.stack([mask + h for h in range(heads)])


# Sdpa: causal or not, forms of heads, groups, masks.
for causal in (True, False):
    for form in FORMS:
        add("Sdpa", f"{form}_{causal}", sdpa(4, 2, 8, causal), 4, 2, 8, 3, 5, (form,) * 3, causal=causal)
add("Sdpa", "mixed_forms", sdpa(4, 2, 6, True), 4, 2, 6, 3, 3, ("wide", "rows", "wide"), kinds=["odd"], causal=True)
add("Sdpa", "size_one", sdpa(1, 1, 1, True), 1, 1, 1, 1, 1, kinds=["size_one"], causal=True)
add("Sdpa", "one_query_many_keys", sdpa(4, 4, 5, True), 4, 4, 5, 1, 11, kinds=["odd"], causal=True)
add("Sdpa", "more_queries_than_keys", sdpa(2, 1, 4, True), 2, 1, 4, 5, 3, kinds=["odd"], causal=True)
add("Sdpa", "batch", sdpa(4, 2, 3, True), 4, 2, 3, 2, 4, ("batched",) * 3, batch=3, kinds=["odd"], causal=True)
shared, by_head = masks(4, 3, 5)
add("Sdpa", "mask", sdpa(4, 2, 8, False), 4, 2, 8, 3, 5, mask=shared, causal=False)
add("Sdpa", "mask_and_causal", sdpa(4, 2, 8, True), 4, 2, 8, 3, 5, mask=shared, causal=True)
add("Sdpa", "mask_of_each_head", sdpa(4, 2, 8, False), 4, 2, 8, 3, 5, ("rows",) * 3, mask=by_head, causal=False)
add("Sdpa", "mask_of_keys", sdpa(4, 2, 8, False), 4, 2, 8, 3, 5, mask=shared[:1], kinds=["broadcast"], causal=False)
add("Sdpa", "mask_of_heads", sdpa(4, 2, 8, False), 4, 2, 8, 3, 5, mask=by_head[:, :, :1], kinds=["broadcast"], causal=False)
add("Sdpa", "mask_in_a_batch", sdpa(4, 2, 8, False), 4, 2, 8, 3, 5, ("batched",) * 3, 2, torch.stack([by_head, by_head.flip(0)]), causal=False)
add("Sdpa", "mask_of_a_batch", sdpa(4, 2, 8, False), 4, 2, 8, 3, 5, ("batched",) * 3, 2, torch.stack([shared, shared.flip(0)])[:, None], ["broadcast"], causal=False)
add("Sdpa", "mask_for_a_batch", sdpa(4, 2, 8, True), 4, 2, 8, 3, 5, ("batched",) * 3, 2, by_head, ["broadcast"], causal=True)
# A mask above -1e30 only shifts scores, of all keys alike.
add("Sdpa", "mask_that_shifts", sdpa(2, 2, 4, False), 2, 2, 4, 2, 3, mask=torch.full((2, 3), -16.0, dtype=torch.float64), kinds=["extreme"], causal=False)
bad("Sdpa", sdpa(4, 3, 8, True), ["f32[S, 32]", "f32[S, 24]", "f32[S, 24]"], "not grouped evenly")
bad("Sdpa", sdpa(4, 0, 8, True), ["f32[S, 32]", "f32[S, 32]", "f32[S, 32]"], "not grouped evenly")
bad("Sdpa", sdpa(4, 4, 8, True), ["f32[S, 31]", "f32[S, 32]", "f32[S, 32]"], "q has shape [S, 31]")
bad("Sdpa", sdpa(4, 4, 8, True), ["f32[S, 32]", "f32[T, 32]", "f32[S, 32]"], "the number of tokens of v")
bad("Sdpa", sdpa(4, 4, 8, True), ["i64[S, 32]", "f32[S, 32]", "f32[S, 32]"], "q has the type i64")
bad("Sdpa", sdpa(4, 4, 8, True), ["f32[3, 32]", "f32[3, 32]", "f32[3, 32]", "f32[2, 3]"], "mask has shape [2, 3]")
bad("Sdpa", sdpa(4, 4, 8, True), ["f32[3, 32]", "f32[3, 32]", "f32[3, 32]", "bool[3, 3]"], "mask has the type bool")
bad("Sdpa", sdpa(4, 4, 8, True), ["f32[B, 4, S, 8]", "f32[S, 32]", "f32[S, 32]"], "a batch dimension or none")

# SdpaCross: as many heads of keys as of queries, all keys.
plain = lambda heads, dim: {"heads": str(heads), "head_dim": str(dim)}
for form in FORMS:
    add("SdpaCross", form, plain(2, 4), 2, 2, 4, 3, 5, (form,) * 3)
add("SdpaCross", "size_one", plain(1, 1), 1, 1, 1, 1, 1, kinds=["size_one"])
add("SdpaCross", "odd", plain(3, 7), 3, 3, 7, 5, 3, ("wide", "rows", "rows"), kinds=["odd"])
add("SdpaCross", "batch", plain(2, 4), 2, 2, 4, 3, 5, ("batched",) * 3, batch=2)
bad("SdpaCross", plain(0, 4), ["f32[S, 8]", "f32[T, 8]", "f32[T, 8]"], "0 heads")
bad("SdpaCross", plain(2, 4), ["f32[S, 8]", "f32[T, 9]", "f32[T, 8]"], "k has shape [T, 9]")
bad("SdpaCross", plain(2, 4), ["f32[S, 8]", "f32[T, 8]", "i64[T, 8]"], "v has the type i64")

# SdpaWindow: a window of W sees exactly W keys, itself included.
windowed = lambda heads, dim, window: plain(heads, dim) | {"window": str(window)}
for form in FORMS:
    add("SdpaWindow", form, windowed(2, 4, 3), 2, 2, 4, 6, 6, (form,) * 3, causal=True, window=3)
for window in (1, 2, 6, 100):
    add("SdpaWindow", f"window_{window}", windowed(2, 4, window), 2, 2, 4, 6, 6, kinds=["ordinary"], causal=True, window=window)
add("SdpaWindow", "size_one", windowed(1, 1, 1), 1, 1, 1, 1, 1, kinds=["size_one"], causal=True, window=1)
add("SdpaWindow", "odd", windowed(3, 5, 2), 3, 3, 5, 3, 7, kinds=["odd"], causal=True, window=2)
add("SdpaWindow", "more_queries_than_keys", windowed(2, 4, 2), 2, 2, 4, 5, 2, kinds=["odd"], causal=True, window=2)
bad("SdpaWindow", windowed(2, 4, 0), ["f32[S, 8]"] * 3, "a window of 0 keys")
bad("SdpaWindow", windowed(2, 4, 2), ["f32[S, 8]", "f32[T, 8]", "f32[U, 8]"], "the number of tokens of v")
bad("SdpaWindow", windowed(2, 4, 2), ["f32[S, 8]", "bool[S, 8]", "f32[S, 8]"], "k has the type bool")
# The window by counting: of queries of zeros each value weighs 1/W.
values = rand(1, 1, 6, 4, seed=5)
means = torch.stack([values[0, 0, max(0, i - 2) : i + 1].mean(0) for i in range(6)])
case("SdpaWindow", "exactly_three", windowed(1, 4, 3), {"q": torch.zeros(6, 4).double(), "k": values[0, 0], "v": values[0, 0]}, means)

# FlashAttention is causal Sdpa.
flash = lambda heads, kv_heads, dim: {"heads": str(heads), "kv_heads": str(kv_heads), "head_dim": str(dim)}
for form in FORMS:
    add("FlashAttention", form, flash(4, 2, 8), 4, 2, 8, 3, 5, (form,) * 3, causal=True)
add("FlashAttention", "size_one", flash(1, 1, 1), 1, 1, 1, 1, 1, kinds=["size_one"], causal=True)
add("FlashAttention", "odd", flash(3, 1, 7), 3, 1, 7, 5, 5, kinds=["odd"], causal=True)
bad("FlashAttention", flash(3, 2, 8), ["f32[S, 24]", "f32[S, 16]", "f32[S, 16]"], "not grouped evenly")
bad("FlashAttention", flash(4, 2, 8), ["f32[S, 16]", "f32[S, 16]", "f32[S, 16]"], "q has shape [S, 16]")
bad("FlashAttention", flash(4, 2, 8), ["f32[S, 32]", "i64[S, 16]", "f32[S, 16]"], "k has the type i64")

# Attention: a scale, a window and a cap of its own.
for form in FORMS:
    add("Attention", form, attention(4, 2, 8, True), 4, 2, 8, 3, 5, (form,) * 3, causal=True, scale=0.5)
add("Attention", "all_keys", attention(4, 2, 8, False), 4, 2, 8, 3, 5, causal=False, scale=0.5)
add("Attention", "negative_scale", attention(2, 2, 4, True, scale=-0.25), 2, 2, 4, 3, 5, causal=True, scale=-0.25)
add("Attention", "window", attention(4, 2, 8, True, 2), 4, 2, 8, 4, 6, causal=True, scale=0.5, window=2)
add("Attention", "window_rows", attention(6, 3, 4, True, 3), 6, 3, 4, 5, 5, ("rows",) * 3, causal=True, scale=0.5, window=3)
add("Attention", "softcap", attention(4, 2, 8, True, softcap=1.5), 4, 2, 8, 3, 5, causal=True, scale=0.5, softcap=1.5)
add("Attention", "softcap_window", attention(4, 2, 8, True, 2, softcap=1.5), 4, 2, 8, 3, 5, ("batched",) * 3, 2, causal=True, scale=0.5, window=2, softcap=1.5)
add("Attention", "mask", attention(4, 2, 8, False, softcap=1.5), 4, 2, 8, 3, 5, mask=shared, causal=False, scale=0.5, softcap=1.5)
add("Attention", "mask_window", attention(4, 2, 8, True, 2), 4, 2, 8, 3, 5, mask=by_head, causal=True, scale=0.5, window=2)
add("Attention", "size_one", attention(1, 1, 1, False, scale=1.0), 1, 1, 1, 1, 1, kinds=["size_one"], causal=False, scale=1.0)
add("Attention", "odd", attention(5, 1, 3, True, 3), 5, 1, 3, 7, 7, kinds=["odd"], causal=True, scale=0.5, window=3)
add("Attention", "extreme", attention(2, 2, 4, True, scale=1e4), 2, 2, 4, 3, 5, kinds=["extreme"], causal=True, scale=1e4)
three = ["f32[S, 16]"] * 3
bad("Attention", attention(4, 4, 4, True, scale="nan"), three, "scale is NaN")
bad("Attention", attention(4, 4, 4, True, softcap=-1.0), three, "softcap is -1")
bad("Attention", attention(4, 4, 4, False, 2), three, "needs causal = true")
bad("Attention", attention(4, 4, 4, True), ["f32[S, 16]", "f32[S, 15]", "f32[S, 16]"], "k has shape [S, 15]")
bad("Attention", attention(4, 4, 4, True), ["f32[S, 16]", "f32[S, 16]", "u8[S, 16]"], "v has the type u8")


# SegmentAttention: each segment by itself, with its part of the bias.
def segmented(heads, kv_heads, dim, window=0, scale=0.5, softcap=0.0):
    numbers = {"heads": heads, "kv_heads": kv_heads, "head_dim": dim, "window": window, "scale": scale, "softcap": softcap}
    return {name: str(value) for name, value in numbers.items()}


def segments(name, heads, kv_heads, dim, lengths, bias=None, kinds=("ordinary",), numbers=None, **rules):
    s = sum(lengths)
    q = rand(1, heads, s, dim, seed=1)
    k, v = rand(1, kv_heads, s, dim, seed=2), rand(1, kv_heads, s, dim, seed=3)
    full = None if bias is None else bias.expand(heads, s, s)
    window, parts, start = rules.get("window", 0), [], 0
    for length in lengths:
        own = slice(start, start + length)
        near = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).abs() <= (window or length)
        mask = torch.zeros(heads, length, length).double() if full is None else full[:, own, own]
        mask = mask.masked_fill(~near, -math.inf)
        plain = {key: value for key, value in rules.items() if key != "window"}
        parts.append(attend(q[:, :, own], k[:, :, own], v[:, :, own], mask=mask, **plain))
        start += length
    numbers = range(len(lengths)) if numbers is None else numbers
    operands = {
        "q": laid_out(q, "wide"), "k": laid_out(k, "wide"), "v": laid_out(v, "wide"),
        "segments": torch.repeat_interleave(torch.tensor(list(numbers)), torch.tensor(lengths)),
    }
    if bias is not None:
        operands["bias"] = bias
    case("SegmentAttention", name, segmented(heads, kv_heads, dim, **rules), operands, laid_out(torch.cat(parts, 2), "wide"), TOLERANCE, kinds)


segments("one", 4, 4, 8, [5], scale=0.5)
segments("three", 4, 2, 8, [3, 1, 4], scale=0.5)
segments("numbers_with_gaps", 2, 2, 4, [2, 3], numbers=[-7, 9], scale=0.25)
segments("window", 2, 2, 4, [6, 2, 5], window=1, scale=0.5)
segments("wide_window", 2, 2, 4, [6, 2], window=100, scale=0.5)
segments("softcap", 2, 1, 4, [3, 4], softcap=1.5, scale=0.5)
segments("bias", 3, 3, 4, [3, 4], bias=rand(3, 7, 7, seed=5), scale=0.5)
segments("bias_window_softcap", 3, 3, 4, [5, 2], bias=rand(3, 7, 7, seed=5), window=2, softcap=1.5, scale=0.5)
segments("bias_for_all_heads", 2, 2, 4, [3, 4], bias=rand(7, 7, seed=5), kinds=["broadcast"], scale=0.5)
segments("bias_of_keys", 2, 2, 4, [3, 4], bias=rand(2, 1, 7, seed=5), kinds=["broadcast"], scale=0.5)
hides = rand(6, 6, seed=6)
hides[:, 0] = -math.inf
hides[4, 3:] = -1e30
segments("bias_that_hides", 2, 2, 4, [3, 3], bias=hides, scale=0.5)
segments("size_one", 1, 1, 1, [1], kinds=["size_one"], scale=1.0)
segments("odd", 5, 1, 3, [7, 3, 1], window=3, kinds=["odd"], scale=0.5)
segments("extreme", 2, 2, 4, [3, 2], kinds=["extreme"], scale=1e4)
four = ["f32[S, 16]"] * 3 + ["i64[S]"]
bad("SegmentAttention", segmented(4, 3, 4), four, "not grouped evenly")
bad("SegmentAttention", segmented(4, 4, 4, scale="inf"), four, "scale is inf")
bad("SegmentAttention", segmented(4, 4, 4, softcap=-1.0), four, "softcap is -1")
bad("SegmentAttention", segmented(4, 4, 4), ["f32[4*S, 4]", *four[1:]], "q has shape [4*S, 4], expected [S, 16]")
bad("SegmentAttention", segmented(4, 4, 4), [*four[:3], "f32[S]"], "segments has the type f32")
bad("SegmentAttention", segmented(4, 4, 4), [*four, "f32[3, S, S]"], "bias has shape [3, S, S]")
x = rand(3, 4, seed=1)
fault("SegmentAttention", "falls", segmented(1, 1, 4), {"q": x, "k": x, "v": x, "segments": torch.tensor([0, 2, 1])}, "segments falls from 2 to 1 at row 2")

write()
