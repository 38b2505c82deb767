"""KvCompress and KvDecompress: the block layout by its documentation, in single precision."""

import numpy
import torch
from common import bad, case, fault, rand, write


def compress(x, head_dim, bits):
    """An f32 scale max|x|/127 (or 7), then q = x/scale, half to even: bytes, or nibbles q + 8 with the first low."""
    most = numpy.float32(127 if bits == 8 else 7)
    out = []
    for run in x.float().numpy().reshape(-1, head_dim):
        scale = numpy.abs(run).max() / most
        q = numpy.zeros(head_dim, numpy.int8) if scale == 0 else numpy.clip(numpy.rint(run / scale), -most, most).astype(numpy.int8)
        body = q.view(numpy.uint8) if bits == 8 else (q[0::2] + 8).astype(numpy.uint8) | (q[1::2] + 8).astype(numpy.uint8) << 4
        out.append(numpy.concatenate([numpy.frombuffer(scale.astype("<f4").tobytes(), numpy.uint8), body]))
    return torch.from_numpy(numpy.stack(out)).reshape(*x.shape[:-1], -1)


def decompress(blocks, head_dim, bits):
    size = 4 + head_dim * bits // 8
    out = []
    for block in blocks.numpy().reshape(-1, size):
        scale, body = block[:4].copy().view("<f4")[0], block[4:]
        q = body.view(numpy.int8) if bits == 8 else numpy.stack([body & 15, body >> 4], 1).reshape(-1).astype(numpy.int8) - 8
        out.append(q.astype(numpy.float32) * scale)
    return torch.from_numpy(numpy.stack(out)).reshape(*blocks.shape[:-1], -1).double()


def payload(head_dim, bits):
    return {"head_dim": str(head_dim), "bits": str(bits)}


def both(name, x, head_dim, bits, kinds=("ordinary",)):
    blocks = compress(x, head_dim, bits)
    case("KvCompress", name, payload(head_dim, bits), {"x": x}, blocks, 0.0, kinds)
    case("KvDecompress", name, payload(head_dim, bits), {"x": blocks}, decompress(blocks, head_dim, bits), 0.0, kinds)


for bits in (8, 4):
    x = rand(3, 16, seed=bits)
    x[1, 8:] = 0
    x[2, :4] = torch.tensor([2.0, -2.0, 1.0, -1.0]) / (127 if bits == 8 else 7) * 0.5
    both(f"bits_{bits}", x, 8, bits)
    both(f"heads_first_{bits}", rand(2, 2, 3, 6, seed=bits), 6, bits, ["odd"])
    both(f"size_one_{bits}", torch.tensor([[0.75, -1.5][: 3 - bits // 4]]).double(), 2 if bits == 4 else 1, bits, ["size_one"])
    both(f"extreme_{bits}", torch.tensor([[3e38, -3e38, 1.0, 0.0], [1e-45, 1e-44, -1e-44, 0.0], [2e-43, 1e-43, -3e-44, -0.0]]).double(), 4, bits, ["extreme"])
both("odd_head", rand(5, 21, seed=9), 7, 8, ["odd"])
# Half to even: with a largest value of 127 the scale is 1.
both("ties", torch.tensor([[127.0, 0.5, 1.5, -0.5, -2.5, 2.5]]).double(), 6, 8)
both("ties_4", torch.tensor([[7.0, 0.5, 1.5, -0.5, -2.5, 2.5]]).double(), 6, 4)
# Every byte has a value, those that no encoder writes too.
every = torch.cat([torch.tensor([0, 0, 0, 63], dtype=torch.uint8), torch.arange(256, dtype=torch.int64).to(torch.uint8)])
case("KvDecompress", "every_byte", payload(256, 8), {"x": every}, decompress(every, 256, 8), 0.0)
case("KvDecompress", "every_nibble", payload(512, 4), {"x": every}, decompress(every, 512, 4), 0.0)

for op, operand in (("KvCompress", "f32"), ("KvDecompress", "u8")):
    bad(op, payload(8, 5), [f"{operand}[S, 72]"], "5 bits for a head of 8")
    bad(op, payload(3, 4), [f"{operand}[S, 72]"], "an even size")
    bad(op, payload(0, 8), [f"{operand}[S, 72]"], "head_dim is 0")
    bad(op, payload(8, 8), [f"{operand}[]"], "is a scalar")
bad("KvCompress", payload(64, 8), ["f32[S, 100]"], "no multiple of 64")
bad("KvCompress", payload(64, 8), ["i64[S, 128]"], "x has the type i64")
bad("KvDecompress", payload(64, 8), ["u8[S, 128]"], "no multiple of 68")
bad("KvDecompress", payload(64, 8), ["f32[S, 68]"], "expected the bytes (u8) of KvCompress")
for name, value in (("nan", float("nan")), ("infinity", float("-inf"))):
    x = rand(2, 8)
    x[1, 3] = value
    fault("KvCompress", name, payload(4, 8), {"x": x}, "head row 2 of x holds")
block = torch.tensor([[0, 0, 0, 0, 1, 2], [0, 0, 128, 127, 1, 2]], dtype=torch.uint8)
fault("KvDecompress", "scale", payload(2, 8), {"x": block}, "block 1 of x has the scale inf")

write()
