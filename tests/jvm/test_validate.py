"""validate beside Kafka's LogValidator: verdict, bytes, results, statistics, errors of single records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import golden
import jvm_oracle
from validating import (
    Asked,
    ask,
    batch,
    compare,
    golden_request,
    mutated,
    overwritten,
    plain_messages,
    random_request,
    wrapper,
)

import kafkarec
from kafkarec.ops.validate import validate

SMALL = [case for case in golden.vectors() if 0 < len(case.bytes) < 9000 and len(kafkarec.scan(case.bytes))]


def compared(kafka: jvm_oracle.Oracle, requests: list[Asked]) -> Counter[str]:
    """What came of them, by reason; an AssertionError names the request that differs."""
    found: Counter[str] = Counter()
    for number, (asked, answer) in enumerate(zip(requests, ask(kafka, requests), strict=True)):
        try:
            found[compare(asked, answer)] += 1
        except AssertionError as different:
            raise AssertionError(f"request {number} ({asked.name}) {asked.options}: {different}") from different
    return found


def test_random_requests(kafka: jvm_oracle.Oracle) -> None:
    random = Random(53)
    count = jvm_oracle.count(6000)
    found = compared(kafka, [random_request(random) for _ in range(count)])
    assert found["stamped"] > count // 20 and found["written anew"] > count // 10
    assert len(found) > 25  # reasons


def test_golden_files_under_all_kinds_of_options(kafka: jvm_oracle.Oracle) -> None:
    random = Random(54)
    cases = [case for case in golden.vectors() + golden.invalid() if len(case.bytes) < 30_000]
    found = compared(kafka, [golden_request(random, case.bytes, case.name) for case in cases for _ in range(5)])
    assert found["stamped"] > 50 and found["written anew"] > 50


def test_each_batch_of_real_logs(kafka: jvm_oracle.Oracle) -> None:
    random = Random(58)
    batches = {bytes(one.raw) for case in golden.segment_files() for one in kafkarec.batches(case.bytes)}
    requests = [golden_request(random, batch) for batch in sorted(batches) if len(batch) < 30_000]
    found = compared(kafka, requests)
    assert found["stamped"] > 20 and found["written anew"] > 20


def test_records_changed_inside_of_whole_batches(kafka: jvm_oracle.Oracle) -> None:
    random = Random(55)
    requests = []
    for _ in range(jvm_oracle.count(4000)):
        case = random.choice(SMALL)
        requests.append(golden_request(random, mutated(random, case.bytes), case.name))
    found = compared(kafka, requests)
    assert found["stamped"] and found["written anew"]


def test_bytes_changed_anywhere(kafka: jvm_oracle.Oracle) -> None:
    random = Random(57)
    requests = [random_request(random) for _ in range(jvm_oracle.count(2000))]
    requests += [golden_request(random, case.bytes, case.name) for case in SMALL for _ in range(10)]
    for asked in requests:
        asked.data = overwritten(random, asked.data)
    assert compared(kafka, requests)["stamped"]


def test_kafka_reads_what_was_written_anew(kafka: jvm_oracle.Oracle, tmp_path: Path) -> None:
    random = Random(56)
    files, wanted = [], []
    while len(files) < 300:
        asked = random_request(random)
        try:
            made = validate(asked.data, check_crcs=False, **asked.options)
        except kafkarec.KafkaRecordError:
            continue
        if not made.size_changed:
            continue
        path = tmp_path / f"{len(files)}"
        path.write_bytes(made)
        files.append(path)
        wanted.append(len(kafkarec.decode(made, control=True)))
    lines = kafka.ask("read", *files).out.splitlines()
    assert "refused" not in {line.split()[0] for line in lines}
    ends = [i for i, line in enumerate(lines) if line.startswith("end ")]
    assert [end - begin - 1 for begin, end in zip([-1, *ends], ends, strict=False)] == wanted
    assert {lines[end] for end in ends} == {"end 0"}


LOGS_OWN = {
    "CorruptRecordException": {"crc_mismatch", "batch_too_small", "size_too_small", "unsupported_magic"},
    "IllegalArgumentException": {"unsupported_codec", "size_overflow"},
    "RecordTooLargeException": {"batch_too_large"},
    "OffsetsOutOfOrderException": {"offsets_out_of_order"},
    "InvalidRecordException": {"base_offset_not_zero", "leader_epoch_differs"},
}


def test_what_the_log_checks_before_logvalidator(kafka: jvm_oracle.Oracle, tmp_path: Path) -> None:
    random, most = Random(59), 300
    requests = []
    for _ in range(jvm_oracle.count(3000)):
        kinds = random.choices((batch, plain_messages, wrapper), k=random.choice((1, 2, 3)))
        data = b"".join(kind(random) for kind in kinds)
        if random.random() < 0.2:
            data = overwritten(random, data)
        if random.random() < 0.1:
            data = data[: random.randrange(len(data))]
        origin = random.choice(("client", "coordinator", "replication", "raft_leader"))
        requests.append((data, origin, 2**31 - 1 if origin == "replication" else random.choice((-1, 3))))
    folder = tmp_path / "t-0"
    folder.mkdir()
    words = [word for data, origin, epoch in requests for word in (data.hex(), origin.upper(), epoch)]
    answers = kafka.ask("analyze", folder, most, *words).out.splitlines()
    seen: Counter[str] = Counter()
    for (data, origin, epoch), answer in zip(requests, answers, strict=True):
        verdict, *told = answer.split()
        try:
            ours = validate(
                data,
                origin=origin,
                partition_leader_epoch=epoch,
                assign_offsets=False,
                first_offset=-(2**63),
                append_checks=True,
                max_message_bytes=most,
            )
        except kafkarec.KafkaRecordError as refusal:
            # for its message about the order Kafka reads all records, and may fail on those
            fits = refusal.reason in LOGS_OWN.get(told[0], ()) or refusal.reason == "offsets_out_of_order"
            assert verdict == "refused" and fits, (answer, str(refusal))
        else:
            assert verdict == "taken", answer
            if int(told[0]):
                assert [len(ours), ours.max_timestamp, ours.next_offset - 1] == [int(one) for one in told]
        seen[answer.split()[1] if verdict == "refused" else verdict] += 1
    assert set(seen) >= {"taken", *LOGS_OWN}
