"""RandomNormal and Sample.

RandomNormal against the algorithm written a second time, in whole numbers and with the quantiles of Python's
standard library; that its values are normal is tested in executor/src/interpreter/random/tests.rs. Sample against
argmax wherever its choice is certain; the other choices are tested there too.

Needs torch and safetensors.
"""

from statistics import NormalDist

import torch
from common import bad, case, fault, rand, write

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def splitmix64(state):
    z = (state + GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def normal(seed, shape):
    """The first random step of a session with the seed 0."""
    key = 0
    for part in (0, 0, seed):
        key = splitmix64(key ^ part)
    n = 1
    for size in shape:
        n *= size
    bits = [splitmix64((key + i * GOLDEN) & MASK) for i in range(n)]
    values = [NormalDist().inv_cdf(((b >> 12) + 0.5) / 2**52) for b in bits]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def add_normal(name, seed, like, kinds):
    case("RandomNormal", name, {"seed": str(seed)}, {"like": like}, normal(seed, like.shape), kinds=kinds)


add_normal("values", 7, torch.zeros(4, 6, dtype=torch.float64), ["ordinary"])
add_normal("like_integers", 0, torch.zeros(3, dtype=torch.int64), ["ordinary"])
add_normal("like_truth_values", 1, torch.zeros(2, 2, dtype=torch.bool), ["ordinary"])
add_normal("scalar", 2**32 - 1, torch.zeros((), dtype=torch.float64), ["size_one"])
add_normal("odd_sizes", 5, torch.zeros(3, 5, 7, dtype=torch.float64), ["odd"])
add_normal("nothing", 5, torch.zeros(0, 5, dtype=torch.float64), ["extreme"])
bad("RandomNormal", {"seed": "-1"}, ["f32[2]"], "`seed`: `-1` is not a value of type u32")
bad("RandomNormal", {"seed": "0"}, ["f32[2]", "f32[2]"], "takes the operands `like`, found 2")


def add_sample(name, logits, kinds, method, temperature="0", p="0", k="0"):
    fields = {"method": method, "temperature": temperature, "p": p, "k": k}
    case("Sample", name, fields, {"logits": logits}, logits.argmax(dim=-1), kinds=kinds)


logits = rand(5, 9)
add_sample("greedy", logits, ["ordinary"], "greedy")
add_sample("greedy_ignores_the_rest", logits, ["ordinary"], "greedy", temperature="nan", p="-3", k="7")
for method in ("temperature", "top_k", "top_p", "min_p"):
    add_sample(f"{method}_at_temperature_zero", logits, ["ordinary"], method)
add_sample("the_likeliest_of_one", logits, ["ordinary"], "top_k", temperature="2", k="1")
add_sample("a_nucleus_of_one", logits, ["ordinary"], "top_p", temperature="1", p="1e-6")
add_sample("as_likely_as_the_likeliest", logits, ["ordinary"], "min_p", temperature="1", p="1")
add_sample("cold", logits, ["ordinary"], "temperature", temperature="1e-6")
add_sample("one_row", rand(9, seed=1), ["ordinary"], "greedy")
add_sample("one_token", rand(1, 1), ["size_one"], "temperature", temperature="1")
add_sample("odd_sizes", rand(3, 5, 7, seed=2), ["odd"], "greedy")
# torch's argmax names the first of equals, and so does Sample.
add_sample("ties", torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype=torch.float64), ["extreme"], "greedy")
masked = torch.tensor([[float("-inf"), 1.0, 2.0], [0.0, float("-inf"), float("-inf")]], dtype=torch.float64)
add_sample("minus_infinity_is_never_chosen", masked, ["extreme"], "greedy")

FIELDS = {"method": "greedy", "temperature": "1", "p": "1", "k": "0"}
bad("Sample", FIELDS | {"method": "best"}, ["f32[2, 3]"], "`best` is unknown")
bad("Sample", FIELDS | {"method": "top_p", "p": "0"}, ["f32[2, 3]"], "p is 0, expected a number above 0 and at most 1")
bad("Sample", FIELDS | {"method": "min_p", "p": "1.5"}, ["f32[2, 3]"], "p is 1.5")
bad("Sample", FIELDS | {"method": "temperature", "temperature": "-1"}, ["f32[2, 3]"], "temperature is -1")
bad("Sample", FIELDS, ["f32[]"], "logits is a scalar")
bad("Sample", FIELDS, ["f32[2, 0]"], "no token to choose")
bad("Sample", FIELDS, ["i64[2, 3]"], "logits has the type i64")
nan = torch.tensor([[0.0, 1.0], [float("nan"), 0.0]], dtype=torch.float64)
fault("Sample", "not_a_number", FIELDS, {"logits": nan}, "row 1: the logit of token 0 is NaN")
none = torch.full((1, 3), float("-inf"), dtype=torch.float64)
fault("Sample", "nothing_to_choose", FIELDS, {"logits": none}, "none of 3 logits")

write()
