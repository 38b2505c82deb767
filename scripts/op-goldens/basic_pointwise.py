"""Cases of operations on each element alone: functions, pairs, truth values, choices, casts."""

import torch
from common import bad, case, fault, rand, write

INF, NAN = float("inf"), float("nan")
NINE = (1, 2, 1, 3, 1, 2, 1, 1, 2)


def f(*values):
    return torch.tensor(values, dtype=torch.float64)


def i(*values):
    return torch.tensor(values, dtype=torch.int64)


def b(*values):
    return torch.tensor(values, dtype=torch.bool)


def truth(*shape, seed=0):
    return rand(*shape, seed=seed) > 0


def whole(*shape, seed=0, low=-9, high=9):
    return rand(*shape, seed=seed, low=low, high=high).floor().long()


def unary(op, function, positive=False, extreme=None):
    low = 0.01 if positive else -2.0
    for name, shape, kinds in [
        ("ordinary", (3, 4), ["ordinary"]),
        ("size_one", (1, 1), ["size_one"]),
        ("odd", (3, 1, 5, 7), ["odd"]),
        ("nine_dimensions", NINE, ["odd"]),
    ]:
        x = rand(*shape, low=low)
        case(op, name, {}, {"x": x}, function(x), kinds=kinds)
    x = torch.tensor(1.5, dtype=torch.float64)
    case(op, "scalar", {}, {"x": x}, function(x), kinds=["size_one"])
    if extreme is not None:
        case(op, "extreme", {}, {"x": extreme}, function(extreme), kinds=["extreme"])
    bad(op, {}, ["i64[3]"], "x has the type i64, expected real")
    bad(op, {}, ["bool[3]"], "x has the type bool")
    bad(op, {}, ["f32[3]", "f32[3]"], "takes the operands `x`, found 2")


unary("Rsqrt", torch.rsqrt, positive=True, extreme=f(0, 1e-30, 1e30, INF, -1, NAN))
unary("Floor", torch.floor, extreme=f(-0.5, 2.0, -2.0, 1e30, -INF, INF, NAN, 8388609.0))
halves = f(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49999997, 8388609.0, 1e30, INF, -INF, NAN)
unary("Round", torch.round, extreme=halves)
unary("Reciprocal", torch.reciprocal, positive=True, extreme=f(-4, 0, INF, -INF, NAN, 1e-30))

for name, x, kinds in [
    ("ordinary", rand(3, 4), ["ordinary"]),
    ("size_one", rand(1), ["size_one"]),
    ("odd", rand(5, 3), ["odd"]),
    ("nine_dimensions", rand(*NINE), ["odd"]),
    ("integers", i(-7, 0, 9, -(2**63), 2**63 - 1), ["extreme"]),
    ("extreme", f(-INF, INF, 0, 1e-38, -1e-38), ["extreme"]),
]:
    case("Sign", name, {}, {"x": x}, torch.sign(x), kinds=kinds)
# Torch gives 0 here; NumPy and this operation keep what is no number.
case("Sign", "not_a_number", {}, {"x": f(NAN, 1)}, f(NAN, 1), kinds=["extreme"])
bad("Sign", {}, ["bool[3]"], "x has the type bool, expected numbers")
bad("Sign", {}, [], "found 0")

for name, shape, kinds in [
    ("ordinary", (3, 4), ["ordinary"]),
    ("size_one", (1, 1), ["size_one"]),
    ("odd", (5, 3, 1), ["odd"]),
    ("nine_dimensions", NINE, ["odd"]),
]:
    x = truth(*shape)
    case("Not", name, {}, {"x": x}, ~x, kinds=kinds)
bad("Not", {}, ["f32[3]"], "x has the type f32, expected bool")
bad("Not", {}, ["i64[3]"], "x has the type i64, expected bool")

SHAPES = [
    ("ordinary", (3, 4), (3, 4), ["ordinary"]),
    ("size_one", (1,), (1, 1), ["size_one", "broadcast"]),
    ("odd", (5, 1, 7), (5, 3, 1), ["odd", "broadcast"]),
    ("ranks", (4,), (2, 3, 4), ["broadcast"]),
    ("ranks_turned", (2, 3, 4), (3, 1), ["broadcast"]),
    ("nine_dimensions", NINE, (2, 1, 1, 1), ["odd", "broadcast"]),
    ("empty", (0, 3), (1,), ["extreme", "broadcast"]),
]


