"""Self-test of a board: frames that a build keeps, with golden's results; one verdict.

``python -m onnx_hw_link.self_test DIR [PORT]`` needs neither the compiler nor samples. ``onnx-hw infer DIR
--self-test`` does the same.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onnx_hw_link.chip import Chip
from onnx_hw_link.errors import LinkError
from onnx_hw_link.host_model import HostModel, NotOurs, read_json
from onnx_hw_link.session import Faults
from onnx_hw_link.transport import TRANSPORTS

FILE = "self_test.json"
FORMAT = 1
ROUNDS = 4
"""Times that all frames are sent one after the other."""


@dataclass(frozen=True)
class KnownFrames:
    """Frames of a build with golden's results, as bytes of its link.

    Attributes:
        digest: digest of the design, in hexadecimal digits.
        sent, wanted: frames to the chip, and their results without the times; of a network that keeps state the results
            of all rounds.
        used: mask of the results: bits that are 0 mean nothing.
        latency_cycles: cycles of a frame alone from its first beat in to its last beat out, by the firing law; None if
            they are not known.
        exact: whether a frame takes exactly these cycles; otherwise it takes no fewer.
    """

    digest: str
    board: str
    sent: tuple[bytes, ...] = field(repr=False)
    wanted: tuple[bytes, ...] = field(repr=False)
    used: bytes = field(repr=False)
    latency_cycles: int | None
    exact: bool

    def to_text(self) -> str:
        """Return the text of the file."""
        data = {
            "format": FORMAT,
            "digest": self.digest,
            "board": self.board,
            "sent": [b64encode(frame).decode() for frame in self.sent],
            "wanted": [b64encode(frame).decode() for frame in self.wanted],
            "used": b64encode(self.used).decode(),
            "latency_cycles": self.latency_cycles,
            "exact": self.exact,
        }
        return json.dumps(data, separators=(",", ":")) + "\n"

    @classmethod
    def read(cls, build: str | Path) -> KnownFrames:
        """Read the frames of a build's folder; raise ``LinkError`` where there are none that we can read."""
        path = Path(build) / FILE
        try:
            data = read_json(path)
            if data["format"] != FORMAT:
                raise NotOurs(f"{path} must be of format {FORMAT}, not {data['format']}: build the model again")
            sent, wanted = (tuple(b64decode(frame) for frame in data[side]) for side in ("sent", "wanted"))
            used, latency = b64decode(data["used"]), data["latency_cycles"]
            return cls(data["digest"], data["board"], sent, wanted, used, latency, data["exact"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            hint = "build the model again for its board, with this version of onnx-hw"
            raise NotOurs(f"the build must hold {FILE}, which this one lacks or which is damaged: {hint}") from error


@dataclass(frozen=True)
class SelfTestResult:
    """Result of a self-test.

    Attributes:
        frames: number of frames that were sent.
        wrong: numbers of those whose results differ from golden's.
        latencies: cycles of the frames that were sent alone, as the chip counts them.
        off: numbers of those that took other cycles than the firing law allows.
        frames_per_second: rate at which frames passed that were sent one after the other, by the host's clock.
        faults: faults of the wire.
    """

    frames: int
    wrong: tuple[int, ...]
    latencies: tuple[int, ...]
    off: tuple[int, ...]
    frames_per_second: float
    faults: Faults

    @property
    def passed(self) -> bool:
        return not self.wrong and not self.off

    @property
    def verdict(self) -> str:
        """One line that begins with PASS or FAIL."""
        right = self.frames - len(self.wrong)
        cycles = f"{min(self.latencies):,} to {max(self.latencies):,}" if len({*self.latencies}) > 1 else ""
        cycles = cycles or (f"{self.latencies[0]:,}" if self.latencies else "")
        law = f", {len(self.off):,} frames NOT as predicted" if self.off else ", as predicted"
        counted = f"; {cycles} cycles for a frame alone{law}" if cycles else ""
        return (
            f"{'PASS' if self.passed else 'FAIL'}: {right:,} of {self.frames:,} frames as golden{counted}; "
            f"{self.frames_per_second:,.0f} frames/s"
        )


def run_self_test(chip: Chip, frames: KnownFrames) -> SelfTestResult:
    """Send each frame alone, then all of them one after the other, several times.

    Raises:
        LinkError: the chip makes no more progress.
    """
    alone = [next(iter([*chip.stream([frame])])) for frame in frames.sent]
    begun = time.monotonic()
    busy = list(chip.stream(frames.sent * ROUNDS))
    seconds = time.monotonic() - begun
    results = [*alone, *busy]
    wanted = frames.wanted if len(frames.wanted) == len(results) else frames.wanted * (1 + ROUNDS)
    wrong = [k for k, result in enumerate(results) if _differ(result.beats, wanted[k], frames.used)]
    latencies = [result.latency_cycles for result in alone]
    off = [k for k, cycles in enumerate(latencies) if cycles is not None and not _lawful(cycles, frames)]
    known = tuple(cycles for cycles in latencies if cycles is not None)
    rate = len(busy) / max(seconds, 1e-9)
    return SelfTestResult(len(results), tuple(wrong), known, tuple(off), rate, chip.session.faults)


def _differ(came: bytes, wanted: bytes, used: bytes) -> bool:
    return any((a ^ b) & mask for a, b, mask in zip(came, wanted, used, strict=True))


def _lawful(cycles: int, frames: KnownFrames) -> bool:
    least = frames.latency_cycles
    return least is None or (cycles == least if frames.exact else cycles >= least)


def main(arguments: Sequence[str]) -> int:
    """Test the board at a port, and print the verdict; return 0 if it passes, 4 if not, 2 where there is no answer."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("the folder of a build, and a port (auto without one)\n")
        return 2
    folder, port = arguments[0], [*arguments, "auto"][1]
    try:
        model, frames = HostModel.read(folder), KnownFrames.read(folder)
        transport = TRANSPORTS[model.link_kind](model.baud)
        with Chip(
            port, baud=model.baud, digest=model.link.digest, transport=transport, contents=model.contents
        ) as chip:
            result = run_self_test(chip, frames)
    except LinkError as error:
        sys.stderr.write(f"error[{error.code}]: {error}\n")
        return 2
    sys.stdout.write(f"{result.verdict}\n")
    return 0 if result.passed else 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
