"""Removes symbols and debugging information from the compiled modules in a wheel: most of its bytes.

    ELF header | program headers | what they load | symbols, debugging information | section headers
    kept       | kept            | kept           | removed                       | of what is loaded

As `strip --strip-all` does, for each machine's ELF files (64 bits, little-endian), so that no toolchain of that machine
is needed. What is loaded stays at its place in the file: bytes between loaded parts become zeros.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01"
# Of the ELF header: e_phoff, e_shoff; e_phentsize, e_phnum, e_shentsize, e_shnum, e_shstrndx (System V ABI, elf(5)).
_OFFSETS, _OFFSETS_AT = struct.Struct("<QQ"), 32
_COUNTS, _COUNTS_AT = struct.Struct("<HHHHH"), 54
_HEADER_SIZE = 64
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOBITS, _ALLOC = 8, 2


class Section(NamedTuple):
    """An entry of the section header table."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


_SECTION = struct.Struct("<IIQQQQIIQQ")


def sections(elf: bytes) -> list[tuple[str, Section]]:
    """(name, entry) of each section."""
    _, table = _OFFSETS.unpack_from(elf, _OFFSETS_AT)
    _, _, _, count, names_at = _COUNTS.unpack_from(elf, _COUNTS_AT)
    found = [Section(*_SECTION.unpack_from(elf, table + n * _SECTION.size)) for n in range(count)]
    if not found:
        return []
    names = found[names_at]
    texts = elf[names.offset : names.offset + names.size]
    return [(texts[one.name : texts.index(b"\0", one.name)].decode(), one) for one in found]


def loaded(elf: bytes) -> list[tuple[int, int]]:
    """(first, end) of the bytes that running it needs: headers, and what the program headers name."""
    table, _ = _OFFSETS.unpack_from(elf, _OFFSETS_AT)
    size, count, *_ = _COUNTS.unpack_from(elf, _COUNTS_AT)
    ranges = [(0, _HEADER_SIZE), (table, table + size * count)]
    for n in range(count):
        _, _, offset, _, _, length, _, _ = _SEGMENT.unpack_from(elf, table + n * size)
        ranges.append((offset, offset + length))
    return ranges


def stripped(elf: bytes) -> bytes:
    """The same module without what is not loaded; other files unchanged."""
    if not elf.startswith(MAGIC):
        return elf
    kept = [(n, name, one) for n, (name, one) in enumerate(sections(elf)) if not n or one.flags & _ALLOC]
    ranges = loaded(elf)
    ranges += [(one.offset, one.offset + one.size) for _, _, one in kept if one.type not in (0, _NOBITS)]
    result = bytearray(max(end for _, end in ranges))
    for first, end in ranges:
        result[first:end] = elf[first:end]
    numbers = {old: new for new, (old, _, _) in enumerate(kept)}
    names, entries = b"\0", []
    for _, name, one in kept:
        entries.append(one._replace(name=len(names) if name else 0, link=numbers.get(one.link, 0)))
        names += name.encode() + b"\0" if name else b""
    own = b".shstrtab\0"
    entries.append(Section(len(names), 3, 0, 0, len(result), len(names + own), 0, 0, 1, 0))
    result += names + own
    result += bytes(-len(result) % 8)
    table, count = (len(result), len(entries)) if kept else (0, 0)
    for entry in entries:
        result += _SECTION.pack(*entry)
    _OFFSETS.pack_into(result, _OFFSETS_AT, _OFFSETS.unpack_from(elf, _OFFSETS_AT)[0], table)
    sizes = _COUNTS.unpack_from(elf, _COUNTS_AT)[:3]
    _COUNTS.pack_into(result, _COUNTS_AT, *sizes, count, max(count - 1, 0))
    return bytes(result) if len(result) < len(elf) else elf