def pairs(op, attributes, function, make, prefix=""):
    for name, one, other, kinds in SHAPES:
        a, c = make(one, 1), make(other, 2)
        case(op, prefix + name, attributes, {"a": a, "b": c}, function(a, c), kinds=kinds)
    a, c = make((1,), 1)[0], make((3, 2), 2)
    case(op, prefix + "scalar", attributes, {"a": a, "b": c}, function(a, c), kinds=["broadcast"])


def reals(shape, seed):
    return rand(*shape, seed=seed)


def wholes(shape, seed):
    return whole(*shape, seed=seed)


def truths(shape, seed):
    return truth(*shape, seed=seed)


def bad_pairs(op, attributes, dtype="f32"):
    bad(op, attributes, [f"{dtype}[2, 3]", f"{dtype}[2]"], "do not broadcast: 3 against 2")
    bad(op, attributes, [f"{dtype}[S]", f"{dtype}[T]"], "do not broadcast: S against T")
    bad(op, attributes, [f"{dtype}[2]"], "takes the operands `a b`, found 1")


pairs("Pow", {}, torch.pow, lambda shape, seed: rand(*shape, seed=seed, low=0.1))
a, c = f(0, 0, -2, -2, -8, 2, INF, 1, NAN, 2, -1), f(0, -1, 3, 2, 1 / 3, 200, -1, NAN, 0, -200, INF)
case("Pow", "extreme", {}, {"a": a, "b": c}, torch.pow(a, c).float().double(), kinds=["extreme"])
bad_pairs("Pow", {})
bad("Pow", {}, ["i64[2]", "i64[2]"], "a has the type i64, expected real")
bad("Pow", {}, ["f32[2]", "i64[2]"], "b has the type i64, expected real")

for op, function in [("Maximum", torch.maximum), ("Minimum", torch.minimum)]:
    pairs(op, {}, function, reals)
    pairs(op, {}, function, wholes, "integers_")
    a, c = f(NAN, 1, INF, -INF, NAN), f(1, NAN, NAN, INF, NAN)
    case(op, "extreme", {}, {"a": a, "b": c}, function(a, c), kinds=["extreme"])
    a, c = i(2**63 - 1, -(2**63), 2**53), i(2**63 - 2, 2**63 - 1, 2**53 + 1)
    case(op, "far_integers", {}, {"a": a, "b": c}, function(a, c), kinds=["extreme"])
    bad_pairs(op, {})
    bad(op, {}, ["f32[2]", "i64[2]"], "cast one")
    bad(op, {}, ["bool[2]", "bool[2]"], "a has the type bool, expected numbers")


def nonzero(make):
    def made(shape, seed):
        values = make(shape, seed)
        return values + (values == 0) if seed == 2 else values

    return made


# The reference divides in double precision, where the quotient is near the same whole number.
pairs("Remainder", {}, torch.remainder, nonzero(reals))
pairs("Remainder", {}, torch.remainder, nonzero(wholes), "integers_")
a, c = f(1, -1, 0, 5, -5, 7, INF, NAN, 5.5, -5.5), f(0, 0, 0, INF, INF, -INF, 2, 2, -2, 2)
case("Remainder", "extreme", {}, {"a": a, "b": c}, torch.remainder(a, c), kinds=["extreme"])
case("Remainder", "signs", {}, {"a": i(7, -7, 7, -7, 6, -6), "b": i(3, 3, -3, -3, 3, -3)}, i(1, 2, -2, -1, 0, 0))
case("Remainder", "far_integers", {}, {"a": i(-(2**63), 2**63 - 1), "b": i(-1, -(2**63))}, i(0, -1), kinds=["extreme"])
fault("Remainder", "by_zero", {}, {"a": i(1, 2), "b": i(3, 0)}, "b holds 0")
bad_pairs("Remainder", {})
bad("Remainder", {}, ["f32[2]", "i64[2]"], "cast one")
bad("Remainder", {}, ["bool[2]", "bool[2]"], "a has the type bool")

