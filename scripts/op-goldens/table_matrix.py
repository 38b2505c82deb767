"""Matmul, LoraApply, Kron, MatrixInverse."""

import math

import torch
from common import bad, case, fault, rand, write


def root(k):
    """The measure of a sum over k products."""
    return 1e-6 * math.sqrt(k)


for name, rows, k, n, kind in (
    ("matrix", (4,), 16, 8, "ordinary"),
    ("vector", (), 8, 5, "ordinary"),
    ("batch", (2, 3), 12, 4, "ordinary"),
    ("odd", (3, 5), 7, 9, "odd"),
    ("size_one", (1,), 1, 1, "size_one"),
):
    x, w = rand(*rows, k), rand(n, k, seed=1)
    case("Matmul", name, {}, {"x": x, "W": w}, x @ w.T, root(k), [kind])
    for rank, alpha in ((1, 1.0), (3, 16.0)):
        a, b = rand(rank, k, seed=2), rand(n, rank, seed=3)
        operands = {"x": x, "W": w, "A": a, "B": b}
        y = x @ w.T + alpha / rank * (x @ a.T @ b.T)
        case("LoraApply", f"{name}_{rank}", {"rank": str(rank), "alpha": str(alpha)}, operands, y, root(k * rank), [kind])
large = rand(2, 8) * 1e15
case("Matmul", "extreme", {}, {"x": large.float().double(), "W": rand(3, 8)}, large.float().double() @ rand(3, 8).T, root(8), ["extreme"])
bad("Matmul", {}, ["f32[S, 4]", "f32[4, 8]"], "the last dimension of W is 8, expected 4")
bad("Matmul", {}, ["f32[S, 4]", "f32[4]"], "W has shape [4], expected 2 dimensions")
bad("Matmul", {}, ["f32[]", "f32[8, 4]"], "x is a scalar")
bad("Matmul", {}, ["i64[S, 4]", "f32[8, 4]"], "x has the type i64")
lora = {"rank": "2", "alpha": "16"}
four = ["f32[S, 4]", "f32[8, 4]", "f32[2, 4]", "f32[8, 2]"]
bad("LoraApply", lora | {"rank": "0"}, four, "rank is 0")
bad("LoraApply", lora | {"alpha": "nan"}, four, "alpha NaN")
bad("LoraApply", lora | {"rank": "3"}, four, "rows of A is 2, expected 3")
bad("LoraApply", lora, [*four[:3], "f32[9, 2]"], "the low-rank part")
bad("LoraApply", lora, [*four[:3], "i64[8, 2]"], "W has the type i64")

# Kron
for name, left, right, kind in (
    ("squares", (2, 2), (3, 3), "ordinary"),
    ("odd", (3, 1), (2, 5), "odd"),
    ("row_and_column", (1, 4), (4, 1), "odd"),
    ("size_one", (1, 1), (1, 1), "size_one"),
):
    a, b = rand(*left), rand(*right, seed=1)
    case("Kron", name, {}, {"a": a, "b": b}, torch.kron(a, b), kinds=[kind])
bad("Kron", {}, ["f32[2, 2]", "f32[3]"], "b has shape [3], expected 2")
bad("Kron", {}, ["i64[2, 2]", "f32[3, 3]"], "a has the type i64")
bad("Kron", {}, ["f32[9223372036854775807, 2]", "f32[2, 2]"], "too large")


# MatrixInverse: the measure grows with the condition number.
def inverse(name, a, kind="ordinary"):
    a = a.float().double()
    y = torch.linalg.inv(a)
    condition = float(torch.linalg.cond(a).max())
    # Elimination is in double precision, so that what is left is the rounding of the result.
    assert condition < 1e9, condition
    case("MatrixInverse", name, {}, {"a": a}, y, 1e-6, [kind])


inverse("square", rand(4, 4))
inverse("batch", rand(3, 5, 5), "odd")
inverse("batches", rand(2, 2, 3, 3, seed=1))
inverse("size_one", torch.tensor([[-4.0]]), "size_one")
inverse("permutation", torch.eye(5)[[3, 0, 4, 1, 2]], "odd")
inverse("hilbert", 1.0 / (torch.arange(5.0)[:, None] + torch.arange(5.0) + 1), "extreme")
inverse("scales", torch.diag(torch.tensor([1e-4, 1.0, 1e4])) + torch.tensor([[0.0, 1e-5, 0.0], [0.0, 0.0, 0.5], [1.0, 2.0, 0.0]]), "extreme")
bad("MatrixInverse", {}, ["f32[2, 3]"], "expected square matrices")
bad("MatrixInverse", {}, ["f32[2]"], "expected square matrices")
bad("MatrixInverse", {}, ["i64[2, 2]"], "a has the type i64")
fault("MatrixInverse", "singular", {}, {"a": torch.tensor([[1.0, 2.0], [2.0, 4.0]])}, "a is singular")
nearly = torch.stack([torch.eye(3), torch.arange(1.0, 10.0).reshape(3, 3)])
fault("MatrixInverse", "singular_in_a_batch", {}, {"a": nearly}, "matrix 1 of a [2, 3, 3] is singular")
fault("MatrixInverse", "zeros", {}, {"a": torch.zeros(2, 2)}, "a is singular")
fault("MatrixInverse", "not_a_number", {}, {"a": torch.tensor([[1.0, math.nan], [0.0, 1.0]])}, "a holds NaN")
fault("MatrixInverse", "out_of_range", {}, {"a": torch.tensor([[1e-40]])}, "beyond single precision")

write()
