"""`meta.properties`: ids of the cluster, node and data folder (Kafka: MetaProperties, KIP-631, KIP-858).

    #
    #Sat Nov 21 04:00:00 UTC 2026
    cluster.id=Y7nKKCKxTaSyvLPmUGYJpQ
    directory.id=gXa8ENUVWplkTL1NRuyDTA     from Kafka 3.7 on
    node.id=1                               version 1 (KRaft); broker.id in version 0 (ZooKeeper)
    version=1

A file of java.util.Properties: comments, `=` or `:` or a blank between name and value, escapes with backslashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafkarec.format.uuids import uuid_bytes, uuid_text

from .parsing import refuse

NAME = "meta.properties"
_VERSIONS = {0: "broker.id", 1: "node.id"}
_ENTRY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_TRIMMED = "".join(map(chr, range(33)))  # by Java's String.trim
_ESCAPED_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class MetaProperties(NamedTuple):
    """version: 0 or 1; node_id: broker.id in version 0; others: the properties that Kafka 4.4 does not define."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None
    others: dict[str, str]


def _unescaped(text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED_CHARACTERS.get(code, code)

    return _ESCAPE.sub(character, text)


def properties(data: bytes) -> dict[str, str]:
    """Name -> value as java.util.Properties.load reads bytes (ISO 8859-1), which accepts any bytes."""
    values = {}
    for line in _logical_lines(data):
        entry = _ENTRY.fullmatch(line)
        if entry:
            values[_unescaped(entry[1])] = _unescaped(entry[2])
    return values


def _logical_lines(data: bytes) -> Iterator[str]:
    """Lines without comments and leading blanks; a line that ends in an odd number of backslashes is joined with the
    next."""
    logical, continues = "", False
    for natural in re.split(r"\r\n?|\n", data.decode("latin-1")):
        line = natural.lstrip(" \t\f")
        if not continues and line[:1] in ("", "#", "!"):
            continue
        logical += line
        continues = (len(logical) - len(logical.rstrip("\\"))) % 2 == 1
        if continues:
            logical = logical[:-1]
            continue
        if logical:
            yield logical
        logical = ""
    if logical or continues:
        yield logical


def read(data: bytes, file: str | None = NAME) -> MetaProperties:
    """Parses the file's bytes; CorruptRecordError (metadata_invalid) if Kafka 4.4 would not start with it."""
    if any("u" in _ESCAPE.findall(line) for line in _logical_lines(data)):
        refuse("metadata_invalid", "a \\u is not followed by four hexadecimal digits", file=file)
    known = properties(data)
    known["version"] = known.get("version", "0").strip(_TRIMMED)
    version = _integer(known, "version", file) or 0
    if version not in _VERSIONS:
        refuse("metadata_invalid", f"version {version} is neither 0 nor 1", file=file)
    node = _VERSIONS[version]
    node_id, directory = _integer(known, node, file), uuid_bytes(known.get("directory.id", ""))
    if directory is None and "directory.id" in known:
        refuse("metadata_invalid", "directory.id is not 16 bytes in base64", file=file)
    meta = MetaProperties(
        version,
        known.get("cluster.id"),
        node_id,
        uuid_text(directory) if directory else None,
        {name: v for name, v in known.items() if name not in ("version", "cluster.id", "directory.id", node)},
    )
    missing = [name for name, value in (("cluster.id", meta.cluster_id), (node, meta.node_id)) if value is None]
    if version and missing:
        refuse("metadata_invalid", f"{' and '.join(missing)} missing", file=file)
    return meta


def _integer(known: dict[str, str], name: str, file: str | None) -> int | None:
    value = known.get(name)
    if value is None:
        return None
    if not re.fullmatch(r"[+-]?\d{1,10}", value) or not -(2**31) <= int(value) < 2**31:
        refuse("metadata_invalid", f"{name} is no number", file=file)
    return int(value)
