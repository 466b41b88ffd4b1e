"""`validate` compared with Kafka's LogValidator: verdicts, bytes, results, statistics, errors of single records."""

from collections import Counter
from random import Random

import golden
import jvm_oracle
from random_logs import Maker
from validate_comparison import ask, compare, golden_request, mutated, produced, random_request

import kafkarec
from kafkarec import validate

SMALL = [case for case in golden.vectors() if 0 < len(case.bytes) < 9000 and len(kafkarec.scan(case.bytes))]


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


def test_golden_files_under_random_options(kafka):
    rng = Random(54)
    cases = [case for case in golden.vectors() + golden.invalid() if len(case.bytes) < 30_000]
    counts = compared(kafka, [golden_request(rng, case.bytes, case.name) for case in cases for _ in range(5)])
    assert counts["stamped"] > 50 and counts["written anew"] > 50


def test_changed_records_in_batches_with_a_right_checksum(kafka):
    rng = Random(55)
    requests = []
    for _ in range(jvm_oracle.count(4000)):
        case = rng.choice(SMALL)
        requests.append(golden_request(rng, mutated(rng, case.bytes), case.name))
    counts = compared(kafka, requests)
    assert counts["stamped"] and counts["written anew"]


def test_batches_with_changed_bytes(kafka):
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
