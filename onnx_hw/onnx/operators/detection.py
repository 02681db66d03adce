"""Detection of objects: NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from onnx_hw.onnx.operators.allowance import spend
from onnx_hw.onnx.operators.dtypes import Array
from onnx_hw.onnx.operators.registry import operator


@operator(since=(10, 11), dynamic=True)
def NonMaxSuppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    center_point_box: int = 0,
) -> Array:
    """Select the best boxes that overlap no better one too much: (selected, 3) int64, batch, class and box."""
    most = 0 if max_output_boxes_per_class is None else int(max_output_boxes_per_class.reshape(()))
    overlap = 0.0 if iou_threshold is None else float(iou_threshold.reshape(()))
    least = None if score_threshold is None else float(score_threshold.reshape(()))
    if center_point_box:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        corners = np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=-1)
    else:
        a, b = boxes[..., :2], boxes[..., 2:]
        corners = np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=-1)
    count = min(most, scores.shape[-1])
    spend(8 * count * scores.size, calls=8 * count * (scores.size // max(scores.shape[-1], 1)))
    picked = [
        (sample, number, box)
        for sample, of_classes in enumerate(scores)
        for number, of_boxes in enumerate(of_classes)
        for box in _best(corners[sample], of_boxes, most, overlap, least)
    ]
    return np.array(picked, np.int64).reshape(-1, 3)


def _best(corners: Array, scores: Array, most: int, overlap: float, least: float | None) -> list[int]:
    left = np.argsort(-scores, kind="stable")
    if least is not None:
        left = left[scores[left] > least]
    kept: list[int] = []
    while left.size and len(kept) < most:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        left = left[_intersection_over_union(corners[best], corners[left]) <= overlap]
    return kept


def _intersection_over_union(box: Array, others: Array) -> Array:
    """Return the overlap of boxes (y1, x1, y2, x2), the smaller corner first."""
    common = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    intersection = np.prod(np.maximum(common, 0), axis=-1)
    union = np.prod(box[2:] - box[:2]) + np.prod(others[:, 2:] - others[:, :2], axis=-1) - intersection
    return np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
