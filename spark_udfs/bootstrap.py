"""Makes the compiled package `kafkarec` importable in a Spark worker that does not have it.

`spark_udfs` is shipped as one pure-Python wheel. As data it contains what pip would install of kafkarec and its codec
libraries, a tree of files for each CPython, machine and glibc, because a compiled module cannot be imported from
inside a zip. The first call of `activate()` on a node unpacks the tree that fits; each process puts that folder on
sys.path. Standard library only; nothing happens at import: no threads, no open files (pyspark's daemon forks).

    from spark_udfs.bootstrap import kafkarec

    kafkarec.decode(data)      # makes it importable, as the first use of anything of kafkarec does

    spark_udfs/_trees/index.json     made by tools/wheelhouse_pack.py, as are the zip files
    spark_udfs/_trees/*.zip          the parts of the trees: what all have in common, all of one machine, the rest

    <root>/kafkarec-cache-<uid>/     mode 0700, owned by this user; `cache_roots` has the roots
        <key>/                       complete or absent: renamed to this name once it is complete
        <key>.lock                   flock while unpacking; the kernel releases it when the holder dies
        <key>.tmp-...                being unpacked, or left by a process that was killed

`key` is the hash of the parts: two versions never share a folder, and a version never removes another one's.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

PACKAGE = "kafkarec"
TREES = "spark_udfs/_trees"
TREES_FORMAT = 2  # of index.json
# The folder of a tree with packages that are used only where the executor has no version of its own, which other
# packages there may need: s3fs takes exactly one fsspec.
FALLBACKS = "fallbacks"
# The wheel, zip or folder that has this package. Relative on executors (sys.path holds "./spark_udfs-....zip"), so made
# absolute before the working folder changes.
ORIGIN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IS_ARCHIVE = os.path.isfile(ORIGIN)
# Tried in this order; each with the separator of its entries. Spark deletes the executor's local folders when the
# application ends; the folder of KAFKAREC_CACHE stays.
ROOT_VARIABLES = {
    "KAFKAREC_CACHE": "\0",
    "SPARK_EXECUTOR_DIRS": os.pathsep,
    "SPARK_LOCAL_DIRS": ",",
    "LOCAL_DIRS": ",",  # YARN
}

Json = dict[str, Any]

_lock = threading.Lock()


class BootstrapError(ImportError):
    """kafkarec cannot be made importable here; the message says what was tried and what to do.

    An ImportError, so that code which treats kafkarec as optional keeps working.
    """


@dataclass(frozen=True)
class Activation:
    """How kafkarec became importable in this process."""

    version: str
    source: str  # "unpacked", "installed" or "imported before"
    path: str  # the folder that holds the package `kafkarec`
    interpreter: str
    libc: str
    wheels: tuple[str, ...] = ()  # what was unpacked
    notes: tuple[str, ...] = ()  # roots that were not usable, packages that were already imported


def activate() -> Activation:
    """Makes `import kafkarec` work in this process; later calls return the same Activation. Raises BootstrapError."""
    with _lock:
        return _activate()


class _ModuleAtFirstUse:
    """A module of kafkarec that is imported, and made importable, when something of it is used. Raises
    BootstrapError then."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked of any object, by pickle or a documentation tool: no use of kafkarec
            raise AttributeError(name)
        activate()
        found = self.__dict__[name] = getattr(importlib.import_module(self._name), name)
        return found


if TYPE_CHECKING:
    import kafkarec as kafkarec
    from kafkarec import distributed as distributed
    from kafkarec import internal_topics as internal_topics
else:
    kafkarec = _ModuleAtFirstUse(PACKAGE)
    distributed = _ModuleAtFirstUse(f"{PACKAGE}.distributed")
    internal_topics = _ModuleAtFirstUse(f"{PACKAGE}.internal_topics")


@functools.cache  # not of an error
def _activate() -> Activation:
    index = trees_index()
    package = sys.modules.get(PACKAGE)
    wheels, notes = tuple[str, ...](), list[str]()
    if package is not None:
        _require_version(package, index)
    if package is not None or index is None or _installed_version() == index["version"]:
        source = "installed" if package is None else "imported before"
        try:
            # without one of them kafkarec can be imported (a checkout in a worker that has only pyspark), but cannot
            # read each codec
            for module in index["libraries"] if package is None and index is not None else ():
                if importlib.util.find_spec(module) is None:
                    raise ModuleNotFoundError(f"No module named {module!r}")
            package = _import_kafkarec()
        except ImportError as error:
            if index is None:
                raise BootstrapError(_no_trees_text(error)) from None
            notes.append(f"the installed kafkarec {index['version']} cannot be imported: {error}")
            _forget_package()
            package = None
    if package is None:
        assert index is not None
        tree = fitting_tree(index)
        source, wheels = "unpacked", tuple(tree["wheels"])
        notes += _check_imported_codecs(index)
        folder = _ensure_unpacked(tree, notes)
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            package = _import_kafkarec()
        except ImportError as error:
            sys.path.remove(folder)
            _forget_package()
            raise BootstrapError(f"kafkarec was unpacked to {folder} but cannot be imported: {error}") from None
        _require_version(package, index)
        sys.path.append(os.path.join(folder, FALLBACKS))
    path = os.path.dirname(os.path.dirname(os.path.abspath(package.__file__ or "")))
    return Activation(str(package.__version__), source, path, python_tag(), libc(), wheels, tuple(notes))


