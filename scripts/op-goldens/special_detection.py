"""NonMaxSuppression against torchvision.ops.nms in float32, which is what detectors run.

torchvision leaves the order of equal scores open; here the lower number comes first, so ties are checked against
the same rule written out.

Needs torch, torchvision and safetensors.
"""

import torch
from common import bad, case, fault, rand, write
from torchvision.ops import nms

OP = "NonMaxSuppression"


def plain(boxes, scores, iou):
    """The rule written out, with ties by number."""
    boxes = boxes.float()
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i].item(), i)):
        def overlap(j):
            a, b = boxes[i], boxes[j]
            inner = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod()
            return inner / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inner)

        if not any(overlap(j) > torch.tensor(iou, dtype=torch.float32) for j in kept):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


def add(name, boxes, scores, kinds, iou=0.5, score=None, limit=0):
    keep = torch.arange(len(scores)) if score is None else (scores >= score).nonzero()[:, 0]
    index = keep[plain(boxes[keep], scores[keep], iou)]
    if len(scores.unique()) == len(scores):
        assert index.tolist() == keep[nms(boxes[keep].float(), scores[keep].float(), iou)].tolist(), name
    fields = {"iou": str(iou), "score": "-inf" if score is None else str(score), "limit": str(limit)}
    case(OP, name, fields, {"boxes": boxes, "scores": scores}, index[:limit] if limit else index, kinds=kinds)


def random_boxes(n, seed):
    corner = rand(n, 2, seed=seed, low=0.0, high=10.0)
    size = rand(n, 2, seed=seed + 1, low=1.0, high=6.0)
    boxes = torch.cat([corner, corner + size], dim=1).float().double()
    scores = (torch.randperm(n, generator=torch.Generator().manual_seed(seed)).double() + 1) / n
    return boxes, scores.float().double()


boxes, scores = random_boxes(30, 1)
add("many", boxes, scores, ["ordinary"])
add("above_a_score", boxes, scores, ["ordinary"], score=0.5)
add("at_most_three", boxes, scores, ["ordinary"], limit=3)
add("score_and_limit", boxes, scores, ["ordinary"], iou=0.3, score=0.25, limit=4)
add("more_than_there_are", boxes[:5], scores[:5], ["odd"], limit=100)
add("one_box", boxes[:1], scores[:1], ["size_one"])
add("odd_number", *random_boxes(17, 5), ["odd"], iou=0.25)
add("any_overlap_drops", boxes, scores, ["extreme"], iou=0.0)
add("nothing_drops", boxes, scores, ["extreme"], iou=1.0)
add("none_scores_enough", boxes, scores, ["extreme"], score=2.0)
add("no_boxes", boxes[:0], scores[:0], ["extreme"])
square = lambda *corners: torch.tensor(corners, dtype=torch.float64)
same = square([0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 6, 6], [0, 0, 2, 2])
add("ties_by_number", same, torch.tensor([0.5, 0.5, 0.5, 0.5], dtype=torch.float64), ["extreme"])
add("signs_of_zero_tie", same, torch.tensor([-0.0, 0.0, -0.0, 0.0], dtype=torch.float64), ["extreme"])
# An overlap of exactly the threshold stays: 1 of 2.
add("exactly_at_the_threshold", square([0, 0, 2, 1], [0, 0, 1, 1]), square(0.9, 0.8), ["extreme"])
# Boxes without area overlap by 0/0, which is above nothing.
add("empty_boxes_stay", square([1, 1, 1, 1], [1, 1, 1, 1]), square(0.9, 0.8), ["extreme"])
add("at_the_score_stays", boxes[:4], square(0.25, 0.5, 0.75, 0.125), ["extreme"], score=0.5)

FIELDS = {"iou": "0.5", "score": "0", "limit": "0"}
bad(OP, FIELDS | {"iou": "1.5"}, ["f32[5, 4]", "f32[5]"], "iou is 1.5")
bad(OP, FIELDS | {"iou": "nan"}, ["f32[5, 4]", "f32[5]"], "iou is NaN")
bad(OP, FIELDS | {"score": "nan"}, ["f32[5, 4]", "f32[5]"], "score is NaN")
bad(OP, FIELDS, ["f32[5, 5]", "f32[5]"], "the last dimension of boxes is 5, expected 4")
bad(OP, FIELDS, ["f32[5, 4]", "f32[4]"], "the length of scores is 4, expected 5")
bad(OP, FIELDS, ["f32[5, 4]", "f32[5, 1]"], "scores has shape [5, 1]")
bad(OP, FIELDS, ["f32[65537, 4]", "f32[65537]"], "at most 65536")
bad(OP, FIELDS, ["i64[5, 4]", "f32[5]"], "boxes has the type i64")
fault(OP, "nan_score", FIELDS, {"boxes": boxes[:2], "scores": square(0.5, float("nan"))}, "box 1 is")
fault(OP, "nan_corner", FIELDS, {"boxes": square([0, 0, 1, float("nan")]), "scores": square(0.5)}, "not a number")

write()
