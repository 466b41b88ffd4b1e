"""One unpacked copy of the chosen wheels per node, interpreter and libc, made by the first process that needs it.

    <root>/kafkarec-cache-<uid>/          mode 0700, owned by this user
        <key>/                            complete or absent: renamed to this name once it is complete
            seal.json                     path -> [size, mtime_ns, sha256] of every other file; its own hash
        <key>.lock                        flock while unpacking; the kernel releases it when the holder dies
        <key>.tmp-<pid>                   being unpacked, or left by a process that was killed

`key` is the hash of the wheels' hashes, the interpreter and the libc: two versions never share a folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import py_compile
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from . import roots, wheels
from .errors import BootstrapError
from .roots import RootRefused

SEAL = "seal.json"
# Changes when the layout of an unpacked folder does, so that two bootstraps never share one.
LAYOUT = "1"

Files = Iterable[tuple[str, bytes]]
Opener = Callable[[], Iterator[Files]]


def cache_key(chosen: Iterable[wheels.Wheel], interpreter: str, libc: str) -> str:
    """Names the unpacked folder: 32 hex digits."""
    digest = hashlib.sha256()
    for part in (LAYOUT, interpreter, libc, f"opt-{sys.flags.optimize}"):
        digest.update(part.encode() + b"\0")
    for wheel in sorted(chosen, key=lambda each: each.file):
        digest.update(f"{wheel.file}\0{wheel.sha256}\0".encode())
    return digest.hexdigest()[:32]


def provide(key: str, open_wheels: Opener) -> tuple[str, list[str]]:
    """Returns (folder to put on sys.path, notes on roots that could not be used).

    Raises BootstrapError with every root and its reason if none can be used. A bad wheel (also a BootstrapError) ends
    the search at once, since it is bad for every root.
    """
    refused: list[str] = []
    for source, root in roots.candidates():
        try:
            folder = roots.own_folder(root)
            return _provide_in(folder, key, open_wheels), refused
        except RootRefused as reason:
            refused.append(f"{root} (from {source}): {reason}")
    tried = "\n".join(f"  {line}" for line in refused)
    raise BootstrapError(
        f"no folder on this node can hold the unpacked wheels of kafkarec:\n{tried}\n"
        f"Set one with --conf spark.executorEnv.KAFKAREC_CACHE=/a/folder (owned by the user, not noexec), or "
        f"ship a whole environment: spark-submit --archives env.tar.gz#env --conf spark.pyspark.python=env/bin/python"
    )


def _provide_in(folder: str, key: str, open_wheels: Opener) -> str:
    target = os.path.join(folder, key)
    try:
        if not os.path.lexists(target):
            with locked(os.path.join(folder, f"{key}.lock")):
                _sweep(folder, key)
                if not os.path.lexists(target):  # not made by another process while we waited
                    _unpack(folder, key, open_wheels)
        library = _check_seal(target, rehash=os.environ.get("KAFKAREC_VERIFY") == "1")
    except OSError as error:
        raise RootRefused(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")) from None
    if library:
        roots.can_load(library)
    return target


@contextmanager
def locked(path: str) -> Iterator[None]:
    import fcntl  # not at the top: a Spark Connect client on a system without it imports this module

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # also unlocks


def _sweep(folder: str, key: str) -> None:
    """Removes temporary folders of this key. The lock is held, so they belong to dead processes."""
    for name in os.listdir(folder):
        if name.startswith(f"{key}.tmp-"):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _unpack(folder: str, key: str, open_wheels: Opener) -> None:
    temporary = os.path.join(folder, f"{key}.tmp-{os.getpid()}")
    os.mkdir(temporary, 0o700)
    try:
        sealed: dict[str, list[int | str]] = {}
        for files in open_wheels():
            for name, content in files:
                if name in sealed:
                    if sealed[name][2] != hashlib.sha256(content).hexdigest():
                        raise BootstrapError(f"refused: two wheels contain different files {name!r}")
                    continue
                path = os.path.join(temporary, *name.split("/"))
                _write(path, content)
                sealed[name] = _entry(path, content)
                if name.endswith(".so"):
                    _probe_once(path, sealed)
        for name in [each for each in sealed if each.endswith(".py")]:
            _compile(temporary, name, os.path.join(folder, key, *name.split("/")), sealed)
        body = json.dumps({"files": sealed}, sort_keys=True)
        seal = hashlib.sha256(body.encode()).hexdigest()
        _write(os.path.join(temporary, SEAL), f"{body}\n{seal}\n".encode())
        _flush(temporary)
        os.rename(temporary, os.path.join(folder, key))
        _sync(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _probe_once(path: str, sealed: dict[str, list[int | str]]) -> None:
    """Loads the first library (dlopen), so that a noexec root is detected before 35 MB are written to it."""
    if sum(name.endswith(".so") for name in sealed) == 1:
        roots.can_load(path)


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as file:
        file.write(content)


def _entry(path: str, content: bytes) -> list[int | str]:
    status = os.lstat(path)
    return [status.st_size, status.st_mtime_ns, hashlib.sha256(content).hexdigest()]


def _compile(temporary: str, name: str, final_path: str, sealed: dict[str, list[int | str]]) -> None:
    """Compiles a module and adds its byte code to the seal. Python would otherwise write it later, as an unlisted
    file."""
    source = os.path.join(temporary, *name.split("/"))
    if sys.pycache_prefix is not None:
        return  # this interpreter writes byte code to another folder
    try:
        compiled = py_compile.compile(source, dfile=final_path, doraise=True)
    except py_compile.PyCompileError:
        return  # a file for another Python version; it fails when imported, as it would when installed
    if compiled:
        with open(compiled, "rb") as file:
            sealed[os.path.relpath(compiled, temporary).replace(os.sep, "/")] = _entry(compiled, file.read())


def _flush(temporary: str) -> None:
    for parent, _, names in os.walk(temporary):
        for name in names:
            _sync(os.path.join(parent, name))
        _sync(parent)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_seal(target: str, rehash: bool) -> str | None:
    """Compares the folder with its seal; returns the path of one library in it. RootRefused for any difference."""
    if not stat.S_ISDIR(os.lstat(target).st_mode):
        raise RootRefused(f"{target} is a symlink or a file")
    with open(os.path.join(target, SEAL), encoding="utf-8") as file:
        body, _, seal = file.read().rstrip("\n").rpartition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != seal:
        raise RootRefused(f"{target}: its seal is broken")
    sealed: dict[str, list[int | str]] = json.loads(body)["files"]
    files = set(files_below(target))
    differing = files ^ (set(sealed) | {SEAL})
    if differing:
        raise RootRefused(f"{target}: {sorted(differing)[0]!r} was added or removed after it was sealed")
    for name, (size, mtime, digest) in sealed.items():
        path = os.path.join(target, *name.split("/"))
        status = os.lstat(path)
        changed = (status.st_size, status.st_mtime_ns) != (size, mtime)
        if not changed and rehash:
            with open(path, "rb") as content:
                changed = hashlib.file_digest(content, "sha256").hexdigest() != digest
        if changed:
            raise RootRefused(f"{target}: {name!r} was changed after it was sealed")
    libraries = [(size, name) for name, (size, _, _) in sealed.items() if name.endswith(".so")]
    return os.path.join(target, min(libraries)[1]) if libraries else None


def files_below(folder: str, prefix: str = "") -> Iterator[str]:
    """Yields every file below `folder`; what is neither a plain file nor a folder has a remark after its name."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from files_below(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield prefix + entry.name
            else:
                yield f"{prefix}{entry.name} (a symlink or special file)"
