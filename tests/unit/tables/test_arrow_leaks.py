"""10^5 exports leak no memory: released unread, read by pyarrow, or read through the C structs."""

from __future__ import annotations

import pytest
import subprocesses

SETUP = (
    subprocesses.PEAK
    + """
import builders, c_stream, gc, kafkarec, pyarrow as pa
columns = kafkarec.decode(builders.good_batch(50, codec="lz4"))
def used():
    gc.collect()
    return _status("VmRSS")
"""
)
EXPORTS = {
    "released without an import": ("columns.__arrow_c_stream__()", 100_000),
    "schemas released without an import": ("columns.__arrow_c_schema__()", 100_000),
    "read by pyarrow": ("pa.table(columns)", 10_000),
    "read by pyarrow through __arrow_c_stream__": ("pa.table(c_stream.StreamMethodOnly(columns))", 10_000),
    "read through the C structs": ("c_stream.stream_addresses(columns)", 5_000),
    "batch tables": ("columns.batches.__arrow_c_stream__()", 30_000),
    "decoded again": ("pa.table(kafkarec.decode(data))", 10_000),
    "refused": ("refused()", 30_000),
    "records": ("[r.value for r in columns]", 3_000),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_memory_stays_flat(name: str) -> None:
    """A leak of one page per hundred exports is detected; so is a struct of 100 bytes per export."""
    step, times = EXPORTS[name]
    code = (
        SETUP
        + f"""
data = builders.good_batch(50)
bad = data[:-1] + b"?"
def refused():
    try:
        kafkarec.decode(bad)
    except kafkarec.KafkaRecordError:
        pass
def loop(times):
    for _ in range(times):
        {step}
loop({times // 10})
before = used()
loop({times})
print(used() - before)
"""
    )
    grown = int(subprocesses.run(code))
    assert grown < times * 60 + (1 << 20), f"{grown} bytes in {times} exports"
