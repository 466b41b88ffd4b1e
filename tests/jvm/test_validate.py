"""`validate` compared with Kafka's LogValidator: verdicts, bytes, results, statistics, errors of single records."""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import builders
import golden
import jvm_oracle
from builders import CODECS, NOW
from random_logs import Maker
from reading import uncompressed

import kafkarec
from kafkarec import codecs, validate

SMALL = [case for case in golden.vectors() if 0 < len(case.bytes) < 9000 and len(kafkarec.scan(case.bytes))]
NO_LIMIT = 2**63 - 1
# Kafka's exception -> kafkarec's reasons for the same
FAMILIES = {
    "UnsupportedForMessageFormatException": {"magic_unfit"},
    "RecordValidationException:InvalidTimestampException": {"timestamps_rejected"},
    "RecordValidationException:InvalidRecordException": {"records_rejected"},
}


@dataclass
class Request:
    """One request with the options of `validate`; `name` is for failure messages."""

    data: bytes
    options: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def words(self) -> list[str]:
        """Return the words for the oracle's verb "validate"."""
        options = self.options
        magic = options.get("magic")
        if magic is None:
            magic = self.data[16] if len(self.data) > 16 and self.data[16] < 3 else 2
        before, after = options.get("timestamp_before_max_ms"), options.get("timestamp_after_max_ms")
        kind = "CreateTime" if options.get("timestamp_type", "create_time") == "create_time" else "LogAppendTime"
        words = [
            self.data.hex(),
            options.get("first_offset", 0),
            magic,
            "-",
            options.get("compression") or "-",
            kind,
            NO_LIMIT if before is None else before,
            NO_LIMIT if after is None else after,
            str(options.get("compacted", False)).lower(),
            options.get("partition_leader_epoch", -1),
            options.get("origin", "client").upper(),
            options["now"],
            options.get("max_decompressed_message_bytes") or 2**31 - 9,
        ]
        return [str(word) for word in words]


@dataclass
class Answer:
    """Kafka's answer. `refusal`: the exception, None if the request is accepted."""

    refusal: str | None
    message: str
    record_errors: list[tuple[int, str]]
    data: bytes
    numbers: list[int]


def ask(kafka, requests: list[Request]) -> list[Answer]:
    """Return LogValidator's answers; 100 requests are sent at once."""
    answers = []
    for start in range(0, len(requests), 100):
        part = requests[start : start + 100]
        lines = kafka.ask("validate", *(word for one in part for word in one.words())).out.split("\n")
        assert len(lines) == 3 * len(part) + 1
        answers += [_answer(*lines[i : i + 3]) for i in range(0, len(lines) - 1, 3)]
    return answers


def _answer(first: str, second: str, third: str) -> Answer:
    word, *rest = first.split(" ")
    if word == "refused":
        pairs = [one.split(" ", 1) for one in third.split("\t") if one]
        return Answer(rest[0], second, [(int(index), text) for index, text in pairs], b"", [])
    numbers = [{"true": 1, "false": 0}.get(one) if one in ("true", "false") else int(one) for one in rest]
    return Answer(None, "", [], bytes.fromhex(second), numbers)


def compare(request: Request, kafkas: Answer) -> str:
    """Assert that `validate` and Kafka agree; return a word for the outcome."""
    try:
        ours = validate(request.data, check_crcs=False, **request.options)
    except kafkarec.KafkaRecordError as refusal:
        if refusal.reason == "limit_exceeded":
            return "limit_exceeded"  # Kafka allocates the claimed size, and drops the message as cut off
        assert kafkas.refusal is not None, f"Kafka takes it: {refusal}"
        _same_refusal(refusal, kafkas)
        return str(refusal.reason)
    assert kafkas.refusal is None, f"{kafkas.refusal}: {kafkas.message}"
    if ours.size_changed and not _utf8(request.data):
        # Kafka puts U+FFFD into header keys
        assert _rows(ours) == _rows(kafkas.data)
        return "header keys"
    assert kafkas.numbers == [
        ours.log_append_time,
        ours.max_timestamp,
        ours.size_changed,
        ours.stats.records_converted,
        ours.next_offset,
    ]
    if ours.size_changed:
        assert uncompressed(ours) == uncompressed(kafkas.data)
        return "written anew"
    assert ours == kafkas.data[: len(ours)]
    assert request.data[len(ours) :] == kafkas.data[len(ours) :]  # a cut batch, which Kafka leaves to its caller
    return "stamped"


