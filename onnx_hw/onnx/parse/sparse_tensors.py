"""Sparse constants: checked, then expanded to dense ones, since nothing downstream is sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnx_hw.onnx.graph.element_types import BY_NAME
from onnx_hw.onnx.graph.model import OnnxTensor
from onnx_hw.onnx.parse.diagnostics import Findings
from onnx_hw.onnx.parse.external_data import SideFiles
from onnx_hw.onnx.parse.tensors import element_count, read_tensor

#: Greatest size of an expanded tensor: a sparse tensor may claim any size in a few bytes.
MAX_DENSE_BYTES = 256 << 20


def read_sparse_tensor(message: Any, where: str, findings: Findings, files: SideFiles) -> OnnxTensor | None:
    """Expand a ``SparseTensorProto`` to a dense tensor; None after reporting what is wrong with it."""
    if not message.HasField("values"):
        findings.must("sparse-values", "a sparse tensor must have values", where)
        return None
    values = read_tensor(message.values, f"{where}.values", findings, files)
    count = element_count(message.dims, where, findings)
    if not message.dims or 0 in message.dims:
        findings.must("sparse-dims", "a sparse tensor must have at least one dimension, all greater than zero", where)
        return None
    indices = None
    if message.HasField("indices"):
        indices = read_tensor(message.indices, f"{where}.indices", findings, files)
        if indices is None:
            return None
    if values is None or count is None:
        return None
    if values.array.ndim != 1:
        findings.must("sparse-values", f"sparse values must have rank 1, not {values.array.ndim}", f"{where}.values")
        return None
    places = _places(indices, len(values.array), tuple(message.dims), count, f"{where}.indices", findings)
    if places is None:
        return None
    element = BY_NAME[values.element_type]
    if count * max(1, element.dtype.itemsize) > MAX_DENSE_BYTES:
        findings.must(
            "sparse-too-large",
            f"a sparse tensor is expanded, to at most {MAX_DENSE_BYTES >> 20} MiB; this one has {count:,} elements",
            where,
            stage="capability",
        )
        return None
    dense = np.full(count, "" if element.name == "string" else 0, element.dtype)
    dense[places] = values.array
    return OnnxTensor(element.name, dense.reshape(tuple(message.dims)))


def _places(
    indices: OnnxTensor | None, entries: int, dims: tuple[int, ...], count: int, where: str, findings: Findings
) -> np.ndarray | None:
    """Return the flat positions of the entries, int64[entries]; None after reporting what is wrong with them."""
    if indices is None:
        if entries:
            findings.must("sparse-indices", f"{entries} sparse values need indices", where)
            return None
        return np.empty(0, np.int64)
    array = indices.array
    if indices.element_type != "int64" or array.shape not in ((entries,), (entries, len(dims))):
        findings.must(
            "sparse-indices",
            f"sparse indices must be int64[{entries}] or int64[{entries},{len(dims)}], "
            f"not {indices.element_type}{list(array.shape)}",
            where,
        )
        return None
    limits = np.array(dims if array.ndim == 2 else [count], np.int64)
    if entries and ((array < 0) | (array >= limits)).any():
        findings.must("sparse-indices", f"sparse indices must lie inside the dimensions {list(dims)}", where)
        return None
    places = array
    if array.ndim == 2:
        places = np.zeros(entries, np.int64)
        for axis, length in enumerate(dims):
            places = places * length + array[:, axis]
    if (np.diff(places) <= 0).any():
        findings.must("sparse-indices", "sparse indices must ascend, each once", where)
        return None
    return places
