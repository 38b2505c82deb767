"""RopeMulti: rotary embedding with a position for each section of the pairs.

The reference in float64 is held against transformers in float32: the rotary embedding of the text of Qwen2-VL
(sections that run on; transformers repeats the list of sections for the second half of the head) and that of
its pictures (sections that restart).

Needs torch, transformers and safetensors.
"""

import torch
from common import bad, case, rand, write
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen

OP = "RopeMulti"


def expected(x, pos, base, interleaved, sections, restart):
    """x [S, heads, head_dim], pos [axes, S]."""
    pairs = x.shape[-1] // 2
    angle = torch.zeros(x.shape[0], pairs, dtype=torch.float64)
    at = 0
    for axis, size in enumerate(sections):
        for j in range(size):
            frequency = base ** (-j / size) if restart else base ** (-(at + j) / pairs)
            angle[:, at + j] = pos[axis].double() * frequency
        at += size
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :pairs], x[..., pairs:])
    first, second = a * cos - b * sin, b * cos + a * sin
    if interleaved:
        return torch.stack([first, second], dim=-1).flatten(-2)
    return torch.cat([first, second], dim=-1)


def check(x, pos, base, sections, restart, y):
    """Against transformers; half-split pairs only."""

    class Config:
        max_position_embeddings = 64
        rope_parameters = {"rope_theta": base, "mrope_section": list(sections)}
        head_dim = x.shape[-1]

    if restart:
        Config.rope_parameters["rope_type"] = "axial"
        cos, sin = qwen.Qwen2VLVisionRotaryEmbedding(Config)(x, pos.T)
        theirs, _ = qwen.apply_rotary_pos_emb_vision(x.float(), x.float(), cos, sin)
    else:
        Config.rope_parameters["rope_type"] = "default"
        batch = x.float().transpose(0, 1)[None]
        cos, sin = qwen.Qwen2VLRotaryEmbedding(Config)(batch, pos[:, None, :])
        theirs, _ = qwen.apply_rotary_pos_emb(batch, batch, cos, sin)
        theirs = theirs[0].transpose(0, 1)
    assert (theirs.double() - y).abs().max() < 3e-6, "transformers disagrees"


def text(**fields):
    fields["base"] = f"{fields['base']:g}"
    fields["sections"] = str(list(fields["sections"]))
    for name in ("interleaved", "restart"):
        fields[name] = str(fields[name]).lower()
    return {name: str(value) for name, value in fields.items()}


def add(name, s, heads, sections, kinds, base=10000.0, interleaved=False, restart=False, form="tokens", pos=None, seed=0):
    head_dim = 2 * sum(sections)
    x = rand(s, heads, head_dim, seed=seed)
    if pos is None:
        generator = torch.Generator().manual_seed(seed + s)
        pos = torch.randint(0, 16, (len(sections), s), generator=generator)
    y = expected(x, pos, base, interleaved, sections, restart)
    halves = len(sections) == 2 and sections[0] == sections[1]
    if not interleaved and (halves if restart else len(sections) == 3):
        check(x, pos, base, sections, restart, y)
    if form == "rows":
        x, y = x.reshape(-1, head_dim), y.reshape(-1, head_dim)
    elif form == "batch":
        # A second text of the batch with other values at the same positions.
        other = rand(s, heads, head_dim, seed=seed + 77)
        x = torch.stack([x.transpose(0, 1), other.transpose(0, 1)])
        y = torch.stack([y.transpose(0, 1), expected(other, pos, base, interleaved, sections, restart).transpose(0, 1)])
    fields = text(head_dim=head_dim, base=base, interleaved=interleaved, sections=sections, restart=restart)
    # Frequencies and angles are float32: positions stay small here, so that their rounding does.
    case(OP, name, fields, {"x": x, "pos": pos}, y, kinds=kinds)


add("text", 5, 2, [2, 3, 3], ["ordinary"])
add("text_interleaved", 5, 2, [2, 3, 3], ["ordinary"], interleaved=True)
add("text_rows", 4, 3, [2, 3, 3], ["ordinary"], form="rows")
add("text_batch", 3, 2, [2, 3, 3], ["ordinary"], form="batch", base=1e6)
add("picture", 6, 2, [4, 4], ["ordinary"], restart=True)
add("picture_interleaved", 6, 2, [4, 4], ["ordinary"], restart=True, interleaved=True)
add("picture_rows", 3, 2, [2, 2], ["ordinary"], restart=True, form="rows")
add("one_of_everything", 1, 1, [1], ["size_one"])
add("one_section", 5, 1, [3], ["odd"])
add("odd_sections", 7, 3, [1, 2, 4], ["odd"], seed=4)
add("odd_sections_restart", 5, 1, [1, 3, 2], ["odd"], restart=True, seed=4)
add("four_axes", 3, 1, [1, 1, 1, 2], ["odd"], seed=4)
add("negative_positions", 3, 2, [2, 2], ["extreme"], pos=torch.tensor([[-3, 0, 5], [7, -1, 0]]))
add("real_positions", 3, 1, [2, 1], ["extreme"], pos=torch.tensor([[0.5, 1.0, 2.25], [0.0, 1.5, 3.0]], dtype=torch.float64))

GOOD = text(head_dim=16, base=1e4, interleaved=False, sections=[2, 3, 3], restart=False)
bad(OP, GOOD | {"sections": "[2, 3, 2]"}, ["f32[5, 2, 16]", "i64[3, 5]"], "sections has 7 pairs in 3 parts, expected 8")
bad(OP, GOOD | {"sections": "[8, 0, 0]"}, ["f32[5, 2, 16]", "i64[3, 5]"], "none empty")
bad(OP, GOOD | {"head_dim": "15"}, ["f32[5, 2, 15]", "i64[3, 5]"], "head_dim is 15")
bad(OP, GOOD | {"base": "-1"}, ["f32[5, 2, 16]", "i64[3, 5]"], "base is -1")
bad(OP, GOOD, ["f32[5, 2, 8]", "i64[3, 5]"], "the last dimension of x is 8")
bad(OP, GOOD, ["f32[5, 2, 16]", "i64[2, 5]"], "the number of rows of pos is 2, expected 3")
bad(OP, GOOD, ["f32[5, 2, 16]", "i64[3, 4]"], "the number of tokens of pos is 4, expected 5")
bad(OP, GOOD, ["f32[7, 16]", "i64[3, 5]"], "x has 7 rows")
bad(OP, GOOD, ["i64[5, 2, 16]", "i64[3, 5]"], "x has the type i64")
bad(OP, GOOD, ["f32[5, 2, 16]", "bool[3, 5]"], "pos has the type bool")

write()
