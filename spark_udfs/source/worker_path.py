"""What a stream's processes need to find this package, where Spark 4.3.0 does not put it.

    <files>/spark_udfs-....zip               where classic Spark puts what `register` ships
    <files>/<session>/spark_udfs-....zip     where Spark Connect puts it, on the driver and on each executor
    <files>/streaming_job/                   where the driver's process that plans a stream looks: nothing is put there
                                             (PythonStreamingSourceRunner.init)
    <files>/                                 where a stream's tasks look, to read and to write, also with Connect
                                             (PythonMicroBatchStreamBase.createReaderFactory)

So the objects that they get come with code that gives the file its name there. A file's content is in its name: one
that is there already is the same.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from spark_udfs import bootstrap


def reduce_with_package(make: Callable[..., Any], *arguments: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What `__reduce__` gives for `make(*arguments)`: nothing in it but plain bytes and the code below is unpickled
    before this package can be found."""
    carrier = bootstrap.carrier()
    if not carrier.is_archive:
        return make, arguments
    return _unpickler(), (carrier.location, pickle.dumps((make, arguments)))


class PicklesWithPackage:
    """What is found wherever it travels to, as it is."""

    def __reduce__(self) -> Any:
        return reduce_with_package(_restored_object, type(self), self.__dict__)


def _restored_object(kind: type, state: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    made.__dict__.update(state)
    return made


def _unpickler() -> Callable[[str, bytes], Any]:
    """A function within a function is pickled as code, and not as a name in this package."""

    def revive(location: str, content: bytes) -> Any:
        """location: of the file on the driver's machine, which may be this one."""
        import importlib
        import os
        import pickle
        import shutil
        import sys

        from pyspark.core.files import SparkFiles

        root, name = SparkFiles.getRootDirectory(), os.path.basename(location)
        wanted = os.path.join(root, name)
        if "spark_udfs" not in sys.modules:
            sessions = sorted(os.listdir(root)) if os.path.isdir(root) else []
            places = [wanted, location, *(os.path.join(root, each, name) for each in sessions)]
            found = next(filter(os.path.exists, places), wanted)
            if found != wanted:
                temporary = f"{wanted}.{os.getpid()}"
                try:
                    os.makedirs(root, exist_ok=True)
                    try:
                        os.link(found, temporary)  # outlives the session that made the file
                    except OSError:
                        shutil.copyfile(found, temporary)
                    os.replace(temporary, wanted)
                except OSError:
                    sys.path.insert(1, os.path.abspath(found))
            importlib.invalidate_caches()  # another worker's name for it may be younger than what is known here
        make, arguments = pickle.loads(content)
        return make(*arguments)

    return revive