for how in ["eq", "ne", "lt", "le", "gt", "ge"]:
    function = getattr(torch, how)
    close = lambda shape, seed: whole(*shape, seed=seed, low=-2, high=2).double()
    pairs("Compare", {"how": how}, function, close, f"{how}_")
    a, c = i(2**62, 2**62 + 1, 5, -(2**63)), i(2**62 + 1, 2**62, 5, 2**63 - 1)
    case("Compare", f"{how}_integers", {"how": how}, {"a": a, "b": c}, function(a, c), kinds=["extreme"])
    a, c = f(NAN, NAN, 1, INF, -INF, 0), f(NAN, 1, NAN, INF, INF, -0.0)
    case("Compare", f"{how}_extreme", {"how": how}, {"a": a, "b": c}, function(a, c), kinds=["extreme"])
    if how in ("eq", "ne"):
        pairs("Compare", {"how": how}, function, truths, f"{how}_truths_")
    else:
        bad("Compare", {"how": how}, ["bool[2]", "bool[2]"], "a has the type bool, expected numbers")
bad("Compare", {"how": "less"}, ["f32[2]", "f32[2]"], "`less` is unknown")
bad("Compare", {}, ["f32[2]", "f32[2]"], "missing")
bad_pairs("Compare", {"how": "eq"})
bad("Compare", {"how": "eq"}, ["f32[2]", "i64[2]"], "cast one")

for how, function in [("and", torch.logical_and), ("or", torch.logical_or), ("xor", torch.logical_xor)]:
    pairs("Logical", {"how": how}, function, truths, f"{how}_")
    a, c = b(False, False, True, True), b(False, True, False, True)
    case("Logical", f"{how}_table", {"how": how}, {"a": a, "b": c}, function(a, c))
bad("Logical", {"how": "nand"}, ["bool[2]", "bool[2]"], "`nand` is unknown")
bad_pairs("Logical", {"how": "and"}, "bool")
bad("Logical", {"how": "and"}, ["bool[2]", "f32[2]"], "b has the type f32, expected bool")

for name, cond, one, other, kinds in [
    ("ordinary", (3, 4), (3, 4), (3, 4), ["ordinary"]),
    ("size_one", (1,), (1, 1), (1,), ["size_one", "broadcast"]),
    ("odd", (5, 1, 1), (3, 1), (7,), ["odd", "broadcast"]),
    ("wide_condition", (2, 3, 4), (1,), (4,), ["broadcast"]),
    ("nine_dimensions", NINE, (2,), (3, 1, 1, 1, 1, 2), ["odd", "broadcast"]),
]:
    for prefix, make in [("", reals), ("integers_", wholes), ("truths_", truths)]:
        c, x, y = truth(*cond, seed=3), make(one, 1), make(other, 2)
        case("Select", prefix + name, {}, {"cond": c, "a": x, "b": y}, torch.where(c, x, y), kinds=kinds)
c, x, y = torch.tensor(True), torch.tensor(-1.5, dtype=torch.float64), rand(3)
case("Select", "scalar", {}, {"cond": c, "a": x, "b": y}, torch.where(c, x, y), kinds=["broadcast"])
c, x, y = b(True, False, True), f(NAN, 1, 2), f(1, INF, NAN)
case("Select", "extreme", {}, {"cond": c, "a": x, "b": y}, torch.where(c, x, y), kinds=["extreme"])
bad("Select", {}, ["f32[2]", "f32[2]", "f32[2]"], "cond has the type f32, expected bool")
bad("Select", {}, ["bool[2]", "f32[2]", "i64[2]"], "cast one")
bad("Select", {}, ["bool[3]", "f32[2]", "f32[2]"], "do not broadcast: 3 against 2")
bad("Select", {}, ["bool[2]", "f32[2]"], "takes the operands `cond a b`, found 2")

