"""Reads damaged bytes by the internal decode functions; offsets and damage as plain lists."""

from __future__ import annotations

from typing import Any

import builders
from core_reading import checked_rows

import kafkarec
from kafkarec._core import Source
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_part


def good(offset: int, count: int = 4, **fields: Any) -> bytes:
    return builders.good_batch(count, base_offset=offset, **fields)


def read(
    data: bytes, *, skip: bool = True, file: str | None = None, later_segment: bool = False, restore: bool = False
) -> kafkarec.RecordColumns:
    decode_options = request(errors="skip" if skip else "raise", control=True, restore=restore)
    decode_options = decode_options._replace(named={"file": file, "later_segment": later_segment})
    return as_columns(decode_options, read_part(decode_options, Source(data)))


def offsets(columns: Any) -> list[int]:
    return [row["offset"] for row in checked_rows(columns)]


def damaged(columns: Any) -> list[tuple[int, int, str]]:
    return [(damage.position, damage.length, damage.reason) for damage in columns.damage]
