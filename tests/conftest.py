"""Settings of the whole test suite."""

import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Machines differ and are shared: how long one example takes says nothing about the code. A commit is judged by the same
# draws as the one before it; other ones in every run: `pytest --hypothesis-profile fresh`.
settings.register_profile("house", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None)
settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests first: what is broken is seen soon. Then the longest: no process ends minutes after the others."""

    def minutes(item: pytest.Item) -> tuple[bool, float]:
        slow = item.get_closest_marker("slow")
        return slow is not None, -slow.kwargs.get("minutes", 0) if slow else 0

    items.sort(key=minutes)


MAX_MEMORY_BYTES = 8_000_000_000


@pytest.fixture(scope="session", autouse=True)
def memory_is_bounded() -> None:
    """A test that takes more fails by its name; else the system ends the process, and nobody knows which it was."""
    if sys.platform == "linux":
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or hard > MAX_MEMORY_BYTES:
            resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, hard))


@pytest.fixture(scope="session", autouse=True)
def store_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the user's builds have made proves nothing here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_HW_STORE", str(tmp_path_factory.mktemp("store")))
        yield


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """Also where the suite was started with SIGINT ignored (nohup, a script's background), which children inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
