"""Makes the compiled package `kafkarec` importable in a Spark worker that does not have it.

`spark_udfs` is shipped as one pure-Python wheel that contains the platform wheels of kafkarec and its codec
libraries as data, because a compiled module cannot be imported from inside a zip. The first call of
`activate()` in a process picks the wheels that fit, unpacks them once per node, and puts the folder on
sys.path. Standard library only; nothing happens at import: no threads, no open files (pyspark's daemon
forks).

    from spark_udfs import bootstrap
    bootstrap.load()
    import kafkarec

| file | what |
|---|---|
| tags | which wheels this interpreter can use |
| wheels | reads the manifest and the wheels; checks every file against the wheel's RECORD |
| roots | which folder of the node may hold the unpacked files |
| cache | one unpacked copy per node: lock, rename, seal |
| __main__ | `python -m spark_udfs.bootstrap [--prune]`: lists the unpacked copies on this node |
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import sys
import threading
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from . import cache, tags, wheels
from .errors import BootstrapError

__all__ = ["Activation", "BootstrapError", "activate", "load", "package_origin"]

PACKAGE = "kafkarec"
# Relative on executors (sys.path holds "./spark_udfs-....zip"), so made absolute before the working folder changes.
PACKAGE_ORIGIN = wheels.find_origin(os.path.dirname(__file__))

_lock = threading.Lock()
_activation: Activation | None = None


@dataclass(frozen=True)
class Activation:
    """How kafkarec became importable in this process."""

    version: str
    source: str  # "unpacked", "installed" or "imported before"
    path: str  # the folder that holds the package `kafkarec`
    interpreter: str
    libc: str
    wheels: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())  # roots that were not usable, packages that were already imported


def package_origin() -> wheels.PackageOrigin:
    """The wheel, zip or folder that `spark_udfs` itself was imported from."""
    return PACKAGE_ORIGIN


def load() -> ModuleType:
    """Returns the module kafkarec; makes it importable first, if necessary. Raises BootstrapError."""
    activate()
    return importlib.import_module(PACKAGE)


def activate() -> Activation:
    """Makes `import kafkarec` work in this process; later calls return the same Activation. Raises BootstrapError."""
    global _activation
    with _lock:
        if _activation is None:
            _activation = _activate()
        return _activation


def _activate() -> Activation:
    python = tags.this_interpreter()
    manifest = wheels.load_manifest(PACKAGE_ORIGIN)
    loaded = sys.modules.get(PACKAGE)
    if loaded is not None:
        _same_version(loaded, manifest)
    notes: list[str] = []
    if loaded is not None or manifest is None or _installed_version() == manifest["version"]:
        try:
            if loaded is None and manifest is not None:
                _require_libraries(manifest)
            return _describe(_import(), "installed" if loaded is None else "imported before", python)
        except ImportError as error:
            if manifest is None:
                raise BootstrapError(_without_wheels(error)) from None
            notes.append(f"the installed kafkarec {manifest['version']} cannot be imported: {error}")
            _forget_package()
    return _activate_unpacked(manifest, python, notes)


def _require_libraries(manifest: dict[str, Any]) -> None:
    """ImportError if a library is missing that the wheels contain: kafkarec can be imported without it (a checkout in a
    worker that has only pyspark), but cannot read each codec."""
    for project in manifest["requires"]:
        for module in manifest["modules"].get(project, ()):
            if importlib.util.find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}")


def _import() -> ModuleType:
    package = importlib.import_module(PACKAGE)
    getattr(package, "decode", None)  # imports the compiled modules and the codecs, which the package alone does not
    return package


def _without_wheels(error: ImportError) -> str:
    location = PACKAGE_ORIGIN.location
    if os.path.exists(os.path.join(location, "setup.py")):
        return (
            f"this is spark_udfs' source folder, not compiled and without wheels: run `make wheelhouse` in {location}, "
            f"or start Python elsewhere ({error})"
        )
    return (
        f"spark_udfs at {location} contains no wheels, and kafkarec is not installed here ({error}). Use the wheel "
        f"that `make wheelhouse` builds in kafkarec's checkout, or install kafkarec"
    )


def _activate_unpacked(manifest: dict[str, Any], python: tags.Interpreter, notes: list[str]) -> Activation:
    chosen = wheels.choose(manifest, python)
    notes += _check_loaded_dependencies(manifest, chosen)
    key = cache.cache_key(chosen, python.name, python.libc)
    folder, refused = cache.provide(
        key, lambda: (wheels.members(wheels.fetch(PACKAGE_ORIGIN, wheel), wheel.file) for wheel in chosen)
    )
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        package = _import()
    except ImportError as error:
        sys.path.remove(folder)
        _forget_package()
        raise BootstrapError(f"kafkarec was unpacked to {folder} but cannot be imported: {error}") from None
    _same_version(package, manifest)
    return _describe(package, "unpacked", python, tuple(notes + refused), tuple(wheel.file for wheel in chosen))


def _describe(
    package: ModuleType,
    source: str,
    python: tags.Interpreter,
    notes: tuple[str, ...] = (),
    files: tuple[str, ...] = (),
) -> Activation:
    path = os.path.dirname(os.path.dirname(os.path.abspath(package.__file__ or "")))
    return Activation(str(package.__version__), source, path, python.name, python.libc, files, notes)


def _same_version(package: ModuleType, manifest: dict[str, Any] | None) -> None:
    if manifest is not None and package.__version__ != manifest["version"]:
        raise BootstrapError(
            f"kafkarec {package.__version__} is loaded already from {package.__file__}, and spark_udfs at "
            f"{PACKAGE_ORIGIN.location} needs {manifest['version']}. A Python process can import only one of them: use "
            f"one version in the application, or set spark.python.worker.reuse=false"
        )


def _installed_version() -> str | None:
    """The version of a kafkarec on sys.path, read from its _version.py without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.origin:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "_version.py"), encoding="utf-8") as file:
            match = re.search(r'__version__ = "([^"]+)"', file.read())
    except OSError:
        return None
    return match[1] if match else None


