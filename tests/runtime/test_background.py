"""A call beside a block: its result is the block's, and its tools end where the block does not end well."""

import threading

import pytest

from onnx_hw.runtime.background import beside
from onnx_hw_tools.process import Command, ToolCancelled, execute


def test_a_call_runs_while_the_block_does():
    here, there = threading.Event(), threading.Event()

    def call(number: int) -> int:
        there.set()
        assert here.wait(10)
        return number + 1

    with beside(call, 4) as result:
        assert there.wait(10)
        here.set()
        assert result.result() == 5


def test_what_fails_beside_fails_where_its_result_is_wanted():
    with pytest.raises(ZeroDivisionError), beside(divmod, 1, 0) as result:
        result.result()


@pytest.mark.parametrize("why", [KeyboardInterrupt, ValueError])
def test_tools_end_with_a_block_that_does_not_end_well(tmp_path, why):
    begun, running = threading.Event(), []

    def call() -> None:
        command = Command("sleep", ("sleep", "600"), tmp_path, tmp_path / "log")
        begun.set()
        execute([command])

    def block() -> None:
        with beside(call) as result:
            running.append(result)
            assert begun.wait(10)
            raise why

    with pytest.raises(why):
        block()
    assert isinstance(running[0].exception(), ToolCancelled)
