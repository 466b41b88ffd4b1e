"""Functions of bytes take any buffer of bytes in a row, without a copy, and refuse what else is passed alike."""

import mmap

import numpy as np
import pytest
from plain_logs import batch

import kafkarec
from kafkarec.ops.explain import explain

pytestmark = [pytest.mark.core, pytest.mark.python]

DATA = batch(0, 3)


def appended(data, folder):
    with kafkarec.SegmentWriter(folder / "log-0") as writer:
        writer.append(data)
    return list(kafkarec.open(folder / "log-0").read())


READERS = {
    "decode": lambda data, _: list(kafkarec.decode(data)),
    "views": lambda data, _: list(kafkarec.decode(data, layout="view")),
    "read_committed": lambda data, _: list(kafkarec.decode(data, isolation="read_committed")),
    "stream": lambda data, _: [list(piece) for piece in kafkarec.stream(data)],
    "scan": lambda data, _: list(kafkarec.scan(data)),
    "batches": lambda data, _: [list(batch) for batch in kafkarec.batches(data)],
    "decode_each": lambda data, _: [list(lists.records) for lists in kafkarec.decode_each([data])],
    "validate": lambda data, _: bytes(kafkarec.validate(data)),
    "convert": lambda data, _: bytes(kafkarec.convert(data, compression="gzip")),
    "explain": lambda data, _: str(explain(data)),
    "SegmentWriter": appended,
}


@pytest.mark.parametrize("reader", READERS)
def test_any_buffer_is_read(reader, tmp_path):
    wanted = READERS[reader](DATA, tmp_path / "bytes")
    two_dimensions, signed = np.frombuffer(DATA, np.uint8).reshape(1, -1), memoryview(DATA).cast("b")
    assert READERS[reader](two_dimensions, tmp_path / "NumPy") == wanted
    assert READERS[reader](signed, tmp_path / "signed") == wanted


@pytest.mark.parametrize("wrong", [memoryview(DATA)[::2], np.frombuffer(DATA, np.uint8)[::-1], 5, "text"])
def test_what_is_no_row_of_bytes_is_refused_alike(wrong, tmp_path):
    with pytest.raises((BufferError, TypeError, ValueError)) as of_decode:
        kafkarec.decode(wrong)
    for reader in READERS.values():
        with pytest.raises(of_decode.type):
            reader(wrong, tmp_path)


def test_a_memory_map_is_a_file_that_can_be_opened():
    with mmap.mmap(-1, len(DATA)) as mapped:
        mapped[:] = DATA
        assert list(kafkarec.open(mapped).read()) == list(kafkarec.decode(DATA))
