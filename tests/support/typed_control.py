"""Typed control records, for RecordBatchBuilder.append_control."""

from __future__ import annotations

from kafkarec import ControlRecordType
from kafkarec.format.control import CLASSES, ControlRecord


def control(kind: str, *fields) -> ControlRecord:
    """The control record of a type, in version 0, with these fields."""
    member = ControlRecordType[kind]
    return CLASSES[member](member, member, 0, *fields)
