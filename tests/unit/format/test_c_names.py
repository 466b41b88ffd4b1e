"""Names and numbers that Python and C both have: the members of C enums, as they stand in the .pxd files."""

import ast
import re

import pytest
from paths import ROOT

from kafkarec import codecs, errors
from kafkarec.format import enums, layout, schema
from kafkarec.ops.validate import rules
from kafkarec.read import decode_options
from kafkarec.write import encoding


def members(file, first):
    """Return the members of the enum that begins with `first`, with their values."""
    text = (ROOT / "kafkarec" / "_c" / file).read_text()
    [body] = re.findall(rf"^cdef enum[^\n]*:[^\n]*\n(    {first}\b.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    found = {}
    for line in body.splitlines():
        name, _, value = line.partition("#")[0].partition("=")
        if name.strip():
            # such as 64 << 10; without a value the member follows the one before it
            found[name.strip()] = eval(value, {}) if value else max(found.values(), default=-1) + 1
    return found


def test_each_status_that_refuses_has_the_word_of_its_name():
    statuses = list(members("status.pxd", "OK"))
    refusals = statuses[statuses.index("SIZE_TOO_SMALL") :]
    table = (ROOT / "kafkarec" / "_entry" / "calls.pxd").read_text()
    last = re.findall(r'"(\w+)"[,\]]', table[table.index("words += [") :].partition("\n")[0])
    count = refusals.index("LEADER_EPOCH_DIFFERS")
    assert [*errors.REASONS][:count] + last == [name.lower() for name in refusals]
    assert {name.lower() for name in refusals} <= errors.REASONS.keys()
    assert members("status.pxd", "OK")["OK"] == 0


def test_codes_of_columns_are_those_of_the_schema_in_the_same_order():
    codes = members("output_columns.pxd", "OUT_OFFSET")
    assert {name.removeprefix("OUT_").lower(): value for name, value in codes.items()} == schema.CODES


def test_messages_for_refused_records_are_in_the_order_of_the_row_faults():
    faults = members("write.pxd", "FINE")
    assert [name.lower() for name in faults] == list(encoding.FAULT_MESSAGES)
    assert list(faults.values()) == list(range(len(faults)))


def test_each_fault_of_a_produced_record_has_its_message():
    faults = list(members("record_summary.pxd", "FINE"))
    assert faults == ["FINE", "OTHER_MAGIC", "NO_KEY", "OUT_OF_RANGE", "APPEND_TIME"]
    assert [bool(text) for text in rules.REFUSALS] == [fault != "FINE" for fault in faults]


def test_codecs_have_the_ids_and_names_of_the_engine():
    text = (ROOT / "kafkarec" / "_c" / "batch.pxd").read_text()
    [listed] = re.findall(r"const char\*\* names = (\[.*\])", text)
    names = [name.decode() for name in ast.literal_eval(listed)]
    assert names == [codec.name for codec in codecs.CODECS]
    assert names == [member.name.lower() for member in enums.Compression]
    assert [codec.id for codec in codecs.CODECS] == list(enums.Compression) == list(range(len(names)))
    expected = [*(member.name for member in enums.Compression), "CODEC_COUNT"]
    assert members("batch.pxd", "NONE") == {name: number for number, name in enumerate(expected)}
    assert len(names) - 1 == layout.LATEST_CODEC


@pytest.mark.parametrize(
    "module, file, first",
    [
        (decode_options, "decode.pxd", "NO_PAYLOADS"),
        (decode_options, "decode.pxd", "NO_CHECKS"),
        (layout, "batch.pxd", "CODEC_MASK"),
    ],
)
def test_constants_have_the_values_of_the_engine(module, file, first):
    expected = members(file, first)
    assert {name: getattr(module, name) for name in expected} == expected


def test_sizes_of_a_batch_have_the_values_of_the_engine():
    sizes = members("batch.pxd", "LOG_OVERHEAD")
    assert sizes == {
        "LOG_OVERHEAD": layout.LOG_OVERHEAD,
        "MAGIC_OFFSET": layout.V2_AT.magic,
        "UP_TO_MAGIC": layout.UP_TO_MAGIC,
        "V2_ATTRIBUTES_OFFSET": layout.V2_AT.attributes,
        "V2_OVERHEAD": layout.V2_OVERHEAD,
        "V0_OVERHEAD": layout.MESSAGE_OVERHEAD[0],
        "V1_OVERHEAD": layout.MESSAGE_OVERHEAD[1],
        "LATEST_MAGIC": layout.LATEST_MAGIC,
        "BATCH_MAGIC": layout.BATCH_MAGIC,
    }