def _rows(data: bytes) -> list[tuple[Any, ...]]:
    return [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in kafkarec.decode(data, control=True)]


def _utf8(data: bytes) -> bool:
    """Return whether all header keys that Kafka's reader accepts are UTF-8."""
    rows = kafkarec.decode(data, control=True, check_crcs=False, header_keys="binary")
    try:
        [key.decode() for row in rows for key, _ in row.headers]
    except UnicodeDecodeError:
        return False
    return True


def _same_refusal(ours: kafkarec.KafkaRecordError, kafkas: Answer):
    assert kafkas.refusal is not None
    if ours.reason == "batch_too_small":
        return  # the log checks checksums before LogValidator, and a batch without a full header has none
    if kafkas.refusal in FAMILIES:
        assert ours.reason in FAMILIES[kafkas.refusal], kafkas.message
    elif ours.reason in set().union(*FAMILIES.values()) - {"magic_unfit"}:
        raise AssertionError(f"{kafkas.refusal}: {kafkas.message}, ours {ours}")
    elif kafkas.refusal == "CorruptRecordException":
        assert isinstance(ours, kafkarec.CorruptRecordError)
    elif kafkas.refusal == "InvalidRecordException":
        assert isinstance(ours, kafkarec.InvalidRecordError) or ours.reason == "payload_corrupt"
        _same_numbers(str(ours), kafkas.message)
    if kafkas.record_errors:
        mine = ours.record_errors
        assert [index for index, _ in mine] == [index for index, _ in kafkas.record_errors]
        for (_, text), (_, wanted) in zip(mine, kafkas.record_errors, strict=True):
            _same_words(text, wanted)


def _same_numbers(ours: str, kafkas: str):
    """Assert that both error messages have the same numbers, where Kafka's message has them."""
    for pattern in (
        r"Inconsistent batch offset range \[(-?\d+), (-?\d+)\] and count of records (-?\d+)",
        r"Invalid reported count for record batch: (-?\d+)",
        r"Invalid sequence number (-?\d+) in record batch with producerId (-?\d+)",
        r"Batch has an invalid offset range: \[(-?\d+), (-?\d+)\]",
        r"Batch magic (\d) is not the same as the first batch's magic byte (\d)",
    ):
        found = re.search(pattern, kafkas)
        if found and "Inconsistent" in pattern:
            first, last, count = map(int, found.groups())
            assert f"offsets {last - first + 1}, records {count}" in ours
        elif found:
            assert set(found.groups()) <= set(re.findall(r"-?\d+", ours)), (ours, kafkas)


def _same_words(ours: str, kafkas: str):
    words = {
        "Compacted topic": "no key",
        "is out of range": "out of range",
        "Invalid timestamp type": "log append time",
        "magic does not match": "magic",
    }
    [(theirs, mine)] = [(theirs, mine) for theirs, mine in words.items() if theirs in kafkas]
    assert mine in ours
    if theirs == "is out of range":
        assert re.findall(r"-?\d+", ours) == re.findall(r"-?\d+", kafkas)


# ---- random requests


def random_request(maker: Maker) -> Request:
    data = produced(maker)
    if maker.random.random() < 0.04:
        data += produced(maker)
    if maker.random.random() < 0.03:
        data += data[: maker.random.randrange(1, 17)]  # a cut batch at the end is ignored
    return Request(data, random_options(maker.random))


