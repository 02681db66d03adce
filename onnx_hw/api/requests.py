"""Options of the pipeline from the keywords of a Python caller."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from numpy.typing import ArrayLike

from onnx_hw.api.check_arguments import names_of_tensors, whole_number
from onnx_hw.messages.errors import user_error
from onnx_hw.runtime.options import OutputKind, QuantizeOptions, ReadOptions

GivenSamples: TypeAlias = "Mapping[str, ArrayLike] | ArrayLike | str | os.PathLike[str]"
"""Samples of a Python caller: arrays by graph input, the array of the only input, or the path of a file or folder."""

KINDS = ("weights", "data")
"""Kinds of integers whose bits can be set apart."""


def read_options(
    cut_at: str | Sequence[str],
    dimensions: Mapping[str, int] | None,
    state: Mapping[str, str] | None,
    *,
    streaming: bool,
    strict: bool,
    lenient: bool,
    newer: bool,
) -> ReadOptions:
    """Return the options of reading.

    Args:
        cut_at: names of tensors; one may be several names, with commas between them.
        dimensions: sizes by dimension name; None for none.
        state: name of an output by that of the input that it becomes in the next frame; None for none.
        streaming, strict, lenient, newer: as in ``ReadOptions``.

    Raises:
        UserError: a name of ``state`` is not a text.
    """
    kept = {} if state is None else state
    if not isinstance(kept, Mapping) or not all(isinstance(name, str) for pair in kept.items() for name in pair):
        message = f"`state` must name an output for each input that is kept, not {state!r}"
        raise user_error("argument", message, where="state", hint='state={"h": "hn"}, or {"h": "hn=0.5"}')
    pairs = tuple(f"{entering}:{leaving}" for entering, leaving in kept.items())
    return ReadOptions(
        dimensions=dimensions or {},
        strict=strict,
        lenient=lenient,
        newer=newer,
        cut_at=names_of_tensors(cut_at),
        state=pairs,
        streaming=streaming,
    )


def quantize_options(
    bits: int | Mapping[str, int] | None,
    precision: str | os.PathLike[str] | None,
    sqnr: float | None,
    accuracy_loss: float | None,
    output_kind: OutputKind | str | None,
) -> QuantizeOptions:
    """Return the options of quantization.

    Args:
        bits: bits of weights and data alike, or by ``weights`` and ``data``; None for the default.
        precision: TOML file with the bits of single layers and values.
        sqnr: goal in dB.
        accuracy_loss: goal in percentage points.
        output_kind: kind of the outputs of the hardware.

    Raises:
        UserError: they contradict each other, or one of them has no meaning.
    """
    widths = dict(bits) if isinstance(bits, Mapping) else dict.fromkeys(KINDS, bits)
    wrong = [name for name in widths if name not in KINDS]
    try:
        widths = {name: number if number is None else whole_number(number) for name, number in widths.items()}
    except TypeError:
        wrong.append("bits")
    if wrong:
        raise user_error(
            "argument",
            f"the bits must be a whole number, or whole numbers for `weights` and `data`, not {bits!r}",
            where="bits",
            hint='bits=8, or bits={"weights": 4, "data": 8}',
            stage="arguments",
        )
    return QuantizeOptions(
        output=output_kind,  # type: ignore[arg-type]  # may be a text; an unknown one is refused there
        weights=widths.get("weights"),
        data=widths.get("data"),
        precision=None if precision is None else Path(precision),
        sqnr=sqnr,
        accuracy_loss=accuracy_loss,
    )