# ---- kafkarec and its libraries in this process ----


def _import_kafkarec() -> ModuleType:
    package = importlib.import_module(PACKAGE)
    getattr(package, "decode", None)  # imports the compiled modules and the codecs, which the package alone does not
    return package


def _forget_package() -> None:
    for name in [each for each in sys.modules if each == PACKAGE or each.startswith(PACKAGE + ".")]:
        del sys.modules[name]


def _require_version(package: ModuleType, index: Json | None) -> None:
    if index is not None and package.__version__ != index["version"]:
        raise BootstrapError(
            f"kafkarec {package.__version__} is loaded already from {package.__file__}, and spark_udfs at {ORIGIN} "
            f"needs {index['version']}. A Python process can import only one of them: use one version in the "
            f"application, or set spark.python.worker.reuse=false"
        )


def _installed_version() -> str | None:
    """The version of a kafkarec on sys.path, read from its _version.py without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.origin:
        return None
    with contextlib.suppress(OSError):
        text = Path(spec.origin).with_name("_version.py").read_text("utf-8")
        if match := re.search(r'__version__ = "([^"]+)"', text):
            return match[1]
    return None


def _check_imported_codecs(index: Json) -> list[str]:
    """Notes on codec libraries that this process has already imported. BootstrapError if one of them is too old."""
    notes = []
    for name, (project, version, least) in index["libraries"].items():
        module = sys.modules.get(name)
        if module is None:
            continue
        loaded = getattr(module, "__version__", None)
        if not isinstance(loaded, str):
            parent = os.path.dirname(os.path.dirname(os.path.abspath(module.__file__ or "")))
            found = importlib.metadata.distributions(name=project, path=[parent])
            loaded = next((each.version for each in found), "of unknown version")
        if _release_numbers(loaded) < _release_numbers(least):
            raise BootstrapError(
                f"{project} {loaded} is loaded already from {module.__file__}; kafkarec {index['version']} needs "
                f"{least} or later (spark_udfs contains {version}). Two versions of it cannot be in one process"
            )
        notes.append(f"{project} {loaded} was imported before and stays")
    return notes


def _release_numbers(version: str) -> tuple[int, ...]:
    """The release part of a version, 2.9.post0 -> (2, 9); the lower bounds in the index have no other part."""
    return tuple(int(part) for part in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]


# ---- the trees of this wheel ----


def trees_index() -> Json | None:
    """What this spark_udfs contains; None in a source checkout or an archive without compiled packages.

    version     of kafkarec
    serves      the interpreters, in words
    libraries   module -> (project, its version, the lowest that kafkarec takes)
    parts       name -> sha256 of the zip file, and its files: path -> size
    trees       python "cp312", machine, glibc (the lowest), parts, wheels (the names), library (a small one to try)
    """
    raw = _read_own_file(f"{TREES}/index.json")
    index: Json | None = json.loads(raw) if raw else None
    if index and index["format"] != TREES_FORMAT:
        raise BootstrapError(
            f"{ORIGIN} has trees of format {index['format']!r}; this bootstrap reads format {TREES_FORMAT}"
        )
    return index


def _read_own_file(name: str) -> bytes | None:
    """The bytes of one file of this package, None where there is no such file."""
    try:
        folder = zipfile.Path(ORIGIN) if IS_ARCHIVE else Path(ORIGIN)
        return folder.joinpath(name).read_bytes()
    except FileNotFoundError:
        return None
    except (OSError, zipfile.BadZipFile) as error:
        raise BootstrapError(f"cannot read {name} in {ORIGIN}: {error}") from None


def python_tag() -> str:
    """`cp312`; `cp314t` where the GIL is disabled."""
    return f"cp{sys.version_info[0]}{sys.version_info[1]}{'t' if 't' in getattr(sys, 'abiflags', '') else ''}"


def machine() -> str:
    """The processor that this interpreter is compiled for."""
    return platform.machine() if sys.maxsize > 2**32 else f"{platform.machine()}, 32 bits"


def libc() -> str:
    """`glibc-2.36`, or `no glibc`."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # confstr does not exist, or does not have this name
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        if name == "glibc" and re.match(r"\d+\.\d+", version):
            return f"glibc-{version}"
    return "no glibc"


