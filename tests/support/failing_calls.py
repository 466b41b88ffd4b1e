"""Calls that fail or find something changed; programs that fail at their n-th system call: killed, or without power."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest


def before(monkeypatch: pytest.MonkeyPatch, owner, name: str, act: Callable[..., object]):
    """Call `act` with the arguments before each call of `owner.name`, such as os.open."""
    real = getattr(owner, name)

    def call(*arguments, **options):
        act(*arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


def failing(code: int, where: Callable[..., bool] = lambda *_: True) -> Callable[..., Any]:
    """A call that fails with this errno, where its arguments are such; a path that it was called with is named."""

    def call(*arguments, **_):
        if where(*arguments):
            named = [one for one in arguments[:1] if isinstance(one, str | os.PathLike)]
            raise OSError(code, os.strerror(code), *named)

    return call


def is_folder(descriptor: int) -> bool:
    return stat.S_ISDIR(os.fstat(descriptor).st_mode)


def run_in_child(action: Callable[[], object]) -> int:
    """Run `action` in a forked process and return its wait status."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    sys.dont_write_bytecode = True  # a file of it that a limit cuts would fail every later process
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        action()
        os._exit(0)
    except BaseException:
        os._exit(7)


@contextmanager
def counted_calls(
    names: Sequence[str], at: Callable[[int, str], None], *others: tuple[ModuleType, str]
) -> Iterator[None]:
    """Patch these functions of os, and those of other modules: at(number, name) is called before every call."""
    number = 0

    def count(name):
        nonlocal number
        number += 1
        at(number, name)

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in (*((os, name) for name in names), *others):
            before(patch, owner, name, lambda *_, name=name: count(name))
        yield


def killed_before(call_number: int, names: tuple[str, ...], action: Callable[[], object]) -> int:
    """Run `action` in a process that is killed before this call of one of these functions; return its wait status."""

    def at(number, name):
        if number == call_number:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted():
        with counted_calls(names, at):
            action()

    return run_in_child(counted)


class _Gone(BaseException):
    """The power has failed."""


def without_power_from(call_number: int, names: tuple[str, ...], action: Callable[[], object]) -> bool:
    """Run `action`, which ends at this call of one of these functions; return whether it made fewer."""

    def at(number, name):
        if number >= call_number:
            raise _Gone

    with counted_calls(names, at):
        try:
            action()
        except _Gone:
            return False
    return True
