"""Scheduling with the fields of a request and the arguments of ``schedule_network`` as one list of keywords."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from onnx_hw.ir.design import Design
from onnx_hw.ir.network import Network
from onnx_hw.runtime.schedule_request import ScheduleRequest
from onnx_hw.schedule.budget import Budget
from onnx_hw.schedule.schedule_network import schedule_network
from support.targets import ecp5_at


def schedule_with(network: Network, budget: Budget, clock_mhz: float, **choices: Any) -> Design:
    """Return the design of a network."""
    names = {field.name for field in fields(ScheduleRequest)}
    request = ScheduleRequest(**{name: choices.pop(name) for name in list(choices) if name in names})
    return schedule_network(network, budget, request, target=ecp5_at(clock_mhz), **choices)[0]
