"""Operations of one operand, of pairs, gates, and those along one dimension."""

import math

import torch
from common import bad, case, fault, rand, write

F = torch.nn.functional
SHAPES = (("matrix", (3, 8), "ordinary"), ("odd", (5, 1, 7), "odd"), ("size_one", (1,), "size_one"), ("scalar", (), "ordinary"))
INFINITY = math.inf


def sizes(op, attributes, f, low=-2.0, high=2.0, tolerance=1e-6):
    for name, shape, kind in SHAPES:
        x = rand(*shape, low=low, high=high) if shape else rand(1, low=low, high=high)[0]
        case(op, name, attributes, {"x": x}, f(x), tolerance, [kind])


def wide(op, attributes, f, values, name="extreme", tolerance=1e-6):
    x = torch.tensor(values).double().float().double()
    case(op, name, attributes, {"x": x}, f(x), tolerance, ["extreme"])


FAR = [-1e4, -100.0, -20.0, -1e-3, -0.0, 0.0, 1e-6, 3.0, 20.0, 100.0, 1e4]
NEAR = [v for v in FAR if v <= 20.0]
quick = lambda x: x * torch.sigmoid(1.702 * x)
UNARY = {
    "Silu": F.silu,
    "Relu": F.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Neg": torch.neg,
    "Sin": torch.sin,
    "Cos": torch.cos,
    "Erf": torch.erf,
    "Softplus": lambda x: torch.logaddexp(x, torch.zeros_like(x)),
    "Abs": torch.abs,
    "QuickGelu": quick,
    "ReluSquared": lambda x: F.relu(x) ** 2,
}
for op, f in UNARY.items():
    sizes(op, {}, f)
    wide(op, {}, f, FAR)
# Small values alone, so that their own size is the measure.
wide("Softplus", {}, UNARY["Softplus"], [-30.0, -25.0, -20.0], "small")
for op in ("Sigmoid", "Silu"):
    wide(op, {}, UNARY[op], [-60.0, -50.0, -55.0], "small", 3e-6)
sizes("Exp", {}, torch.exp)
wide("Exp", {}, torch.exp, [-200.0, -87.0, 0.0, 1e-6, 1.0])
wide("Exp", {}, torch.exp, [80.0, 88.0], "large")
sizes("Log", {}, torch.log, low=0.01, high=4.0)
wide("Log", {}, torch.log, [1e-38, 1e-3, 1.0, 1e38, 0.0, -1.0])
sizes("Sqrt", {}, torch.sqrt, low=0.0, high=4.0)
wide("Sqrt", {}, torch.sqrt, [1e-38, 1e-3, 1.0, 1e38, 0.0, -1.0])
for approximate, word in ((True, "tanh"), (False, "none")):
    attributes, f = {"approximate": str(approximate).lower()}, lambda x: F.gelu(x, approximate=word)
    for name, shape, kind in SHAPES:
        x = rand(*shape) if shape else rand(1)[0]
        case("Gelu", f"{name}_{word}", attributes, {"x": x}, f(x), kinds=[kind])
    wide("Gelu", attributes, f, FAR, f"extreme_{word}")
    # Near zero and on the long negative side, where the two factors nearly cancel.
    wide("Gelu", attributes, f, [-0.01, -1e-3, 1e-3, 0.01], f"near_zero_{word}")
for slope in ("0.01", "-1.5", "0"):
    f = lambda x: torch.where(x > 0, x, x * float(torch.tensor(float(slope), dtype=torch.float32)))
    for name, shape, kind in SHAPES[: 4 if slope == "0.01" else 1]:
        x = rand(*shape) if shape else rand(1)[0]
        case("LeakyRelu", f"{name}_{slope}", {"slope": slope}, {"x": x}, f(x), kinds=[kind])
# A NaN that goes in comes out.
broken = torch.tensor([math.nan, 1.0, -1.0]).double()
for op in ("Relu", "ReluSquared", "Abs", "Neg", "Silu", "Tanh", "Softplus"):
    case(op, "not_a_number", {}, {"x": broken}, UNARY[op](broken), kinds=["extreme"])