def fitting_tree(index: Json) -> Json:
    """The row of `index["trees"]` for this interpreter, with its parts. BootstrapError if there is none."""
    found = [int(number) for number in re.findall(r"\d+", libc())]
    for tree in index["trees"]:
        if (tree["python"], tree["machine"]) == (python_tag(), machine()) and tree["glibc"] <= found:
            return {**tree, "parts": {name: index["parts"][name] for name in tree["parts"]}}
    raise BootstrapError(
        f"this interpreter is {python_tag()} on {machine()} with {libc()}, and this spark_udfs wheel serves "
        f"{index['serves']}. `make wheelhouse` in kafkarec's checkout makes the one for CPython 3.11 to 3.14 on x86_64 "
        f"and aarch64 with glibc; for another one, install kafkarec on the executors (pip install), or ship a whole "
        f"environment: spark-submit --archives env.tar.gz#env --conf spark.pyspark.python=env/bin/python"
    )


def zips_of_tree(tree: Json) -> Iterator[zipfile.ZipFile]:
    """The zip files that the tree is put together of. BootstrapError if one is not as it was built."""
    for name, part in tree["parts"].items():
        raw = _read_own_file(f"{TREES}/{name}")
        if raw is None:
            raise BootstrapError(f"{ORIGIN} lists {name} but does not contain it")
        digest = hashlib.sha256(raw).hexdigest()
        if digest != part["sha256"]:
            raise BootstrapError(f"refused: {name} in {ORIGIN} has the sha256 {digest}, and {part['sha256']} was built")
        yield zipfile.ZipFile(io.BytesIO(raw))


def _no_trees_text(error: ImportError) -> str:
    if os.path.exists(os.path.join(ORIGIN, "setup.py")):
        return (
            f"this is spark_udfs' source folder, not compiled and without wheels: run `make wheelhouse` in {ORIGIN}, "
            f"or start Python elsewhere ({error})"
        )
    return (
        f"spark_udfs at {ORIGIN} contains no compiled packages, and kafkarec is not installed here ({error}). Use the "
        f"wheel that `make wheelhouse` builds in kafkarec's checkout, or install kafkarec"
    )


# ---- one unpacked copy of a tree per node ----


def _ensure_unpacked(tree: Json, notes: list[str]) -> str:
    """The folder of the unpacked tree. Adds notes on roots that could not be used, and on a copy that was replaced.

    Raises BootstrapError with every root and its reason if none can be used, and at once if a part is not the one that
    was built.
    """
    refused: list[str] = []
    for root, source in cache_roots().items():
        try:
            folder = _ensure_unpacked_in(_make_own_folder(root), tree, refused)
            notes += refused
            return folder
        except OSError as error:
            reason = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            refused.append(f"{root} (from {source}): {reason}")
    tried = "\n".join(f"  {line}" for line in refused)
    raise BootstrapError(
        f"no folder on this node can hold the unpacked files of kafkarec:\n{tried}\n"
        f"Set one with --conf spark.executorEnv.KAFKAREC_CACHE=/a/folder (owned by the user, not noexec), or "
        f"ship a whole environment: spark-submit --archives env.tar.gz#env --conf spark.pyspark.python=env/bin/python"
    )


def cache_roots() -> dict[str, str]:
    """Absolute path -> where it comes from, in the order of preference."""
    found: dict[str, str] = {}
    for variable, separator in ROOT_VARIABLES.items():
        for entry in filter(str.strip, os.environ.get(variable, "").split(separator)):
            found.setdefault(os.path.abspath(entry.strip()), variable)
    for source, find in (("the working folder", os.getcwd), ("the temporary folder", tempfile.gettempdir)):
        with contextlib.suppress(OSError):  # it was removed while this process uses it; there is none
            found.setdefault(os.path.abspath(find()), source)
    return found


