"""Errors that are about no record, and what a worker of Spark logs and reports when it fails: the cause first.

    @report_cause_first      on everything that Spark calls here, in tasks and in the processes that plan
    def read(self, partition): ...

Spark's error for the user begins with what its worker prints of an exception, and prints tracebacks before texts. An
error of the input, of an option or of a path is explained by its text, so then the worker is asked to leave the
traceback out, and frames of this package with it; in a task, one line with the text is logged before all that Spark
logs. A mistake of this package keeps its traceback, unless it is a ValueError or a TypeError in its own lines, and so
does every error if KAFKAREC_TRACEBACK=1 is set where the worker runs. Importing this module does not import pyspark.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import wraps
from traceback import walk_tb
from typing import Any, TypeVar, cast


class NeedsNewerSpark(RuntimeError):
    """This Spark cannot do it; the message says which one can, and what does the same here."""


class Conflict(RuntimeError):
    """Another job has changed the table since this one planned what to write. Nothing of this one is there."""


# ---- the log of this package in workers ------------------------------------------------------------------


logger = logging.getLogger("spark_udfs")


def log_to_stderr() -> None:
    """Logs to standard error, which is the executor's log, unless logging is configured; in workers it is not."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)


def warn_of_some(texts: Sequence[str], more: str) -> None:
    """Logs the first ten texts, and how many more there are."""
    for text in texts[:10]:
        logger.warning("%s", text)
    if len(texts) > 10:
        logger.warning("%d %s", len(texts) - 10, more)


# ---- what a worker of Spark reports when it fails --------------------------------------------------------


TRACEBACK_VARIABLE = "KAFKAREC_TRACEBACK"
_REPORTED = "_reported_by_spark_udfs"


_Called = TypeVar("_Called", bound=Callable[..., Any])


def report_cause_first(function: _Called) -> _Called:
    """A decorator for functions and generator functions; calls may be nested. What they log is on standard error."""
    if not inspect.isgeneratorfunction(function):
        return _reporting()(function)

    @wraps(function)
    def generate(*arguments: Any, **named: Any) -> Any:
        with _reporting():
            yield from function(*arguments, **named)

    return cast(_Called, generate)


@contextmanager
def _reporting() -> Iterator[None]:
    log_to_stderr()
    try:
        yield
    except Exception as error:
        if not getattr(error, _REPORTED, False):
            _report(error)
        raise


def _report(error: Exception) -> None:
    setattr(error, _REPORTED, True)
    if not is_in_worker():
        return
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        lines = [*str(error).splitlines(), *getattr(error, "__notes__", ())]
        logger.error("kafkarec failed: %s: %s", type(error).__name__, "; ".join(lines))
    explained = is_explained_by_text(error) and not os.environ.get(TRACEBACK_VARIABLE)
    if explained:
        error.__cause__, error.__suppress_context__ = None, True
    hide_traceback(explained)


def is_in_worker() -> bool:
    """Whether this process is one of Spark's, which ends after an error, and not an application or a test."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")


def is_explained_by_text(error: BaseException) -> bool:
    """Whether the text alone explains it: an error of the input, an option or a path, and not of this package's code.
    ValueError and TypeError are such errors where the code of these packages has raised them."""
    from pyspark.errors import AnalysisException

    if type(error) in (ValueError, TypeError):
        frames = deque(walk_tb(error.__traceback__), 1)
        return any(_is_of_these_packages(str(frame.f_globals.get("__name__"))) for frame, _ in frames)
    return isinstance(error, OSError | AnalysisException) or _is_of_these_packages(type(error).__module__)


def _is_of_these_packages(module: str) -> bool:
    return module.partition(".")[0] in ("spark_udfs", "kafkarec")


_set_here = False


def hide_traceback(hide: bool) -> None:
    """Whether this worker reports the error that it fails with, and then ends, without a traceback.

    hide=False undoes an earlier call, for an error that a user's function has caught. What the user has set, such as
    spark.sql.execution.pyspark.udf.hideTraceback.enabled, stays as it is.
    """
    global _set_here
    from pyspark import util

    handler = getattr(util, "handle_worker_exception", None)
    settings: MutableMapping[str, Any] = vars(sys)
    name, value = "tracebacklimit", cast(Any, 0)
    if handler is not None and "hide_traceback" in inspect.signature(handler).parameters:
        settings, name, value = os.environ, "SPARK_HIDE_TRACEBACK", "1"
    if hide and name not in settings:
        settings[name] = value
        _set_here = True
    elif _set_here and not hide:
        del settings[name]
        _set_here = False