case("LeakyRelu", "not_a_number", {"slope": "0.5"}, {"x": broken}, F.leaky_relu(broken, 0.5), kinds=["extreme"])

for value in ("1.5", "-0.25"):
    number = float(value)
    for name, shape, kind in SHAPES:
        x = rand(*shape) if shape else rand(1)[0]
        case("AddScalar", f"{name}_{value}", {"value": value}, {"x": x}, x + number, kinds=[kind])
        case("MulScalar", f"{name}_{value}", {"value": value}, {"x": x}, x * number, kinds=[kind])
for op, attributes, f in (
    ("AddScalar", {"value": "3"}, lambda x: x + 3),
    ("MulScalar", {"value": "-3"}, lambda x: x * -3),
    ("Neg", {}, torch.neg),
    ("Abs", {}, torch.abs),
    ("Relu", {}, F.relu),
    ("ReluSquared", {}, lambda x: F.relu(x) ** 2),
    ("Clamp", {"min": "-2", "max": "inf"}, lambda x: x.clamp(min=-2)),
):
    whole = torch.tensor([[-5, 0, 7], [3, -2, 2**30]])
    case(op, "integers", attributes, {"x": whole}, f(whole), 0.0)
for op in ("AddScalar", "MulScalar"):
    bad(op, {"value": "0.5"}, ["i64[S]"], "use a whole number")
    bad(op, {"value": "x"}, ["f32[S]"], "is not a number")
    bad(op, {"value": "1"}, ["bool[S]"], "expected numbers")
for op in ("Neg", "Abs", "Relu", "ReluSquared"):
    bad(op, {}, ["bool[S]"], "expected numbers")
    bad(op, {}, ["f32[S]", "f32[S]"], "takes the operands `x`, found 2")
REAL = [*(op for op in UNARY if op not in ("Neg", "Abs", "Relu", "ReluSquared")), "Exp", "Log", "Sqrt"]
for op, attributes in [(op, {}) for op in REAL] + [("Gelu", {"approximate": "true"}), ("LeakyRelu", {"slope": "0.5"})]:
    bad(op, attributes, ["i64[S]"], "x has the type i64")
    bad(op, attributes, ["bool[S]"], "x has the type bool")
    bad(op, attributes, [], "takes the operands `x`, found 0")
bad("Gelu", {"approximate": "maybe"}, ["f32[S]"], "neither true nor false")
bad("LeakyRelu", {"slope": "steep"}, ["f32[S]"], "is not a number")

# Clamp
for low, high in ((-0.5, 0.75), (None, 0.5), (-1.0, None), (0.25, 0.25), (None, None)):
    text = lambda v: "none" if v is None else str(v)
    attributes = {"min": text(low), "max": text(high)}
    f = lambda x: x.clone() if low is None and high is None else x.clamp(low, high)
    for name, shape, kind in SHAPES if low == -0.5 else SHAPES[:1]:
        x = rand(*shape) if shape else rand(1)[0]
        case("Clamp", f"{name}_{text(low)}_{text(high)}", attributes, {"x": x}, f(x), 0.0, [kind])
infinite = torch.tensor([-INFINITY, INFINITY, math.nan, 1e30]).double()
case("Clamp", "extreme", {"min": "-1.5", "max": "2"}, {"x": infinite}, infinite.clamp(-1.5, 2.0), 0.0, ["extreme"])
bad("Clamp", {"min": "nan", "max": "none"}, ["f32[S]"], "min is NaN")
bad("Clamp", {"min": "none", "max": "nan"}, ["f32[S]"], "max is NaN")
bad("Clamp", {"min": "2", "max": "1"}, ["f32[S]"], "min 2 is above max 1")
bad("Clamp", {"min": "0.5", "max": "none"}, ["i64[S]"], "use a whole number")
bad("Clamp", {"min": "0", "max": "none"}, ["bool[S]"], "expected numbers")

