"""The self-test of a board: a build keeps golden's results, and one wrong bit or cycle is a failure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onnx_hw import flow
from onnx_hw.assemble.host_link import link_of
from onnx_hw.assemble.host_model_file import host_model
from onnx_hw.assemble.self_test_file import known_frames
from onnx_hw.ir import golden
from onnx_hw.messages.errors import ExitCode
from onnx_hw_link.errors import LinkError
from onnx_hw_link.frames import out_of_turns
from onnx_hw_link.self_test import ROUNDS, KnownFrames, run_self_test
from onnx_hw_link.session import Faults, FrameResult
from support.cli_runner import call
from support.small_model import small_model


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, KnownFrames]:
    """(design, link, frames)."""
    model = small_model(tmp_path_factory.mktemp("small") / "small.onnx")
    design = flow.schedule(flow.quantize(flow.read(model)), "icebreaker")
    link = link_of(design, 24, bytes(range(16)))
    return design, link, known_frames(design, link, "icebreaker")


class Board:
    """A chip that computes what it is told to, and counts cycles."""

    def __init__(self, frames: KnownFrames, cycles: int, wrong: int = -1, mask: int = 1) -> None:
        self.frames, self.cycles, self.wrong, self.mask = frames, cycles, wrong, mask
        self.session, self.count = SimpleNamespace(faults=Faults()), 0

    def stream(self, frames: Iterable[bytes]) -> Iterator[FrameResult]:
        for frame in frames:
            beats = bytearray(self.frames.wanted[self.frames.sent.index(frame)])
            if self.count == self.wrong:
                beats[0] ^= self.mask
            self.count += 1
            yield FrameResult(bytes(beats), 100, 100 + self.cycles)


def test_what_a_build_keeps_is_golden_s(built: tuple[Any, Any, KnownFrames], tmp_path: Path) -> None:
    design, link, frames = built
    (into,), (out,) = design.network.inputs, design.network.outputs
    edges = {edge.tensor: edge for edge in design.edges()}
    sent = [out_of_turns(link.inputs, link.input_turns, frame)[0] for frame in frames.sent]
    values = np.concatenate([edges[into.tensor].order.from_beats(beats) for beats in sent])
    wanted = golden.trace(design.network, {into.tensor: values})[out.tensor]
    came = [out_of_turns(link.outputs, link.output_turns, frame)[0] for frame in frames.wanted]
    assert np.array_equal(np.concatenate([edges[out.tensor].order.from_beats(beats) for beats in came]), wanted)
    low, high = design.network.tensors[into.tensor].range
    assert (values[0] == low).all() and (values[1] == high).all() and len(np.unique(wanted)) > 8
    (tmp_path / "self_test.json").write_text(frames.to_text())
    assert KnownFrames.read(tmp_path) == frames


def test_a_verdict(built: tuple[Any, Any, KnownFrames]) -> None:
    frames = built[2]
    law, count = frames.latency_cycles, len(frames.sent) * (1 + ROUNDS)
    assert law is not None and frames.exact
    passed = run_self_test(Board(frames, law), frames)  # type: ignore[arg-type]  # has what is asked of a chip
    assert passed.passed
    assert passed.verdict.startswith(f"PASS: {count} of {count} frames as golden; {law:,} cycles for a frame alone, as")
    for wrong in (0, 20):
        failed = run_self_test(Board(frames, law, wrong), frames)  # type: ignore[arg-type]
        assert failed.wrong == (wrong,) and failed.verdict.startswith(f"FAIL: {count - 1} of {count}")
    late = run_self_test(Board(frames, law + 1), frames)  # type: ignore[arg-type]
    assert not late.passed and "8 frames NOT as predicted" in late.verdict
    loose, masked = replace(frames, exact=False), replace(frames, used=bytes(len(frames.used)))
    assert run_self_test(Board(loose, law + 1), loose).passed  # type: ignore[arg-type]
    assert run_self_test(Board(masked, law, 3), masked).passed  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [None, "", "{}", '{"format": 2}', "[]"])
def test_what_is_no_such_file_is_a_sentence(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "self_test.json").write_text(text)
    with pytest.raises(LinkError, match="build the model again"):
        KnownFrames.read(tmp_path)


def test_the_command_line(built: tuple[Any, Any, KnownFrames], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design, link, frames = built
    done = call("infer", tmp_path)
    assert done.exit_code == 1 and "samples must be given" in done.output and "--self-test" in done.output
    done = call("infer", tmp_path, "--self-test", "--check")
    assert done.exit_code == 1 and "--self-test must stand alone" in done.output
    (tmp_path / "model.json").write_text(host_model(design, link, 10**6))
    done = call("infer", tmp_path, "--self-test", "--port", "/dev/nowhere")
    assert done.exit_code == 3 and "which this one lacks" in " ".join(done.output.split())
    (tmp_path / "self_test.json").write_text(frames.to_text())
    board = Board(frames, frames.latency_cycles or 0)
    monkeypatch.setattr("onnx_hw.commands.self_test.Chip", lambda *port, **options: Opened(board))
    done = call("infer", tmp_path, "--self-test")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("PASS: ") and f"on icebreaker, design {link.digest.hex()}" in done.output
    assert "self-test: PASS: " in done.output and "Tried on a board" in done.output
    board.count, board.wrong = 0, 5
    done = call("infer", tmp_path, "--self-test")
    assert done.exit_code == ExitCode.MISMATCH and "error[self-test]: the board must pass" in done.output
    other = json.loads(frames.to_text()) | {"digest": "00" * 16}
    (tmp_path / "self_test.json").write_text(json.dumps(other))
    done = call("infer", tmp_path, "--self-test")
    assert done.exit_code == 1 and "must be those of its design" in " ".join(done.output.split())


class Opened:
    """The board within a context."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def __enter__(self) -> Board:
        return self.board

    def __exit__(self, *error: object) -> None:
        pass
