"""Where the host's parts meet the hardware: head and tail get by name every value that they share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import onnx
from onnx_hw import flow
from onnx_hw.ir import golden
from onnx_hw.lower.lower_model import import_model
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate import reference
from onnx_hw.onnx.graph.model import Graph, Model
from onnx_hw.quantization.post_training import quantize_float_model
from support.random_partitioned_models import Cut

BEFORE_PRODUCTS = {"unsupported", "constant-per-pixel", "not-quantized"}
"""Why a float model is refused whose host would have to compute in floats before the hardware."""


def drawn(cut: Cut, folder: Path) -> tuple[Model, dict[str, np.ndarray]]:
    onnx.save(cut.model(), folder / "m.onnx")
    return flow.read(folder / "m.onnx"), cut.frames(2)


def by_reference(model: Model, frames: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    each = [reference.run(model, {name: np.asarray(array[k]) for name, array in frames.items()}) for k in range(2)]
    return {name: np.stack([outputs[name] for outputs in each]) for name in each[0]}


@pytest.mark.parametrize("seed", range(30))
def test_golden_equals_the_reference(tmp_path: Path, seed: int) -> None:
    model, frames = drawn(Cut(seed), tmp_path)
    found, wanted = golden.run(import_model(model), frames), by_reference(model, frames)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype, (seed, name)
        np.testing.assert_array_equal(found[name], array, err_msg=f"{seed} {name}")


def test_golden_equals_the_reference_of_float_models(tmp_path: Path) -> None:
    built = 0
    for seed in range(20):
        model, frames = drawn(Cut(seed, quantized=False), tmp_path)
        quantized = quantize_float_model(model, frames)
        try:
            network = import_model(quantized)
        except UserError as error:
            if not {problem.code for problem in error.problems} <= BEFORE_PRODUCTS:
                raise
            continue
        found, wanted = golden.run(network, frames), by_reference(quantized, frames)
        assert list(found) == list(wanted)
        for name, array in wanted.items():
            span = float(np.ptp(array.astype(np.float64)))  # a value beside a tie may become another step
            assert np.abs(found[name].astype(np.float64) - array).max(initial=0) <= 0.06 * span, (seed, name)
        built += 1
    assert built >= 10


def renamed(graph: onnx.GraphProto, table: dict[str, str]) -> None:
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [table.get(name, name) for name in names]
        for attribute in node.attribute:
            renamed(attribute.g, table)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = table.get(value.name, value.name)


def names_of(graph: Graph) -> set[str]:
    return {*graph.values, *graph.constants, *(name for node in graph.nodes for name in node.outputs)}


@pytest.mark.parametrize("quantized", [True, False])
def test_names_that_the_passes_give_may_be_taken(tmp_path: Path, quantized: bool) -> None:
    """What the passes add is called like something in the model, and another name is found: the numbers stay."""
    compared = 0
    for seed in range(10):
        cut = Cut(seed, quantized)
        proto, frames = cut.model(), cut.frames(2)

        def computed() -> tuple[set[str], set[str], dict[str, np.ndarray]]:
            onnx.save(proto, tmp_path / "m.onnx")  # noqa: B023
            model = flow.read(tmp_path / "m.onnx")
            whole = model if quantized else quantize_float_model(model, frames)  # noqa: B023
            network = import_model(whole)
            parts = [part.graph for part in (whole, network.head, network.tail) if part is not None]
            return names_of(model.graph), set().union(*map(names_of, parts)), golden.run(network, frames)  # noqa: B023

        try:
            own, all_names, wanted = computed()
        except UserError:
            continue
        made = sorted(all_names - own)
        inner = sorted(name for name in own if name and name not in cut.inputs and "branch" not in name)
        chosen = np.random.default_rng(seed)
        chosen.shuffle(made)
        chosen.shuffle(inner)
        table = dict(zip(inner[:6], made[:6], strict=False))
        renamed(proto.graph, table)
        _, _, found = computed()
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[table.get(name, name)], array, err_msg=f"{seed} {name}")
        compared += bool(table)
    assert compared >= (1 if quantized else 5)