torch_types = {"f32": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8, "i64": torch.int64, "bool": torch.bool}
for to, dtype in torch_types.items():
    for name, x, kinds in [
        ("reals", rand(3, 4, low=-9, high=9), ["ordinary"]),
        ("integers", whole(5, 3), ["odd"]),
        ("truths", truth(3, 1), ["ordinary"]),
        ("size_one", rand(1, 1), ["size_one"]),
        ("nine_dimensions", rand(*NINE, low=-3, high=3), ["odd"]),
    ]:
        x = x.float() if x.dtype == torch.float64 else x
        x = x.abs() if to == "u8" and x.dtype != torch.bool else x
        case("Cast", f"{to}_{name}", {"dtype": to}, {"x": x}, x.to(dtype), kinds=kinds)
edges = f(1.00048828125, 1.00146484375, 65519, 65520, -7e4, 1e-8, INF, -INF, NAN)
for to in ["f16", "bf16"]:
    half = torch_types[to]
    case("Cast", f"{to}_extreme", {"dtype": to}, {"x": edges}, edges.float().to(half), kinds=["extreme"])
    case("Cast", f"{to}_from_itself", {"dtype": to}, {"x": rand(4).to(half)}, rand(4).to(half))
case("Cast", "bool_extreme", {"dtype": "bool"}, {"x": f(NAN, INF, 0, -0.0, 1e-40)}, b(True, True, False, False, True))
far = i(2**53 + 1, 2**63 - 1, -(2**63), 16777217)
case("Cast", "f32_far_integers", {"dtype": "f32"}, {"x": far}, far.float(), kinds=["extreme"])
for to, values in [("i8", f(-128.9, 127.9, -0.7)), ("i32", f(-2147483648, 2147483520, 1.99))]:
    case("Cast", f"{to}_edges", {"dtype": to}, {"x": values}, values.trunc().long(), kinds=["extreme"])
    case("Cast", f"{to}_integers", {"dtype": to}, {"x": whole(3, 5)}, whole(3, 5), kinds=["odd"])
case("Cast", "i64_edges", {"dtype": "i64"}, {"x": f(-(2.0**63), 2.0**62, -1.9)}, i(-(2**63), 2**62, -1), kinds=["extreme"])
for to, value, error in [
    ("i8", f(128), "x holds 128, and i8 holds -128 to 127"),
    ("i8", i(-129), "x holds -129"),
    ("u8", f(-1), "x holds -1, and u8 holds 0 to 255"),
    ("u8", i(256), "x holds 256"),
    ("i32", f(2147483648), "x holds 2147483648"),
    ("i64", f(2.0**63), "x holds 9223372036854775808"),
    ("i64", f(NAN), "x holds NaN"),
    ("i64", f(-INF), "x holds -inf"),
]:
    name = f"{to}_past_{error.split(',')[0].split()[-1].replace('-', 'minus_')}"
    fault("Cast", name, {"dtype": to}, {"x": value}, error)
for to in ["q8_0", "ternary", "u32", "u16", "q4"]:
    bad("Cast", {"dtype": to}, ["f32[32]"], f"dtype is {to}, an encoding of weights")
bad("Cast", {"dtype": "f64"}, ["f32[2]"], "`f64` is not a dtype")
bad("Cast", {"dtype": "f32"}, ["f32[2]", "f32[2]"], "takes the operands `x`, found 2")

# Bytes compute like other integers.
bytes_a, bytes_b = torch.tensor([0, 200, 255, 7], dtype=torch.uint8), torch.tensor([1, 7, 254, 9], dtype=torch.uint8)
for op, function in [("Maximum", torch.maximum), ("Minimum", torch.minimum), ("Remainder", torch.remainder)]:
    case(op, "bytes", {}, {"a": bytes_a, "b": bytes_b}, function(bytes_a, bytes_b))
case("Sign", "bytes", {}, {"x": bytes_a}, torch.sign(bytes_a))
case("Compare", "bytes", {"how": "lt"}, {"a": bytes_a, "b": bytes_b}, bytes_a < bytes_b)
for to, dtype in torch_types.items():
    case("Cast", f"{to}_bytes", {"dtype": to}, {"x": bytes_a}, bytes_a.to(dtype))

write()
