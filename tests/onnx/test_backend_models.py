"""The models of the onnx package: converted from PyTorch, PyTorch operators, simple graphs, known large networks."""

import numpy as np
import pytest

import onnx
from onnx import numpy_helper
from onnx_hw.messages.errors import UserError
from onnx_hw.onnx.evaluate.check_inputs import check_feeds
from onnx_hw.onnx.evaluate.fold_constants import fold
from onnx_hw.onnx.evaluate.infer_shapes import infer
from onnx_hw.onnx.evaluate.reference import run
from onnx_hw.onnx.load.read import read
from onnx_hw.onnx.operators.evaluate import evaluate
from support.backend_cases import DATA, assert_same, plain

#: Cases that are not met, and why.
UNMET = {
    "test_gradient_of_add": "training",
    "test_gradient_of_add_and_mul": "training",
}


def stored(folder, stem, values):
    """The stored arrays of a data set, in order, by the kinds of the values."""
    paths = sorted(folder.glob(f"{stem}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    for path, value in zip(paths, values, strict=True):
        message = onnx.SequenceProto() if value.element_type.startswith("sequence") else onnx.TensorProto()
        message.ParseFromString(path.read_bytes())
        yield value.name, plain(message)


@pytest.mark.parametrize("kind", ["pytorch-converted", "pytorch-operator", "simple"])
def test_stored_models(kind):
    failed = {}
    for folder in sorted((DATA / kind).iterdir()):
        try:
            graph = read(folder / "model.onnx").graph
            for data in folder.glob("test_data_set_*"):
                feeds = dict(stored(data, "input", graph.inputs))
                expected = dict(stored(data, "output", graph.outputs))
                results = evaluate(graph, check_feeds(graph, feeds), list(expected))
                for name, value in expected.items():
                    assert_same(results[name], value, 1e-3, 1e-5)
        except (UserError, AssertionError) as reason:
            failed[folder.name] = reason
    assert failed.keys() == {name for name in UNMET if (DATA / kind / name).is_dir()}, failed


#: All logits are 9.5e9 there, where float32 numbers are 1024 apart: which of them rounds up, and so wins the Softmax,
#: is a matter of the machine's matrix product.
LOGITS_ALIKE = ("light_squeezenet",)

LIGHT = sorted(path.stem for path in (DATA / "light").glob("*.onnx"))


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_known_networks(name):
    """Their weights are constants made in the graph; the input is a ramp from 0 to 1, as in onnx's own runner."""
    model = read(DATA / "light" / f"{name}.onnx")
    (x,) = model.graph.inputs
    (y,) = model.graph.outputs
    size = int(np.prod(x.shape))
    ramp = (np.arange(size).reshape(x.shape) / size).astype(np.float32)
    expected = onnx.TensorProto()
    expected.ParseFromString((DATA / "light" / f"{name}_output_0.pb").read_bytes())
    folded = fold(infer(model))
    assert folded.graph.values[y.name].shape == tuple(expected.dims)
    wanted = numpy_helper.to_array(expected)
    if name in LOGITS_ALIKE:
        (softmax,) = (node for node in folded.graph.nodes if y.name in node.outputs)
        logits = run(folded, {x.name: ramp}, outputs=[softmax.inputs[0]])[softmax.inputs[0]]
        assert np.ptp(wanted) == 0 and np.ptp(logits) < 1e-6 * logits.max()
        return
    np.testing.assert_allclose(run(folded, {x.name: ramp})[y.name], wanted, rtol=1e-3, atol=1e-5)
