"""What a call costs, without a clock: how many calls of Python functions it makes, and how much memory it takes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def calls_of(run: Callable[[], Result]) -> tuple[Result, int]:
    """Return what `run` returns, and the number of calls, each step of a generator included."""
    calls: list[None] = []
    sys.setprofile(lambda frame, event, argument: calls.append(None) if event == "call" else None)
    try:
        return run(), len(calls)
    finally:
        sys.setprofile(None)


def peak_of(run: Callable[[], Result]) -> tuple[Result, int]:
    """Return what `run` returns, and the bytes that Python's own allocations grew by at their highest: not those of
    recycled pages."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
