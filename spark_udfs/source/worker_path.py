"""Makes this package importable in the processes of a stream, which Spark 4.3.0 does not do.

    <files>/spark_udfs-....zip               where classic Spark puts what `register` ships
    <files>/<session>/spark_udfs-....zip     where Spark Connect puts it, on the driver and on each executor
    <files>/streaming_job/                   where the driver's process that plans a stream imports from, and where
                                             Spark puts nothing (PythonStreamingSourceRunner.init)
    <files>/                                 where a stream's tasks import from, to read and to write, also with Connect
                                             (PythonMicroBatchStreamBase.createReaderFactory)

So the pickles for these processes contain code that first links or copies the file there. The file's name contains a
hash of its content, so an existing file of that name is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from spark_udfs import bootstrap


def reduce_with_package(make: Callable[..., Any], *arguments: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The result of `__reduce__` for `make(*arguments)`: bytes and the code below, which can be unpickled before this
    package is importable."""
    if not bootstrap.IS_ARCHIVE:
        return make, arguments
    return _unpickler(), (bootstrap.ORIGIN, cloudpickle.dumps((make, arguments)))  # type: ignore[no-untyped-call]


class PicklesWithPackage:
    """Base class of objects that make this package importable where they are unpickled."""

    def __reduce__(self) -> Any:
        # the attributes are unpickled last, when the package is importable
        return *reduce_with_package(object.__new__, type(self)), self.__dict__


def _unpickler() -> Callable[[str, bytes], Any]:
    """The function that unpickles. It is defined inside another one, so it is pickled as code and not by its name."""

    def unpickle(location: str, content: bytes) -> Any:
        """location: path of the file on the driver's machine, which may be this one."""
        import importlib
        import os
        import pickle
        import shutil
        import sys

        from pyspark import SparkFiles

        root, name = SparkFiles.getRootDirectory(), os.path.basename(location)
        wanted = os.path.join(root, name)
        if "spark_udfs" not in sys.modules:
            sessions = sorted(os.listdir(root)) if os.path.isdir(root) else []
            candidates = [wanted, location, *(os.path.join(root, each, name) for each in sessions)]
            existing = next(filter(os.path.exists, candidates), wanted)
            if existing != wanted:
                temporary = f"{wanted}.{os.getpid()}"
                try:
                    os.makedirs(root, exist_ok=True)
                    try:
                        os.link(existing, temporary)  # the link outlives the session that made the file
                    except OSError:
                        shutil.copyfile(existing, temporary)
                    os.replace(temporary, wanted)
                except OSError:
                    sys.path.insert(1, os.path.abspath(existing))
            importlib.invalidate_caches()  # another worker may have made the file since Python last listed the folder
        make, arguments = pickle.loads(content)
        return make(*arguments)

    return unpickle
