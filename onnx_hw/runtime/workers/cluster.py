"""The workers of a dask cluster: the one place that knows of dask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from uuid import uuid4

from onnx_hw.messages.errors import ExitCode, user_error
from onnx_hw.runtime.workers.executors import Workers
from onnx_hw_tools.process import end_tools_of


@contextmanager
def cluster(address: str, jobs: int | None) -> Iterator[Workers]:
    """Return the workers of a scheduler, with ``jobs`` tasks at once; None for one per thread.

    Raises:
        UserError: dask is not installed, or nobody answers there.
    """
    try:
        distributed: Any = import_module("distributed")  # some of its functions have types, some none
    except ImportError:
        hint = 'pip install "onnx-hw[cluster]", the same on every machine'
        raise user_error("cluster", "a scheduler needs dask.distributed", where="--scheduler", hint=hint) from None
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        hint = "start it with `dask scheduler`, workers with `dask worker`"
        message = f"a dask scheduler must answer: {str(error) or type(error).__name__}"
        raise user_error("cluster", message, where=address, hint=hint, exit_code=ExitCode.TOOL_FAILED) from None
    with client:
        executor, owner = client.get_executor(pure=False), uuid4().hex
        try:
            yield Workers(executor, jobs or max(1, sum(client.nthreads().values())), None, owner)
        finally:
            executor.shutdown(wait=False)  # cancels what waits
            client.run(end_tools_of, owner, on_error="ignore")
