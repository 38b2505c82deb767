"""SinusoidalEmbed, RelativePosEmbedding, TokenEmbed, PosEmbed, NoiseSchedule."""

import math

import torch
from common import bad, case, fault, rand, write
from transformers.models.t5.modeling_t5 import T5Attention


def sinusoidal(t, dim):
    f = 10000.0 ** (-torch.arange(dim // 2, dtype=torch.float64) / (dim // 2))
    angles = t.double()[..., None] * f
    return torch.stack([angles.sin(), angles.cos()], -1).reshape(*t.shape, dim)


def timesteps(name, t, dim, kinds=("ordinary",)):
    case("SinusoidalEmbed", name, {"dim": str(dim)}, {"t": t}, sinusoidal(t, dim), kinds=kinds)


timesteps("batch", torch.tensor([0.0, 1.0, 999.0, 0.125]).double(), 8)
timesteps("whole", torch.tensor([[7, -3, 1000]]), 6, ["odd"])
timesteps("size_one", torch.tensor([2.5]).double(), 2, ["size_one"])
timesteps("scalar", torch.tensor(12.0).double(), 10)
timesteps("extreme", torch.tensor([1e6, -1e6, 1e-6]).double(), 4, ["extreme"])
bad("SinusoidalEmbed", {"dim": "7"}, ["f32[B]"], "dim is 7")
bad("SinusoidalEmbed", {"dim": "0"}, ["f32[B]"], "dim is 0")
bad("SinusoidalEmbed", {"dim": "8"}, ["bool[B]"], "t has the type bool")
bad("SinusoidalEmbed", {"dim": "2"}, ["f32[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"], "17 dimensions")
fault("SinusoidalEmbed", "too_wide", {"dim": "4294967294"}, {"t": torch.tensor([1.0])}, "at most 268435456 elements")


def bias(q_len, k_len, table, buckets):
    """As T5Attention.compute_bias, bidirectional, maximum distance 128."""
    distance = torch.arange(k_len)[None, :] - torch.arange(q_len)[:, None]
    rows = T5Attention._relative_position_bucket(distance, bidirectional=True, num_buckets=buckets, max_distance=128)
    return table[rows].permute(2, 0, 1)


def relative(name, q_len, k_len, buckets, heads, kinds=("ordinary",)):
    table = rand(buckets, heads, seed=3)
    operands = {"q_len": q_len, "k_len": k_len, "table": table}
    case("RelativePosEmbedding", name, {"buckets": str(buckets)}, operands, bias(int(q_len), int(k_len), table, buckets), 0.0, kinds)


n = torch.tensor
relative("square", n(7), n(7), 32, 2)
relative("vectors", n([3]), n([11]), 8, 3, ["odd"])
relative("reals", n(4.0), n([[5.0]]), 5, 2, ["odd"])
relative("size_one", n(1), n(1), 4, 1, ["size_one"])
relative("empty", n(0), n(3), 4, 1, ["extreme"])
# Every distance from -150 to 150, past the last bucket on both sides.
for buckets in (4, 6, 20, 32, 64, 100, 128, 254):
    table = rand(buckets, 1, seed=3)
    rows = bias(151, 151, table, buckets)
    case("RelativePosEmbedding", f"after_{buckets}", {"buckets": str(buckets)}, {"q_len": n(1), "k_len": n(151), "table": table}, rows[:, :1], 0.0, ["extreme"])
    case("RelativePosEmbedding", f"before_{buckets}", {"buckets": str(buckets)}, {"q_len": n(151), "k_len": n(1), "table": table}, rows[:, :, :1], 0.0, ["extreme"])
bad("RelativePosEmbedding", {"buckets": "3"}, ["i64[]", "i64[]", "f32[3, 2]"], "buckets is 3")
bad("RelativePosEmbedding", {"buckets": "8"}, ["i64[]", "i64[]", "f32[9, 2]"], "rows of table is 9")
bad("RelativePosEmbedding", {"buckets": "8"}, ["i64[2]", "i64[]", "f32[8, 2]"], "q_len has shape [2]")
bad("RelativePosEmbedding", {"buckets": "8"}, ["i64[]", "bool[]", "f32[8, 2]"], "k_len has the type bool")
bad("RelativePosEmbedding", {"buckets": "8"}, ["i64[]", "i64[]", "i64[8, 2]"], "table has the type i64")
table = rand(8, 2)
fault("RelativePosEmbedding", "negative", {"buckets": "8"}, {"q_len": n(-1), "k_len": n(2), "table": table}, "q_len is [-1.0]")
fault("RelativePosEmbedding", "part", {"buckets": "8"}, {"q_len": n(2), "k_len": n(2.5), "table": table}, "k_len is [2.5]")
fault("RelativePosEmbedding", "not_a_number", {"buckets": "8"}, {"q_len": n(math.nan), "k_len": n(2), "table": table}, "q_len is [NaN]")
fault("RelativePosEmbedding", "too_large", {"buckets": "8"}, {"q_len": n(4000000000), "k_len": n(4000000000), "table": table}, "at most 268435456 elements")

# TokenEmbed
table = rand(7, 5, seed=1)
ids = n([[0, 6, 3], [3, 3, 1]])
case("TokenEmbed", "ids", {}, {"ids": ids, "W": table}, table[ids], 0.0)
case("TokenEmbed", "whole_reals", {}, {"ids": ids.double(), "W": table}, table[ids], 0.0, ["odd"])
case("TokenEmbed", "scalar", {}, {"ids": n(4), "W": table}, table[4], 0.0)
case("TokenEmbed", "size_one", {}, {"ids": n([0]), "W": table[:1, :1]}, table[:1, :1], 0.0, ["size_one"])
bad("TokenEmbed", {}, ["bool[S]", "f32[7, 5]"], "ids has the type bool")
bad("TokenEmbed", {}, ["i64[S]", "f32[7]"], "W has shape [7]")
bad("TokenEmbed", {}, ["i64[S]", "i64[7, 5]"], "W has the type i64")
for op in ("TokenEmbed", "PosEmbed"):
    fault(op, "past_the_end", {}, {"ids" if op == "TokenEmbed" else "x": n([1, 7]), "W": table}, "id 7 is no row of a table of 7")
    fault(op, "negative", {}, {"ids" if op == "TokenEmbed" else "x": n([-1]), "W": table}, "id -1 is no row")
fault("TokenEmbed", "part", {}, {"ids": n([1.5]), "W": table}, "id 1.5 is no row")
fault("TokenEmbed", "not_a_number", {}, {"ids": n([math.nan]), "W": table}, "id NaN is no row")

# PosEmbed: rows by integer position, or the first rows added.
x = rand(2, 3, 5, seed=2)
case("PosEmbed", "places", {}, {"x": ids, "W": table}, table[ids], 0.0)
case("PosEmbed", "added", {}, {"x": x, "W": table}, x + table[:3], kinds=["broadcast"])
case("PosEmbed", "matrix", {}, {"x": x[0], "W": table}, x[0] + table[:3], kinds=["odd"])
case("PosEmbed", "every_row", {}, {"x": rand(7, 5, seed=4), "W": table}, rand(7, 5, seed=4) + table)
case("PosEmbed", "size_one", {}, {"x": x[:1, :1, :1], "W": table[:1, :1]}, x[:1, :1, :1] + table[0, 0], kinds=["size_one"])
bad("PosEmbed", {}, ["f32[8, 5]", "f32[7, 5]"], "8 places, W has rows for 7")
bad("PosEmbed", {}, ["f32[3, 4]", "f32[7, 5]"], "the last dimension of x is 4")
bad("PosEmbed", {}, ["f32[5]", "f32[7, 5]"], "expected [S, 5]")
bad("PosEmbed", {}, ["bool[3, 5]", "f32[7, 5]"], "x has the type bool")

# NoiseSchedule
def schedule(name, t, kinds=("ordinary",)):
    case("NoiseSchedule", name, {}, {"t": t}, [(t * math.pi / 2).cos(), (t * math.pi / 2).sin()], kinds=kinds)


schedule("batch", n([0.0, 0.25, 0.5, 0.75, 1.0]).double())
schedule("matrix", rand(3, 5, low=0.0, high=1.0), ["odd"])
schedule("size_one", n([0.3]).float().double(), ["size_one"])
schedule("scalar", n(0.6).float().double())
schedule("extreme", n([-2.0, 17.0, 1001.5]).double(), ["extreme"])
bad("NoiseSchedule", {}, ["i64[B]"], "t has the type i64")
bad("NoiseSchedule", {}, ["bool[B]"], "t has the type bool")

write()