def random_options(random: Random) -> dict[str, Any]:
    limits = (None, None, None, 0, 3, 50, 100_000)
    return {
        "first_offset": random.choice((0, 0, 1, 1000, 2**40)),
        "magic": random.choice((None, None, None, 2, 2, 1, 0)),
        "compression": random.choice((None, None, None, *CODECS)),
        "timestamp_type": random.choice(("create_time", "create_time", "create_time", "log_append_time")),
        "timestamp_before_max_ms": random.choice(limits),
        "timestamp_after_max_ms": random.choice(limits),
        "compacted": random.random() < 0.15,
        "partition_leader_epoch": random.choice((-1, 0, 7)),
        "origin": random.choice(("client", "client", "client", "coordinator", "replication", "raft_leader")),
        "max_decompressed_message_bytes": random.choice((None, None, None, None, 20, 60, 300)),
        "now": NOW + random.choice((0, 0, 2, 50, -50)),
    }


def produced(maker: Maker) -> bytes:
    """A batch, messages or a wrapper as from a producer; many are odd in one way."""
    kind = maker.random.randrange(20)
    if kind < 7:
        return maker.legacy(0)
    if kind < 10:
        return maker.odd(0)
    if kind == 10:
        return maker.control_batch(0)
    offset, time = maker.some(0, 0, 0, 9, bits=64), maker.some(NOW, NOW, NOW, -1, 0, -9, NO_LIMIT, bits=64)
    return maker.batch(offset, base_timestamp=time, max_timestamp=maker.some(time, NOW + 5, bits=64))


# ---- requests made from golden files


def golden_request(random: Random, data: bytes, name: str = "") -> Request:
    """Return a golden buffer with random options, the clock near to its timestamps."""
    options = random_options(random)
    options["now"] = random.choice((NOW, 1_722_000_000_000, 0))
    options["timestamp_before_max_ms"] = options["timestamp_after_max_ms"] = random.choice((None, None, 10**12))
    return Request(data, options, name)


def mutated(random: Random, data: bytes) -> bytes:
    """Return one batch of `data` with some bytes of its records changed, compressed again, its checksum right."""
    table = kafkarec.scan(data)
    one = table[random.randrange(len(table))]
    raw = data[one["position"] : one["position"] + one["size_in_bytes"]]
    codec, magic = one["attributes"] & 7, one["magic"]
    start = 61 if magic == 2 else 18 + 8 * magic + 8 * (codec > 0)
    payload = bytearray(codecs.decompress(codec, raw[start:], 1 << 27, magic))
    for _ in range(random.choice((1, 1, 1, 2))):
        at = random.randrange(len(payload)) if payload else 0
        change = random.choice(("set", "set", "flip", "cut", "add"))
        if change == "cut":
            del payload[at : at + random.choice((1, 1, 5))]
        elif change == "add" or not payload:
            payload[at:at] = random.choice((b"\x00", b"\x80", b"\xff"))
        elif change == "flip":
            payload[at] ^= 1 << random.randrange(8)
        else:
            payload[at] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF, random.randrange(256)))
    packed = builders.compress(CODECS[codec], bytes(payload), magic)
    head = bytearray(raw[:start])
    if magic == 2:
        head[8:12] = struct.pack(">i", len(head) + len(packed) - 12)
        return builders.with_crc(bytes(head) + packed)
    if codec:
        head[-4:] = struct.pack(">i", len(packed))
    head[8:12] = struct.pack(">i", len(head) + len(packed) - 12)
    return builders.with_legacy_crc(bytes(head) + packed)


# ---- tests


def compared(kafka, requests):
    """Count the results by reason; raise an AssertionError that names the first request whose results differ."""
    counts = Counter()
    for number, (request, answer) in enumerate(zip(requests, ask(kafka, requests), strict=True)):
        try:
            counts[compare(request, answer)] += 1
        except AssertionError as different:
            raise AssertionError(f"request {number} ({request.name}) {request.options}: {different}") from different
    return counts


