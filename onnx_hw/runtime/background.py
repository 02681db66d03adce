"""A call in a thread of its own, beside what the caller does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any
from uuid import uuid4

from onnx_hw_tools.process import called_for, end_tools_of


@contextmanager
def beside(call: Callable[..., Any], *arguments: Any) -> Iterator[Future[Any]]:
    """Run a call beside the block, which may ask for its result; it has ended when the block has.

    Where the block does not end well, whatever tools the call runs are ended first.
    """
    owner = uuid4().hex
    with ThreadPoolExecutor(1) as thread:
        try:
            yield thread.submit(copy_context().run, called_for, owner, call, *arguments)
        except BaseException:
            end_tools_of(owner)
            raise
