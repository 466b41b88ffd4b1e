"""kafkarec reads the records that Kafka's MemoryRecords and streamingIterator read, and refuses what they refuse
(P7)."""

import builders
import jvm_oracle
from jvm_reading import read
from random_logs import Maker


def test_random_batches_are_read_as_by_kafka(kafka, tmp_path):
    file = tmp_path / "batches"
    refused = 0
    total = jvm_oracle.count(1000)
    for seed in range(total):
        maker = Maker(seed)
        data = maker.log()
        file.write_bytes(data)
        answer = kafka.ask("read", file).out.strip()
        if answer.startswith("refused"):
            answer = "refused"
            refused += 1
        assert read(data) == answer, f"seed {seed}"
    assert 0.2 < refused / total < 0.9, "nearly all logs were refused, or nearly none"


def test_lz4_blocks_without_content_end_the_records_as_for_kafka(kafka, tmp_path):
    """Of records below 2 KiB: within larger ones Kafka's stream reads on."""
    file, refused = tmp_path / "batch", set()
    inner = b"".join(builders.message(magic=1, offset=i, value=b"value %d" % i) for i in range(3))
    for magic, content in ((2, b"".join(builders.records(3))), (1, inner)):
        for at in range(len(content) + 1):
            begin, rest = builders.lz4_frame(content[:at])[:-4], builders.lz4_frame(content[at:])[7:]
            for payload in (begin + b"\x01\0\0\0\0" + rest, begin + b"\x01\0\0\0\0"):
                data = builders.wrapper(b"", codec="lz4", payload=payload, offset=2)
                if magic == 2:
                    data = builders.batch(codec="lz4", payload=payload, count=3, last_offset_delta=2)
                file.write_bytes(data)
                answer = kafka.ask("read", file).out.strip()
                refused.add(answer.startswith("refused"))
                assert read(data) == ("refused" if answer.startswith("refused") else answer), (magic, at)
    assert refused == {True, False}
