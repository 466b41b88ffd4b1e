"""Index files with entries of fixed size: a sequence over the file's bytes that creates entries on access.

    entry 0 | entry 1 | ... | entry n-1 | zeros, preallocated while the segment is active

A broker maps `segment.index.bytes` (10 MiB) of zeros and writes entries over them; a clean close truncates the unused
part, which remains after a crash or in a copy from a running broker (Kafka: AbstractIndex). A full index has
1.3 million entries, whose objects would need a hundred times the file's size.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import and_
from struct import Struct, unpack_from
from typing import ClassVar, Generic, TypeVar, overload

from .parsing import demand_whole_entries

E = TypeVar("E")
_UNPACKED_TOGETHER = 1024  # entries
_ZEROS = bytes(1 << 16)


def size_before_zeros(data: bytes) -> int:
    """The number of bytes before the zeros at the end, by blocks: `rstrip` alone looks at each byte of 10 MiB."""
    end = len(data)
    while data.endswith(_ZEROS, 0, end):
        end -= len(_ZEROS)
    return len(data[:end].rstrip(b"\0"))


class Entries(Sequence[E], Generic[E]):
    """The entries of one index file, numbered from 0. Two are equal if their entries are.

    data           the file's bytes
    base_offset    the segment's, from the file's name: entries store offsets relative to it
    file           its name, for messages
    .preallocated  bytes of zeros after the last entry

    CorruptRecordError (index_invalid) when the bytes are not whole entries.
    """

    __slots__ = ("_count", "_data", "base_offset", "preallocated")
    layout: ClassVar[Struct]
    rises: ClassVar[tuple[Callable[[int, int], bool], Callable[[int, int], bool]]]
    """How each of the two fields of an entry compares with that of the entry before."""

    def __init__(self, data: bytes, base_offset: int, file: str | None = None) -> None:
        size = self.layout.size
        demand_whole_entries(data, size, file)
        self._data = data
        self.base_offset = base_offset
        self._count = self._used_count(data)
        self.preallocated = len(data) - self._count * size

    @classmethod
    def _used_count(cls, data: bytes) -> int:
        """The number of entries before the zeros at the file's end."""
        return -(-size_before_zeros(data) // cls.layout.size)

    @abstractmethod
    def _entry_at(self, index: int) -> E: ...

    def columns(self) -> tuple[array[int], array[int]]:
        """The two fields of all entries as they are stored, offsets relative, each as an array of int64: what checks
        whole indexes, since an entry as an object takes twenty times as long."""
        columns = array("q"), array("q")
        for start in range(0, self._count, _UNPACKED_TOGETHER):
            count = min(_UNPACKED_TOGETHER, self._count - start)
            values = unpack_from(">" + self.layout.format[1:] * count, self._data, start * self.layout.size)
            for field, column in enumerate(columns):
                column.extend(values[field::2])
        return columns

    def falls(self, columns: tuple[array[int], array[int]]) -> Iterator[int]:
        """The numbers of the entries that do not follow the entry before: an index rises in both fields. columns: its
        own."""
        both = zip(self.rises, columns, strict=True)
        follow = map(and_, *(map(rises, islice(column, 1, None), column) for rises, column in both))
        return (number for number, follows in enumerate(follow, 1) if not follows)

    @property
    def rising(self) -> int:
        """The number of entries from the start that rise. A broker that truncates its log writes new entries over old
        ones, and leaves the rest of these behind (AbstractIndex.truncateToEntries)."""
        return next(self.falls(self.columns()), len(self))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> E: ...
    @overload
    def __getitem__(self, number: slice) -> list[E]: ...
    def __getitem__(self, number: int | slice) -> E | list[E]:
        if isinstance(number, slice):
            return [self._entry_at(i) for i in range(*number.indices(self._count))]
        index = number + self._count if number < 0 else number
        if not 0 <= index < self._count:
            raise IndexError(f"entry {number} of {self._count}")
        return self._entry_at(index)

    def __iter__(self) -> Iterator[E]:
        return map(self._entry_at, range(self._count))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # compared by content, as a list

    @property
    def used(self) -> bytes:
        """The bytes of the entries without the zeros after them, as in a cleanly closed file."""
        return self._data[: self._count * self.layout.size]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._count} entries, {self.preallocated} bytes preallocated>"
