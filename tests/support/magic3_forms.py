"""The forms of magic 3, what they are written with, and comparisons that tests of all of them share."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import golden
import magic3_oracle
import oracle
import pytest
import reading
from core_reading import FIELDS, read_as

import kafkarec
from kafkarec.experimental import header_first, v3


class Form(NamedTuple):
    """A module, and the options of its `from_v2`."""

    module: Any
    options: dict[str, Any]

    @property
    def header_first(self) -> bool:
        return self.module is header_first

    def __str__(self) -> str:
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.module.__name__.rpartition('.')[2]} {options}".strip()

    def from_v2(self, data, **options) -> bytes:
        return self.module.from_v2(data, **{**self.options, **options})


FORMS = [
    Form(module, options)
    for module, choices in ((v3, [{}]), (header_first, [{"frames": 1}, {"frames": 2}]))
    for frames in choices
    for options in (frames, frames | {"keep_attributes": True})
]
each_form = pytest.mark.parametrize("form", FORMS, ids=str)


@cache
def real_batches() -> dict[str, bytes]:
    """The golden vectors and broker's files that hold whole batches of magic 2, without their cut tails."""
    found = {}
    for case in golden.vectors() + golden.segment_files():
        batches, remaining, error = oracle.frames(case.bytes)
        if batches and error is None and {batch.magic for batch in batches} == {2}:
            found[case.name] = case.bytes[: len(case.bytes) - remaining]
    return found


decode_v2 = partial(kafkarec.decode, columns=FIELDS, control=True)


def batch_fields(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns of a batch table that are the same in magic 2 and 3."""
    other = {"position", "batch_length", "size_in_bytes", "magic", "crc", "attributes"}
    return [{name: value for name, value in row.items() if name not in other} for row in rows]


def assert_agree(form: Form, data: bytes) -> oracle.Verdict:
    """Assert that `decode` and the oracle agree: the same verdict, the same records and batch columns."""
    verdict = magic3_oracle.decode(data, header_first=form.header_first)
    found = read_as(verdict, data, form.module.decode)
    if isinstance(found, kafkarec.KafkaRecordError):
        assert found.position is not None
    else:
        assert reading.arrow_rows(found.batches) == [batch.columns for batch in verdict.batches]
    return verdict


def converted_and_back(form: Form, data: bytes) -> tuple[bytes, kafkarec.RecordColumns, bytes]:
    """Return the batches in magic 3, what is read of them, and the batches made of these. Assert that all three have
    the same records and header fields, as `assert_agree` reads them."""
    made = form.from_v2(data)
    assert_agree(form, made)
    columns, back = form.module.decode(made, columns=FIELDS, control=True), form.module.to_v2(made)
    wanted, batches = reading.arrow_rows(decode_v2(data)), batch_fields(reading.arrow_rows(kafkarec.scan(data)))
    assert reading.arrow_rows(columns) == reading.arrow_rows(decode_v2(back)) == wanted
    assert batch_fields(reading.arrow_rows(columns.batches)) == batches
    assert batch_fields(reading.arrow_rows(kafkarec.scan(back))) == batches
    return made, columns, back