# NanToNum
numbers = {"nan": "0.5", "posinf": "100", "neginf": "-200"}
for name, values, kind in (
    ("each", [math.nan, INFINITY, -INFINITY, 1.5, -0.25], "ordinary"),
    ("odd", [[1.0, math.nan, -1.0], [INFINITY, 0.0, -INFINITY], [2.0, 1.0, math.nan]], "odd"),
    ("size_one", [math.nan], "size_one"),
    ("scalar", -INFINITY, "ordinary"),
):
    x = torch.tensor(values).double()
    case("NanToNum", name, numbers, {"x": x}, x.nan_to_num(0.5, 100.0, -200.0), 0.0, [kind])
x = torch.tensor([math.nan, INFINITY, -INFINITY]).double()
# What takes the place of one is not replaced again.
case("NanToNum", "to_infinity", {"nan": "inf", "posinf": "-inf", "neginf": "nan"}, {"x": x}, torch.tensor([INFINITY, -INFINITY, math.nan]).double(), 0.0, ["extreme"])
bad("NanToNum", numbers | {"nan": "zero"}, ["f32[S]"], "is not a number")
bad("NanToNum", numbers, ["i64[S]"], "x has the type i64")

# Pairs
PAIRS = {"Add": torch.add, "Mul": torch.mul, "Sub": torch.sub, "Div": torch.div}
FORMS = (
    ("same", (3, 8), (3, 8), "ordinary"),
    ("rows", (3, 8), (8,), "broadcast"),
    ("columns", (3, 1), (1, 8), "broadcast"),
    ("ranks", (5,), (2, 3, 1), "broadcast"),
    ("odd", (3, 5, 7), (3, 5, 7), "odd"),
    ("scalar", (3, 3), (), "broadcast"),
    ("size_one", (1,), (1, 1), "size_one"),
)
for op, f in PAIRS.items():
    for name, left, right, kind in FORMS:
        a = rand(*left)
        b = rand(*(right or (1,)), seed=1, low=0.5) if op == "Div" else rand(*(right or (1,)), seed=1)
        b = b.reshape(right)
        case(op, name, {}, {"a": a, "b": b}, f(a, b), kinds=[kind])
    a, b = torch.tensor([[7, -7, 9], [2**40, 0, -1]]), torch.tensor([2, -2, 4])
    whole = torch.div(a, b, rounding_mode="trunc") if op == "Div" else f(a, b)
    case(op, "integers", {}, {"a": a, "b": b}, whole, 0.0, ["broadcast"])
    bad(op, {}, ["f32[3]", "f32[4]"], "do not broadcast: 3 against 4")
    bad(op, {}, ["f32[3]", "i64[3]"], "cast one")
    bad(op, {}, ["bool[3]", "bool[3]"], "have the type bool")
    bad(op, {}, ["f32[3]"], "takes the operands `a b`, found 1")
# Bytes stay bytes.
few = torch.tensor([[1, 2, 250]], dtype=torch.uint8)
case("Add", "bytes", {}, {"a": few, "b": torch.tensor([[1], [5]], dtype=torch.uint8)}, few + torch.tensor([[1], [5]], dtype=torch.uint8), 0.0, ["broadcast"])
fault("Add", "past_a_byte", {}, {"a": few, "b": few}, "the result 500 does not fit in u8")
case("Clamp", "bytes", {"min": "2", "max": "100"}, {"x": few}, few.clamp(2, 100), 0.0)
fault("MulScalar", "past_a_byte", {"value": "-3"}, {"x": few}, "the result -3 does not fit in u8")
# Integers do not wrap around.
last = torch.tensor([2**63 - 1, -(2**63)])
for op, attributes, operands in (
    ("Add", {}, {"a": last, "b": last}),
    ("Sub", {}, {"a": last, "b": last.flip(0)}),
    ("Mul", {}, {"a": last, "b": last}),
    ("Div", {}, {"a": last, "b": torch.tensor(-1)}),
    ("Neg", {}, {"x": last}),
    ("Abs", {}, {"x": last}),
    ("ReluSquared", {}, {"x": last}),
    ("AddScalar", {"value": "1"}, {"x": last}),
    ("MulScalar", {"value": "-1"}, {"x": last}),
):
    fault(op, "past_the_integers", attributes, operands, "does not fit in 64 bits")
