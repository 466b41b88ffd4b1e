"""The inputs of the fence: healthy folders of tests/vectors, damaged copies of them, and harvested folders.

Nothing here asks the product: a copy is damaged by what Kafka's format says of its bytes.
"""

from __future__ import annotations

import io
import lzma
import shutil
import struct
import tarfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import builders
import golden
import plain_logs
from paths import TESTS, VECTORS

HARVESTED = TESTS / "fence" / "folders.tar.xz"
Damage = Callable[[Path], None]


@cache
def healthy() -> dict[str, Path]:
    """Name -> partition folder, of all folders that Kafka wrote."""
    groups = (VECTORS / group for group in ("segments", "transactions", "indexes"))
    folders = (path for group in groups for path in sorted(group.iterdir()))
    return {path.name: path for path in folders if path.is_dir() and list(path.glob("*.log"))}


def put(name: str, to: Path | None = None) -> Path:
    """A copy of a healthy folder in the working directory, without what is written about it."""
    return golden.copied(healthy()[name], to or Path(name))


@cache
def harvested() -> dict[str, list[tuple[str, bytes]]]:
    """Id -> the files of each folder that tests of 0.2.0 built (tests/fence/README.md)."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(HARVESTED.read_bytes()))) as archive:
        for member in archive:
            top, _, name = member.name.partition("/")
            if name and member.isfile():
                file = archive.extractfile(member)
                found.setdefault(top, []).append((name, file.read()))
            elif name:
                found.setdefault(top, []).append((f"{name}/", b""))
    return found


def put_harvested(name: str) -> Path:
    """The folder in the working directory; returns the partition's folder, or `.` for loose files."""
    for relative, data in harvested()[name]:
        path = Path(relative)
        if relative.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return next(iter(sorted(path for path in Path().iterdir() if path.is_dir())), Path())


def borders(data: bytes) -> list[int]:
    """The position of each batch: 12 bytes of offset and size, then as many as the size says."""
    found, at = [], 0
    while at + 12 <= len(data):
        found.append(at)
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    return found


def edit(path: Path, change: Callable[[bytes], bytes]):
    path.write_bytes(change(path.read_bytes()))


def flip(at: int, bit: int) -> Callable[[bytes], bytes]:
    return lambda data: builders.flipped(data, at, 1 << bit) if at < len(data) else data


def zeros(at: int, count: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes(len(data[at : at + count])) + data[at + count :]


# What is flipped in a batch: name -> byte, bit. Bytes 0 to 16 are covered by no checksum (magic 2).
FIELDS = {
    "base": (6, 0), "base-far": (2, 4), "length": (11, 3), "length-big": (8, 2), "epoch": (15, 1), "magic": (16, 2),
    "crc": (18, 1), "attributes": (22, 0), "producer": (50, 3), "count": (60, 1), "body": (66, 0),
}  # fmt: skip


def damages(name: str) -> dict[str, Damage]:
    """Name -> what spoils a copy of this healthy folder."""
    source = healthy()[name]
    logs = [path for path in sorted(source.glob("*.log")) if path.stat().st_size]
    found = {}
    for which, path in {"first": logs[0], "last": logs[-1]}.items():
        if which == "last" and len(logs) == 1:
            break
        found |= {f"{which}-{label}": damage for label, damage in _of_log(path).items()}
    for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
        for path in sorted(source.glob(f"*{suffix}"))[-1:]:
            found |= {f"{suffix[1:]}-{label}": damage for label, damage in _of_side_file(path).items()}
    if (source / "leader-epoch-checkpoint").exists():
        found |= {f"epochs-{label}": _text("leader-epoch-checkpoint", text) for label, text in _EPOCHS.items()}
    return found | _of_data_folder(logs[-1])


def _of_log(path: Path) -> Iterator[tuple[str, Damage]] | dict[str, Damage]:
    data = path.read_bytes()
    starts = borders(data)
    chosen = len(starts) // 2
    at, behind = starts[chosen], [*starts, len(data)][chosen + 1]

    def on(change):
        return lambda folder: edit(folder / path.name, change)

    def renamed(suffix):
        return lambda folder: (folder / path.name).rename(folder / (path.name + suffix)) and None

    return {
        **{field: on(flip(at + byte, bit)) for field, (byte, bit) in FIELDS.items()},
        "zero": on(zeros(at + 5, 512)),
        "hole": on(lambda d: d[:at] + d[behind:]),
        "garbage": on(lambda d: d[:at] + b"\xff" * 100 + d[at:]),
        "twice": on(lambda d: d[:behind] + d[at:]),
        "cut": on(lambda d: d[:at]),
        "cut-inside": on(lambda d: d[: max(behind - 20, 1)]),
        "zeros-behind": on(lambda d: d + bytes(4096)),
        "empty": on(lambda d: b""),
        "all-zero": on(lambda d: bytes(len(d))),
        "gone": lambda folder: (folder / path.name).unlink(),
        "swap": renamed(".swap"),
        "deleted": renamed(".deleted"),
        "cleaned-too": lambda folder: shutil.copy(folder / path.name, folder / f"{path.name}.cleaned") and None,
        "first-batch": on(flip(18, 1)),
        "last-batch": on(flip(starts[-1] + 18, 1)),
        "first-base": on(flip(3, 1)),
        "last-base": on(flip(starts[-1] + 6, 0)),
        "last-length": on(flip(starts[-1] + 11, 2)),
        "two": on(lambda d: flip(18, 1)(flip(at + 18, 1)(d))),
    }


def _of_side_file(path: Path) -> dict[str, Damage]:
    size = path.stat().st_size

    def on(change):
        return lambda folder: edit(folder / path.name, change)

    found = {"gone": lambda folder: (folder / path.name).unlink()}
    if size:
        found |= {f"flip{at}": on(flip(at, 2)) for at in (0, 3, size // 2, size - 1)}
        found |= {"cut": on(lambda d: d[:-3]), "zero": on(lambda d: bytes(len(d))), "twice": on(lambda d: d + d)}
    return found


_EPOCHS = {"bad": "0\n2\n1 0\n0 9\n", "short": "0\n5\n0 0\n", "high": "0\n2\n0 0\n99 100000\n"}


def _text(name: str, text: str) -> Damage:
    return lambda folder: (folder / name).write_text(text) and None


def data_folder(*folders: Path, **checkpoints: int):
    """Makes the working directory a broker's data folder: recovery_point=7 writes recovery-point-offset-checkpoint."""
    Path("meta.properties").write_text("version=1\nnode.id=1\ncluster.id=pmqbwj8JRCSCfzvNTqatEw\n")
    for name, offset in checkpoints.items():
        lines = (f"{topic} {number} {offset}" for topic, _, number in (one.name.rpartition("-") for one in folders))
        plain_logs.add_checkpoint(Path(), *lines, name=name.replace("_", "-"))


def _of_data_folder(last: Path) -> dict[str, Damage]:
    def cleaned(folder):
        data_folder(folder, cleaner=20)
        edit(folder / last.name, lambda d: d[: len(d) // 2])

    return {
        "recovery-point-high": lambda folder: data_folder(folder, recovery_point=100_000),
        "high-watermark-high": lambda folder: data_folder(folder, replication=100_000),
        "log-start-inside": lambda folder: data_folder(folder, log_start=50),
        "log-start-above": lambda folder: data_folder(folder, log_start=100_000),
        "cleaned": cleaned,
    }
