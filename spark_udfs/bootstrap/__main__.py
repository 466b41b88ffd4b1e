"""Lists the unpacked copies on this node, and removes those of other versions.

    PYTHONPATH=spark_udfs-<version>-py3-none-any.whl python -m spark_udfs.bootstrap [--prune]

Lists every unpacked copy in every folder that the bootstrap would try here, with size and age. `--prune` removes all
but the one that this version uses with this interpreter. The bootstrap itself never removes another version's copy:
an application may be using it. Do not prune while applications of another version are running.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from . import PACKAGE_ORIGIN, cache, roots, tags, wheels


@dataclass(frozen=True)
class UnpackedCopy:
    """One unpacked folder."""

    path: str
    size: int
    made: float  # seconds since 1970

    def __str__(self) -> str:
        days = (time.time() - self.made) / 86400
        return f"{self.path}  {self.size / 1e6:.0f} MB, {days:.1f} days old"


def copies() -> Iterator[UnpackedCopy]:
    """Yields every unpacked copy of this user below the roots of this process' environment."""
    for _, root in roots.candidates():
        folder = os.path.join(root, f"kafkarec-cache-{os.geteuid()}")
        if not os.path.isdir(folder) or os.path.islink(folder) or os.lstat(folder).st_uid != os.geteuid():
            continue
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if os.path.isfile(os.path.join(path, cache.SEAL)) and not os.path.islink(path):
                size = sum(os.lstat(os.path.join(path, each)).st_size for each in cache.files_below(path))
                yield UnpackedCopy(path, size, os.lstat(path).st_mtime)


def own_key() -> str | None:
    """The name of the copy that this version uses with this interpreter, None if it contains no wheels."""
    manifest = wheels.load_manifest(PACKAGE_ORIGIN)
    if manifest is None:
        return None
    python = tags.this_interpreter()
    return cache.cache_key(wheels.choose(manifest, python), python.name, python.libc)


def remove(path: str) -> None:
    """Renames the copy before it is deleted, so that no process ever finds half a copy."""
    with cache.locked(f"{path}.lock"):
        gone = f"{path}.tmp-{os.getpid()}"
        os.rename(path, gone)
        shutil.rmtree(gone)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m spark_udfs.bootstrap", description="The caches of this node.")
    parser.add_argument("--prune", action="store_true", help="remove the copies of other versions and interpreters")
    options = parser.parse_args(arguments)
    keep = own_key()
    for each in copies():
        other = os.path.basename(each.path) != keep
        if other and options.prune:
            remove(each.path)
        print(f"{'removed' if other and options.prune else 'other  ' if other else 'ours   '}  {each}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