case("Div", "by_zero", {}, {"a": torch.tensor([1.0, -1.0, 0.0]).double(), "b": torch.tensor(0.0).double()}, torch.tensor([INFINITY, -INFINITY, math.nan]).double(), 0.0, ["extreme"])
fault("Div", "integer_by_zero", {}, {"a": torch.tensor([1, 2]), "b": torch.tensor([1, 0])}, "the divisor of value 1 of the result is 0")

# FlowStep
for name, shapes, kind in (
    ("scalar_step", ((2, 4), (2, 4), ()), "ordinary"),
    ("step_per_sample", ((2, 3, 3), (2, 3, 3), (2, 1, 1)), "broadcast"),
    ("odd", ((5, 7), (5, 7), (1,)), "odd"),
    ("size_one", ((1,), (1,), (1,)), "size_one"),
):
    x, v, dt = rand(*shapes[0]), rand(*shapes[1], seed=1), rand(*(shapes[2] or (1,)), seed=2).reshape(shapes[2])
    case("FlowStep", name, {}, {"x": x, "v": v, "dt": dt}, x + v * dt, kinds=[kind])
# Small operands of a result of 2³¹ values and more.
large = {"x": torch.zeros(1300, 1, 1), "v": torch.zeros(1, 1300, 1), "dt": torch.zeros(1, 1, 1300)}
fault("FlowStep", "too_large", {}, large, "the shape [1300, 1300, 1300], and at most 268435456 elements")
bad("FlowStep", {}, ["f32[4]", "f32[5]", "f32[]"], "do not broadcast")
bad("FlowStep", {}, ["f32[4]", "f32[4]", "i64[]"], "cast one")
bad("FlowStep", {}, ["bool[4]", "bool[4]", "bool[]"], "have the type bool")

# Gates: two operands, or x with its matrices. Sums over up to 5 and 7 products, one after the other.
GATES = {"GeGlu": F.gelu, "SwiGlu": F.silu, "Glu": torch.sigmoid, "FusedSwiGlu": F.silu}
for op, f in GATES.items():
    for name, shape, kind in SHAPES[:3]:
        gate, up = rand(*shape), rand(*shape, seed=1)
        case(op, name, {}, {"gate": gate, "up": up}, f(gate) * up, kinds=[kind])
    for name, rows, k, n, kind in (("products", (3,), 4, 6, "ordinary"), ("odd_products", (2, 3), 5, 7, "odd"), ("one_product", (1,), 1, 1, "size_one")):
        x, w_gate, w_up = rand(*rows, k), rand(n, k, seed=1), rand(n, k, seed=2)
        y = f(x @ w_gate.T) * (x @ w_up.T)
        operands = {"x": x, "W_gate": w_gate, "W_up": w_up}
        if op == "FusedSwiGlu":
            case(op, name, {}, operands, y, 6e-6, [kind])
            continue
        down = rand(3, n, seed=3)
        case(op, name, {}, operands | {"W_down": down}, y @ down.T, 6e-6, [kind])
    bad(op, {}, ["f32[S, 8]", "f32[S, 4]"], "they must agree")
    bad(op, {}, ["i64[S, 8]", "i64[S, 8]"], "gate has the type i64")
    three = ["f32[S, 4]", "f32[8, 4]", "f32[9, 4]"]
    bad(op, {}, three if op == "FusedSwiGlu" else [*three, "f32[4, 8]"], "must agree")