def _forget_package() -> None:
    for name in [each for each in sys.modules if each == PACKAGE or each.startswith(PACKAGE + ".")]:
        del sys.modules[name]


def _check_loaded_dependencies(manifest: dict[str, Any], chosen: list[wheels.Wheel]) -> list[str]:
    """Notes on codec libraries that this process has already imported. BootstrapError if one of them is too old."""
    notes = []
    for wheel in chosen:
        for module in manifest["modules"].get(wheel.project, ()):
            if wheel.project == PACKAGE or module not in sys.modules:
                continue
            loaded = _loaded_version(wheel.project, sys.modules[module])
            least = manifest["requires"].get(wheel.project, "0")
            if loaded is None or _release(loaded) < _release(least):
                raise BootstrapError(
                    f"{wheel.project} {loaded or 'of unknown version'} is loaded already from "
                    f"{sys.modules[module].__file__}; kafkarec {manifest['version']} needs {least} or later "
                    f"(spark_udfs contains {wheel.version}). Two versions of it cannot be in one process"
                )
            notes.append(f"{wheel.project} {loaded} was imported before and stays")
    return notes


def _loaded_version(project: str, module: ModuleType) -> str | None:
    version = getattr(module, "__version__", None)
    if isinstance(version, str):
        return version
    parent = os.path.dirname(os.path.dirname(os.path.abspath(module.__file__ or "")))
    for distribution in importlib.metadata.distributions(name=project, path=[parent]):
        return distribution.version
    return None


def _release(version: str) -> tuple[int, ...]:
    """The release part of a version, 2.9.post0 -> (2, 9); the lower bounds in the manifest have no other part."""
    return tuple(int(part) for part in re.findall(r"\d+", re.match(r"[\d.]*", version)[0]))  # type: ignore[index]