def test_random_requests_are_validated_as_by_kafka(kafka):
    maker = Maker(53)
    count = jvm_oracle.count(6000)
    counts = compared(kafka, [random_request(maker) for _ in range(count)])
    assert counts["stamped"] > count // 20 and counts["written anew"] > count // 10
    assert len(counts) > 25  # reasons


def test_golden_files_under_random_options_are_validated_as_by_kafka(kafka):
    rng = Random(54)
    cases = [case for case in golden.vectors() + golden.invalid() if len(case.bytes) < 30_000]
    counts = compared(kafka, [golden_request(rng, case.bytes, case.name) for case in cases for _ in range(5)])
    assert counts["stamped"] > 50 and counts["written anew"] > 50


def test_changed_records_in_batches_with_a_right_checksum_are_validated_as_by_kafka(kafka):
    rng = Random(55)
    requests = []
    for _ in range(jvm_oracle.count(4000)):
        case = rng.choice(SMALL)
        requests.append(golden_request(rng, mutated(rng, case.bytes), case.name))
    counts = compared(kafka, requests)
    assert counts["stamped"] and counts["written anew"]


def test_batches_with_changed_bytes_are_validated_as_by_kafka(kafka):
    maker = Maker(57)
    requests = [random_request(maker) for _ in range(jvm_oracle.count(2000))]
    requests += [golden_request(maker.random, case.bytes, case.name) for case in SMALL for _ in range(10)]
    for request in requests:
        request.data = maker.damaged(request.data)
    assert compared(kafka, requests)["stamped"]


REASONS_OF_THE_LOG = {
    "CorruptRecordException": {"crc_mismatch", "batch_too_small", "size_too_small", "unsupported_magic"},
    "IllegalArgumentException": {"unsupported_codec", "size_overflow"},
    "RecordTooLargeException": {"batch_too_large"},
    "OffsetsOutOfOrderException": {"offsets_out_of_order"},
    "InvalidRecordException": {"base_offset_not_zero", "leader_epoch_differs"},
}
# Once in 50,000 random requests: Kafka reads a header field beyond the end of a last batch that is too small for it.
RARE_REASONS = {"IndexOutOfBoundsException": {"batch_too_small"}}


def test_checks_before_logvalidator_are_those_of_kafkas_log(kafka, tmp_path):
    maker, max_size = Maker(59), 300
    rng = maker.random
    requests = []
    for _ in range(jvm_oracle.count(3000)):
        data = b"".join(produced(maker) for _ in range(rng.choice((1, 2, 3))))
        if rng.random() < 0.3:
            data = maker.damaged(data)
        origin = rng.choice(("client", "coordinator", "replication", "raft_leader"))
        requests.append((data, origin, 2**31 - 1 if origin == "replication" else rng.choice((-1, 3))))
    folder = tmp_path / "t-0"
    folder.mkdir()
    arguments = [word for data, origin, epoch in requests for word in (data.hex(), origin.upper(), epoch)]
    answers = kafka.ask("analyze", folder, max_size, *arguments).out.splitlines()
    verdicts = Counter()
    for (data, origin, epoch), answer in zip(requests, answers, strict=True):
        verdict, *details = answer.split()
        try:
            ours = validate(
                data,
                origin=origin,
                partition_leader_epoch=epoch,
                assign_offsets=False,
                first_offset=-(2**63),
                append_checks=True,
                max_message_bytes=max_size,
            )
        except kafkarec.KafkaRecordError as refusal:
            # the message about the order reads all records in Kafka, and reading may fail
            reasons = (REASONS_OF_THE_LOG | RARE_REASONS).get(details[0], set())
            fits = refusal.reason in reasons | {"offsets_out_of_order"}
            assert verdict == "refused" and fits, (answer, str(refusal))
        else:
            assert verdict == "taken", answer
            if int(details[0]):
                assert [len(ours), ours.max_timestamp, ours.next_offset - 1] == [int(one) for one in details]
        verdicts[answer.split()[1] if verdict == "refused" else verdict] += 1
    assert set(verdicts) >= {"taken", *REASONS_OF_THE_LOG}