# PRelu: one slope, or one per channel.
for name, shape, slopes, kind in (
    ("one_slope", (3, 8), (1,), "broadcast"),
    ("scalar_slope", (2, 3, 4), (), "broadcast"),
    ("matrix", (3, 8), (8,), "ordinary"),
    ("vector", (5,), (5,), "odd"),
    ("signals", (2, 3, 5), (3,), "ordinary"),
    ("pictures", (2, 3, 2, 3), (3, 1, 1), "odd"),
    ("size_one", (1, 1), (1,), "size_one"),
):
    x, slope = rand(*shape), rand(*(slopes or (1,)), seed=1).reshape(slopes)
    flat = slope.reshape(-1)
    # PyTorch's channel is dimension 1, and a vector has one slope only.
    y = F.prelu(x, flat) if len(shape) > 1 or flat.numel() == 1 else torch.where(x > 0, x, x * flat)
    case("PRelu", name, {}, {"x": x, "slope": slope}, y, kinds=[kind])
bad("PRelu", {}, ["f32[N, 3, H, W]", "f32[4]"], "slope has 4 values, expected 1 or 3")
bad("PRelu", {}, ["i64[N, 3]", "f32[3]"], "x has the type i64")
bad("PRelu", {}, ["f32[]", "f32[1]"], "x is a scalar")

# Softmax and Argmax along each dimension.
for name, shape, dim, kind in (
    ("last", (3, 8), -1, "negative_axis"),
    ("first", (3, 8), 0, "ordinary"),
    ("middle", (3, 5, 7), 1, "odd"),
    ("middle_from_the_end", (3, 5, 7), -2, "negative_axis"),
    ("first_from_the_end", (3, 5, 7), -3, "negative_axis"),
    ("size_one", (1,), 0, "size_one"),
    ("one_value_each", (4, 1), 1, "size_one"),
):
    x = rand(*shape)
    case("Softmax", name, {"dim": str(dim)}, {"x": x}, x.softmax(dim), kinds=[kind])
    case("Argmax", name, {"dim": str(dim)}, {"x": x}, x.argmax(dim), 0.0, [kind])
masked = torch.tensor([[-INFINITY, 0.0, 1.0], [-INFINITY] * 3, [-3.4e38] * 3, [-1e30, -1e30, -2e30], [1e4, 1e4, -1e4], [-1e20, -1e20, -1e21]]).float().double()
weights = masked.softmax(-1)
weights[1:4] = 0
case("Softmax", "masked", {"dim": "-1"}, {"x": masked}, weights, kinds=["extreme"])
case("Softmax", "broken", {"dim": "0"}, {"x": torch.tensor([1.0, math.nan, -INFINITY]).double()}, torch.full((3,), math.nan).double(), kinds=["extreme"])
ties = torch.tensor([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0], [-INFINITY] * 4, [0.0, -0.0, -1.0, 0.0]]).double()
case("Argmax", "ties", {"dim": "-1"}, {"x": ties}, torch.tensor([1, 0, 0, 0]), 0.0, ["extreme"])
case("Argmax", "not_a_number", {"dim": "0"}, {"x": torch.tensor([1.0, math.nan, INFINITY, math.nan]).double()}, torch.tensor(1), 0.0, ["extreme"])
case("Argmax", "integers", {"dim": "1"}, {"x": torch.tensor([[2**60, 2**60 + 1, 3], [-5, -4, -4]])}, torch.tensor([1, 1]), 0.0)
for op in ("Softmax", "Argmax"):
    bad(op, {"dim": "2"}, ["f32[S, 8]"], "dimension 2 does not exist")
    bad(op, {"dim": "-3"}, ["f32[S, 8]"], "dimension -3 does not exist")
    bad(op, {"dim": "0"}, ["f32[]"], "dimension 0 does not exist")
    bad(op, {"dim": "0"}, ["bool[S]"], "x has the type bool")
bad("Softmax", {"dim": "0"}, ["i64[S]"], "x has the type i64")
bad("Argmax", {"dim": "0"}, ["f32[0, 3]"], "is empty")

write()
