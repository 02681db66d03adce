"""Functions that do the stages of a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx_hw import flow
from onnx_hw.export import export_folders
from onnx_hw.implement.route import RouteResult
from onnx_hw.implement.synthesize import SynthesisResult
from onnx_hw.prove.circuit.bitstream import BitstreamCheck
from onnx_hw.prove.circuit.directed_vectors import DirectedVectorResult, check_directed_vectors
from onnx_hw.prove.circuit.gate_level import GateLevel
from onnx_hw.prove.circuit.prove import Proof
from onnx_hw.runtime.build_folder import Made


@dataclass(frozen=True)
class StageFunctions:
    """Functions of the stages that other programs do: those of ``flow``, or others for a test or a run. ``reach`` and
    ``emit`` are not stages: they belong to the simulation.
    """

    simulate: Callable[..., Proof] = flow.simulate
    reach: Callable[..., DirectedVectorResult] = check_directed_vectors
    emit: Callable[..., None] = export_folders.write
    synthesize: Callable[..., SynthesisResult] = flow.synthesize
    gates: Callable[..., GateLevel] = flow.gates
    route: Callable[..., RouteResult] = flow.route
    pack: Callable[..., Made] = flow.pack
    unpack: Callable[..., BitstreamCheck] = flow.unpack


STAGE_FUNCTIONS = StageFunctions()
