"""Operations that the compiler makes of several: products with norms, gates, biases and activations."""

import torch
from common import bad, case, rand, write

F = torch.nn.functional
EPS = 1e-5
# Sums over up to 9 products of a norm, whose own error is 3e-6.
TOLERANCE = 1e-5
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu_squared": lambda x: F.relu(x).square(),
}


def norm(x, g):
    return F.rms_norm(x, g.shape, g, EPS)


for shape, kinds in (((4, 8), ["ordinary"]), ((2, 3, 6), ["ordinary"]), ((8,), ["ordinary"]), ((3, 5, 7), ["odd"]), ((1, 1), ["size_one"])):
    name = "x".join(map(str, shape))
    k = shape[-1]
    n = 1 if "size_one" in kinds else 5
    x, g = rand(*shape), rand(k, seed=1)
    w, v, u = rand(n, k, seed=2), rand(n + 1, k, seed=3), rand(n, k, seed=4)
    b, c = rand(n, seed=5), rand(n, seed=6)
    h = norm(x, g)
    joined = {"x": x, "W0": w, "W1": v, "W2": u}
    case("JoinedMatmul", name, {"parts": "3", "norm": "none", "bias": "[]"}, joined, [x @ w.T, x @ v.T, x @ u.T], TOLERANCE, kinds)
    joined = {"x": x, "g": g, "W0": w, "W1": v, "W2": u, "b0": b, "b2": c}
    case("JoinedMatmul", f"{name}_norm_bias", {"parts": "3", "norm": str(EPS), "bias": "[0, 2]"}, joined, [h @ w.T + b, h @ v.T, h @ u.T + c], TOLERANCE, kinds)
    case("JoinedMatmul", f"{name}_alone", {"parts": "1", "norm": "none", "bias": "[0]"}, {"x": x, "W0": w, "b0": b}, [x @ w.T + b], TOLERANCE, kinds)
    for activation, f in ACTIVATIONS.items():
        gate, up = rand(*shape, seed=7), rand(*shape, seed=8)
        case("Gated", f"{name}_{activation}", {"activation": activation}, {"gate": gate, "up": up}, f(gate) * up, TOLERANCE, kinds)
        fields = {"activation": activation, "norm": "none"}
        case("MatmulBias", f"{name}_{activation}", fields, {"x": x, "W": w, "b": b}, f(x @ w.T + b), TOLERANCE, kinds)
        fields = {"activation": activation, "norm": str(EPS), "bias": "true"}
        gated = {"x": x, "g": g, "W_gate": w, "W_up": u, "b_gate": b, "b_up": c}
        case("GatedMatmul", f"{name}_{activation}", fields, gated, f(h @ w.T + b) * (h @ u.T + c), TOLERANCE, kinds)
    fields = {"activation": "silu", "norm": str(EPS)}
    case("MatmulBias", f"{name}_norm", fields, {"x": x, "g": g, "W": w, "b": b}, F.silu(h @ w.T + b), TOLERANCE, kinds)
    fields = {"activation": "silu", "norm": "none", "bias": "false"}
    case("GatedMatmul", f"{name}_plain", fields, {"x": x, "W_gate": w, "W_up": u}, F.silu(x @ w.T) * (x @ u.T), TOLERANCE, kinds)
    skip, beta = rand(*shape, seed=9), rand(k, seed=10)
    case("SkipLayerNorm", name, {"eps": str(EPS)}, {"x": x, "skip": skip, "g": g, "b": beta}, [F.layer_norm(x + skip, (k,), g, beta, EPS), x + skip], TOLERANCE, kinds)

plain = {"parts": "2", "norm": "none", "bias": "[]"}
bad("JoinedMatmul", plain, ["f32[S, 4]", "f32[8, 4]"], "2 matrices and 0 vectors are wanted")
bad("JoinedMatmul", plain, ["f32[S, 4]", "f32[8, 4]", "f32[8, 5]"], "the last dimension of W is 5")
bad("JoinedMatmul", plain, ["i64[S, 4]", "f32[8, 4]", "f32[8, 4]"], "x has the type i64")
bad("JoinedMatmul", plain | {"bias": "[2]"}, ["f32[S, 4]", "f32[8, 4]", "f32[8, 4]", "f32[8]"], "numbers of parts in ascending order")
bad("JoinedMatmul", plain | {"bias": "[0]"}, ["f32[S, 4]", "f32[8, 4]", "f32[8, 4]", "f32[7]"], "b has shape [7], expected [8]")
bad("JoinedMatmul", plain | {"norm": "-1"}, ["f32[S, 4]", "f32[4]", "f32[8, 4]", "f32[8, 4]"], "norm is -1")
bad("Gated", {"activation": "tanh"}, ["f32[S, 8]", "f32[8]"], "they must agree")
bad("Gated", {"activation": "tanh"}, ["i64[S, 8]", "i64[S, 8]"], "gate has the type i64")
bad("MatmulBias", {"activation": "relu", "norm": "none"}, ["f32[S, 4]", "f32[8, 4]", "f32[7]"], "b has shape [7], expected [8]")
bad("MatmulBias", {"activation": "relu", "norm": "1"}, ["f32[S, 4]", "f32[8, 4]", "f32[8]"], "g has shape [8, 4]")
gated = {"activation": "silu", "norm": "none", "bias": "false"}
bad("GatedMatmul", gated, ["f32[S, 4]", "f32[8, 4]"], "two matrices are wanted")
bad("GatedMatmul", gated, ["f32[S, 4]", "f32[8, 4]", "f32[9, 4]"], "they must agree")
bad("GatedMatmul", gated | {"bias": "true"}, ["f32[S, 4]", "f32[8, 4]", "f32[8, 4]", "f32[8]"], "there are 1 vectors")
bad("SkipLayerNorm", {"eps": "-1"}, ["f32[S, 8]", "f32[S, 8]", "f32[8]", "f32[8]"], "eps is -1")
bad("SkipLayerNorm", {"eps": "1"}, ["f32[S, 8]", "f32[8]", "f32[8]", "f32[8]"], "they must agree")
bad("SkipLayerNorm", {"eps": "1"}, ["f32[S, 8]", "f32[S, 8]", "f32[8]", "f32[9]"], "the length of b is 9")

write()
