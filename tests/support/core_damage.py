"""Reads bytes over damage: offsets and damage as plain lists."""

from __future__ import annotations

from typing import Any

import builders
from core_reading import sound_rows

import kafkarec
from kafkarec._core import Source
from kafkarec.read.decode_options import request
from kafkarec.read.passes import as_columns, read_part


def good(offset: int, count: int = 4, **fields: Any) -> bytes:
    return builders.good_batch(count, base_offset=offset, **fields)


def read(
    data: bytes, *, skip: bool = True, file: str | None = None, later_segment: bool = False
) -> kafkarec.RecordColumns:
    asked = request(errors="skip" if skip else "raise", control=True, _file=file, _later_segment=later_segment)
    return as_columns(asked, read_part(asked, Source(data)))


def offsets(columns: Any) -> list[int]:
    return [row["offset"] for row in sound_rows(columns)]


def damaged(columns: Any) -> list[tuple[int, int, str]]:
    return [(damage.position, damage.length, damage.reason) for damage in columns.damage]
