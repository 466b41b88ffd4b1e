"""The rooms of the package and who imports whom, read from the sources."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import doc_api
from pictures_style import card, text

ROOT = Path(__file__).resolve().parent.parent


class Room(NamedTuple):
    """Where it is drawn (row, column), what is written under its name, its files besides the folder of its name."""

    row: float
    column: float
    does: str
    files: tuple[str, ...] = ()


# Places are by hand, arrows are not: whoever imports what stands above it draws an arrow upwards.
ROOMS = {
    "spark_udfs": Room(0, 0, "Spark functions; wheels for executors"),
    "cli": Room(0, 2.5, "the verbs"),
    "appending": Room(1, 1, "folders that a broker serves"),
    "compaction": Room(1, 2, "the log cleaner"),
    "studying": Room(1, 3, "what another codec would save"),
    "validation": Room(1, 4, "what a broker does to a request"),
    "conversion": Room(2, 0, "another magic, codec, size"),
    "dump": Room(2, 1, "kafka-dump-log's text"),
    "checks": Room(2, 2, "verify"),
    "rescue": Room(2, 3, "salvage"),
    "diff": Room(2, 4, "replicas compared", ("diff",)),
    "explain": Room(2, 5, "a batch byte by byte"),
    "messages": Room(3, 0, "internal topics"),
    "plaintext": Room(3, 1, "tables for eyes", ("plaintext",)),
    "storage": Room(3, 2, "files, folders, URLs", ("remote", "remotefaults", "durable")),
    "indexes.rebuild": Room(3, 3, "checked and made anew", ("producers", "lineage")),
    "reader": Room(4, 2, "decode, stream, scan", ("reader", "lists", "passes", "log", "memory")),
    "writing": Room(4, 4, "encode, the builder, stamps"),
    "transactions": Room(5, 2, "open, aborted, hidden"),
    "records": Room(6, 1.5, "what users hold", ("records", "request", "table", "interop", "control", "enums")),
    "indexes": Room(6, 3, "a log's small files"),
    "codecs": Room(6, 4.5, "compression libraries"),
    "_core": Room(7, 1.5, "the front desk: bytes in, columns out", ("_checksum",)),
    "_writer": Room(7, 3, "the other desks: batches out, requests weighed", ("_validator", "_offset_map")),
    "words": Room(8, 3, "errors, reasons, names of columns", ("errors", "faults", "schema", "_version")),
    "_entry": Room(8, 1.5, "between Python and C"),
    "_c": Room(9, 1.5, "the engine: C over C"),
}
# parts of a folder that are rooms of their own: they stand on another level than the rest
PARTS = {"indexes.rebuild": ("rebuild", "check", "walk", "interval", "finding")}
_W, _H, _GAP_X, _GAP_Y, _LEFT, _TOP = 156, 54, 22, 44, 24, 74


def _owner(path: Path) -> str | None:
    """The room of a file or a folder; None for the package's own names."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "spark_udfs":
        return "spark_udfs"
    if len(parts) < 2:
        return None
    name = parts[1].split(".")[0]
    part = parts[2].split(".")[0] if len(parts) > 2 else ""
    for room, prefixes in PARTS.items():
        if room.split(".")[0] == name and part.startswith(prefixes):
            return room
    if name in ROOMS:
        return name
    return next((room for room, told in ROOMS.items() if name in told.files), None)


def edges() -> dict[tuple[str, str], bool]:
    """(room, the room that it imports) -> whether the import runs when the module is imported."""
    found: dict[tuple[str, str], bool] = {}
    for path in sorted([*(ROOT / "kafkarec").rglob("*.p*"), *(ROOT / "spark_udfs").rglob("*.py")]):
        if path.suffix not in (".py", ".pyx", ".pxd") or path.name in ("__init__.py", "__main__.py"):
            continue  # these only pass names on
        room = _owner(path)
        for target, at_import in _targets(path):
            other = _owner(target)
            if room and other and room != other:
                found[room, other] = found.get((room, other), False) or at_import
    return found