def _make_own_folder(root: str) -> str:
    """The folder of mode 0700 in `root`, created if it is missing. OSError if the root cannot be used.

    Another user who can write to a folder of shared libraries can run code as this user. So the folder belongs to this
    user, in a folder that belongs to this user or to root, below folders that only their owners can write to (or that
    have the sticky bit). Neither a home folder nor a passwd entry is needed.
    """
    place = os.path.realpath(root)
    for folder in (place, *map(str, Path(place).parents)):
        mode = os.stat(folder).st_mode if os.path.exists(folder) else 0
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise OSError(f"{'it' if folder == root else folder} is writable by everybody, with no sticky bit")
    own = os.path.join(root, f"kafkarec-cache-{os.geteuid()}")
    for path, owners in ((root, (0, os.geteuid())), (own, (os.geteuid(),))):
        if not os.path.lexists(path):
            os.makedirs(path, 0o700, exist_ok=True)  # other processes may do the same at this moment
        status = os.lstat(path)
        mode = status.st_mode
        for is_wrong, what in (
            (stat.S_ISLNK(mode), "is a symlink"),
            (not stat.S_ISDIR(mode), "is not a folder"),
            (status.st_uid not in owners, f"belongs to user id {status.st_uid}, and this process is {os.geteuid()}"),
            (not os.access(path, os.W_OK | os.X_OK), "is not writable"),
            (path == own and mode & 0o077, f"is open to others (mode {stat.S_IMODE(mode):04o})"),
        ):
            if is_wrong:
                raise OSError(f"{'it' if path == root else path} {what}")
    return own


def _ensure_unpacked_in(own: str, tree: Json, notes: list[str]) -> str:
    """The same in one folder of this user. OSError if it cannot hold the tree."""
    key = hashlib.sha256("".join(part["sha256"] for part in tree["parts"].values()).encode()).hexdigest()[:32]
    folder = os.path.join(own, key)
    if _difference(folder, tree):
        import fcntl  # not at the top: a Spark Connect client on a system without it imports this module

        with open(f"{folder}.lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in os.listdir(own):
                if name.startswith(f"{key}.tmp-"):  # of a dead process, as the lock is held
                    shutil.rmtree(os.path.join(own, name), ignore_errors=True)
            wrong = _difference(folder, tree)
            if wrong:  # and no other process has made it while this one waited
                if os.path.lexists(folder):
                    notes.append(f"{folder} was unpacked again: {wrong}")
                _unpack(tree, folder)
    _try_library(folder, tree)
    return folder


def _difference(folder: str, tree: Json) -> str:
    """What is not in the folder as it is in the tree, by names and sizes; with KAFKAREC_VERIFY=1 by content, too."""
    if not os.path.isdir(folder) or os.path.islink(folder):
        return "it is no folder"
    expected = {name: f"{size} bytes" for part in tree["parts"].values() for name, size in part["files"].items()}
    found = {}
    for parent, folders, names in os.walk(folder):
        for path in (os.path.join(parent, name) for name in (*folders, *names)):
            status = os.lstat(path)
            if not stat.S_ISDIR(status.st_mode):
                size = f"{status.st_size} bytes" if stat.S_ISREG(status.st_mode) else "a symlink or special file"
                found[os.path.relpath(path, folder)] = size
        folders[:] = [name for name in folders if name != "__pycache__"]  # byte code, which Python adds
    for name, _ in sorted(found.items() ^ expected.items()):
        return f"{name!r}: expected {expected.get(name, 'no file')}, found {found.get(name, 'no file')}"
    if os.environ.get("KAFKAREC_VERIFY") == "1":
        for part in zips_of_tree(tree):
            for name in part.namelist():
                with open(os.path.join(folder, name), "rb") as file:
                    if file.read() != part.read(name):
                        return f"{name!r}: found other bytes"
    return ""


def _unpack(tree: Json, folder: str) -> None:
    """Makes the folder of the tree, complete when it gets its name; another one there is removed."""
    own, key = os.path.split(folder)
    # no TemporaryDirectory: a child that another thread forks meanwhile would remove it when it exits
    temporary = tempfile.mkdtemp(prefix=f"{key}.tmp-", dir=own)
    try:
        new = os.path.join(temporary, "new")
        for part in zips_of_tree(tree):
            part.extractall(new)
        _try_library(new, tree)
        for parent, _, names in os.walk(new):
            for path in (*(os.path.join(parent, name) for name in names), parent):
                _fsync(path)
        if os.path.lexists(folder):
            os.rename(folder, os.path.join(temporary, "old"))
        os.rename(new, folder)
        _fsync(own)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _fsync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_library(folder: str, tree: Json) -> None:
    """OSError if the dynamic loader refuses a library in this place (noexec mounts, seccomp)."""
    try:
        import ctypes
    except ImportError:  # an interpreter built without libffi: importing kafkarec shows whether it works
        return
    try:
        ctypes.CDLL(os.path.join(folder, tree["library"]))
    except OSError as error:
        raise OSError(f"a shared library cannot be loaded from it: {error}") from None
