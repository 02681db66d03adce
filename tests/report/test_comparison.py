"""Two builds next to each other: quality, losses, and the cores of other widths."""

from __future__ import annotations

from dataclasses import replace

from onnx_hw.report.html.comparison import ComparisonLine, compare
from onnx_hw.report.losses import Loss
from onnx_hw.report.model import FloatModel, OutputFidelity, Report, TensorFidelity
from support.page_checks import words
from support.sample_report import FULL


def changed(names: dict[str, str], sqnr_db: float, losses: tuple[Loss, ...]) -> Report:
    """Return a report with other names of cores, and another fidelity."""
    assert FULL.design is not None and FULL.reference is not None and FULL.accuracy is not None
    cores = tuple(replace(core, name=names.get(core.name, core.name)) for core in FULL.design.nodes)
    floats = FloatModel((OutputFidelity("y", 40, 0, 0.1, sqnr_db),), (TensorFidelity("conv2", sqnr_db),), losses)
    return replace(
        FULL,
        design=replace(FULL.design, nodes=cores),
        reference=replace(FULL.reference, float_model=floats),
        accuracy=replace(FULL.accuracy, golden=0.5 + sqnr_db / 100),
    )


def test_quality_losses_and_cores_of_other_widths() -> None:
    assert FULL.design is not None
    first, second, *_ = (core.name for core in FULL.design.nodes)
    loss = Loss("conv2", "weights", 8, 33.1, 0.61, 0.0, "")
    eight = changed({first: "conv1/int8", second: "gearbox conv1/uint8·2"}, 31.2, (loss,))
    four = changed(
        {first: "conv1/int4", second: "gearbox conv1/uint4·2"}, 12.5, (replace(loss, bits=4, sqnr_db=9.0, share=0.9),)
    )
    both = compare(eight, four, ("eight", "four"))
    figures = {line.what: line for line in both.figures}
    assert figures["accuracy"].one.startswith("81.20%") and figures["accuracy"].other.startswith("62.50%")
    assert (figures["fidelity of y"].one, figures["fidelity of y"].other) == (
        "31.2 dB to the float model",
        "12.5 dB to the float model",
    )
    assert figures["worst tensor"].differs
    assert both.losses == (
        ComparisonLine("conv2 (weights)", "8 bits, 33.1 dB, 61% of the noise", "4 bits, 9.0 dB, 90% of the noise"),
    )
    matched = {line.what for line in both.cores}
    assert {"conv1/int8, conv1/int4", "gearbox conv1/uint8·2, gearbox conv1/uint4·2"} <= matched
    assert len(both.cores) == len(FULL.design.nodes) and all(line.one and line.other for line in both.cores)
    assert "Noise by tensor" in words(both.page())


def test_names_that_only_look_alike_are_no_pair() -> None:
    """Names that both builds have stay their own, and of two candidates neither is taken."""
    assert FULL.design is not None
    first, second, *_ = (core.name for core in FULL.design.nodes)
    one = changed({first: "a/int8"}, 30.0, ())
    other = changed({first: "a/int4", second: "a/int5"}, 30.0, ())
    lines = {line.what: (line.one != "", line.other != "") for line in compare(one, other, ("a", "b")).cores}
    assert lines["a/int8"] == (True, False) and lines["a/int4"] == lines["a/int5"] == (False, True)
    assert lines[second] == (True, False)