def _targets(path: Path) -> Iterator[tuple[Path, bool]]:
    if path.suffix in (".pyx", ".pxd"):
        pattern = r"^([ ]*)from\s+(\.*)((?:kafkarec)?[\w.]*)\s+c?import"
        for indent, dots, module in re.findall(pattern, path.read_text(encoding="utf-8"), re.M):
            if dots or module.startswith("kafkarec"):
                yield _place(path, len(dots), module), not indent
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {id(node) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef) for node in ast.walk(outer)}
    typing = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.dump(outer.test)
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "kafkarec":
            yield _defining(ROOT / "kafkarec", node.attr), id(node) not in inside
        if not isinstance(node, ast.ImportFrom) or id(node) in typing:
            continue
        if not node.level and (node.module or "").split(".")[0] not in ("kafkarec", "spark_udfs"):
            continue
        place = _place(path, node.level, node.module or "")
        for alias in node.names:
            yield _defining(place, alias.name), id(node) not in inside


def _place(path: Path, level: int, module: str) -> Path:
    base = ROOT if not level else path.parent
    for _ in range(level - 1):
        base = base.parent
    return base.joinpath(*[part for part in module.split(".") if part])


def _defining(place: Path, name: str) -> Path:
    """`from package import X`: the module X, or the one in which X is defined."""
    if not place.is_dir():
        return place
    inner = place / name
    if inner.is_dir() or any(inner.with_suffix(suffix).is_file() for suffix in (".py", ".pyx")):
        return inner
    defined = doc_api.find(place / "__init__.py", name)
    return defined.path if defined else place


def _below(solid: dict[str, set[str]], room: str) -> set[str]:
    """Every room that a room imports, directly or through others."""
    found: set[str] = set()
    waiting = [room]
    while waiting:
        new = solid[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _reduced(solid: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without the arrows that follow from two others."""

    below = {room: _below(solid, room) for room in solid}
    return {room: {one for one in near if not any(one in below[two] for two in near)} for room, near in solid.items()}


def rooms() -> str:
    """Boxes in levels, arrows downwards: who imports whom."""
    found = edges()
    solid: dict[str, set[str]] = defaultdict(set, {room: set() for room in ROOMS})
    for (room, other), at_import in found.items():
        if at_import:
            solid[room].add(other)
    places = {
        name: (_LEFT + room.column * (_W + _GAP_X), _TOP + room.row * (_H + _GAP_Y)) for name, room in ROOMS.items()
    }
    width = max(x for x, _ in places.values()) + _W + _LEFT
    height = max(y for _, y in places.values()) + _H + 26
    drawn = []
    for room, others in _reduced(solid).items():
        drawn += [_arrow(places[room], places[other], "edge") for other in sorted(others)]
    lazy: dict[str, set[str]] = defaultdict(set, {room: set(solid[room]) for room in ROOMS})
    lazy["spark_udfs"] |= {other for room, other in found if room == "spark_udfs"}
    kept = _reduced(lazy)
    for (room, other), at_import in sorted(found.items()):
        if not at_import and (room != "spark_udfs" or other in kept[room]) and other not in _below(solid, room):
            drawn.append(_arrow(places[room], places[other], "edge lazy"))
    for room, (x, y) in places.items():
        drawn.append(f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{_W}" height="{_H}" rx="8"/>')
        drawn.append(text(round(x + _W / 2, 1), y + 22, room, "room"))
        does = ROOMS[room].does
        for at, line in enumerate(_two(does)):
            drawn.append(text(round(x + _W / 2, 1), y + (37 if len(_two(does)) == 2 else 40) + at * 12, line, "does"))
    note = "an arrow: imports; what follows from two arrows is left out; dashed: only when it is called"
    head = text(_LEFT, 32, "The rooms and their directions", "title") + text(_LEFT, 52, note, "soft")
    return card(width, height, "Rooms with directions", head + "".join(drawn))


def _two(words: str) -> list[str]:
    if len(words) <= 24:
        return [words]
    cut = words.rfind(" ", 0, 25)
    return [words[:cut], words[cut + 1 :]]


def _arrow(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    if start[1] < end[1]:
        x1, y1, x2, y2 = start[0] + _W / 2, start[1] + _H, end[0] + _W / 2, end[1]
        bend = (y2 - y1) / 2
    else:  # to a room beside or above: out at the top, in at the bottom
        x1, y1, x2, y2 = start[0] + _W / 2, start[1], end[0] + _W / 2, end[1] + _H
        bend = (y2 - y1) / 2
    tip = 7 if y2 > y1 else -7
    line = f"M {x1:.1f} {y1:.1f} C {x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2 - tip:.1f}"
    head = f"M {x2:.1f} {y2:.1f} l -4 {-tip} h 8 z"
    return f'<path class="{kind}" d="{line}"/><path class="tip" d="{head}"/>'
