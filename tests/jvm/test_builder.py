"""The same calls to Kafka's MemoryRecordsBuilder and to RecordBatchBuilder return the same answers and byte for byte
the same batches.

Compressed payloads are compared after decompression, as the codec libraries differ. A script ends after a refusal that
changes the state of Kafka's builder (a record whose offset is too far from the base offset, null headers).
"""

import random
import struct
from uuid import UUID

import golden
import jvm_oracle
import pytest
import typed_control

import kafkarec
from kafkarec import codecs
from kafkarec.format.control import Endpoint, KRaftVersionFeature, KRaftVoter, LeaderChangeVoter
from kafkarec.write.builder import RecordBatchBuilder
from kafkarec.write.fields import to_float32
from kafkarec.write.sizes import CompressionRatioEstimator, estimate_size
from kafkarec.write.stamping import stamp

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
LIMIT = 1 << 24


def blob(data):
    return "-" if data is None else f".{data.hex()}"


def header_words(headers):
    if headers is None:
        return "-"
    return ";".join(f"{blob(key.encode())}={blob(value)}" for key, value in headers) or "[]"


def bits(number):
    return int(struct.unpack(">i", struct.pack(">f", number))[0])


def content_of(batch):
    """(the header without size and checksum, the decompressed records) of a compressed batch or wrapper."""
    if batch[16] == 2:
        fields, codec, payload = batch[:8] + batch[12:17] + batch[21:61], batch[22] & 7, batch[61:]
    else:
        begin = 34 if batch[16] else 26
        fields, codec, payload = batch[:8] + batch[16 : begin - 4], batch[17] & 7, batch[begin:]
    return fields, bytes(codecs.decompress(codec, payload, LIMIT, batch[16]))


class Script:
    """Random calls, executed on RecordBatchBuilder at once and recorded as lines for Kafka's builder."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines = []
        self.answers = []
        self.batches = []
        self.builder = None
        self.codec = self.rng.choice((0, 0, 0, 1, 2, 3, 4))

    def call(self, line, run):
        """Return False when RecordBatchBuilder refuses the call."""
        self.lines.append(line)
        try:
            answer = run()
        except ValueError:
            self.answers.append(None)
            return False
        text = str(answer).lower() if isinstance(answer, bool) else "" if answer is None else str(answer)
        self.answers.append(text)
        return True

    def blob(self):
        size = self.rng.choice((None, None, 0, 1, 3, 20, 63, 64, 100, 127, 128, 300))
        return None if size is None else self.rng.choice((b"abc", b"\x00", self.rng.randbytes(7))) * size

    def headers(self):
        if self.rng.random() < 0.7:
            return []
        names = ("", "h", "naïve", "€😀", "x" * 70)
        return [(self.rng.choice(names), self.blob()) for _ in range(self.rng.randrange(4))]

    def timestamp(self):
        usual = 1_700_000_000_000 + self.rng.randrange(-5000, 5000)
        return self.rng.choice((usual, usual, usual, usual, -1, 0, 2**63 - 1, 5))

    def start(self):
        rng = self.rng
        self.magic = rng.choice((0, 1, 2, 2, 2, 2))
        odd = rng.random() < 0.2 or self.magic == 2
        codec = self.codec
        levels = {1: (None, -1, 1, 9, 0), 3: (None, 1, 9, 12, 0), 4: (None, -5, 1, 5, 23)}
        level = rng.choice(levels.get(codec, (None,)))
        kind = rng.choice((0, 0, 0, 1)) if self.magic else rng.choice((0, 1, -1))
        time = rng.choice((-1, 1_700_000_000_500))
        base = rng.choice((0, 0, 5, 1000, 2**40, -3))
        limit = rng.choice((0, 60, 100, 300, 1000, 16384))
        self.producer = rng.choice(((-1, -1, -1), (7, 0, 0), (7, 3, 2**31 - 1), (-2, 0, 0), (7, -1, 0), (7, 0, -1)))
        if not odd:
            self.producer = (-1, -1, -1)
        transactional, control = odd and rng.random() < 0.3, odd and rng.random() < 0.2
        self.control = control
        epoch = rng.choice((-1, 0, 9))
        horizon = rng.choice((-1, -1, -1, 0, 1_700_000_000_000, -2)) if odd else -1
        self.base = base
        options = {
            "magic": self.magic,
            "compression": NAMES[codec],
            "level": level,
            "timestamp_type": (None, 0, 1)[kind + 1],
            "log_append_time": time,
            "base_offset": base,
            "batch_size": limit,
            **dict(zip(("producer_id", "producer_epoch", "base_sequence"), self.producer, strict=True)),
            "is_transactional": transactional,
            "is_control": control,
            "partition_leader_epoch": epoch,
            "delete_horizon_ms": horizon,
        }
        words = options | {"level": "-" if level is None else level, "timestamp_type": kind}
        words |= {"is_transactional": int(transactional), "is_control": int(control)}

        def run():
            self.builder = RecordBatchBuilder(**options)

        self.append_time = kind == 1
        return self.call(" ".join(["new", *map(str, words.values())]), run)

    def append(self):
        time, key, value = self.timestamp(), self.blob(), self.blob()
        headers = self.headers() if self.magic == 2 or self.rng.random() < 0.03 else []
        offset = None
        if self.rng.random() < 0.3:
            offset = self.builder.next_offset + self.rng.choice((0, 1, 100, -1, 2000))
        time = -2 if self.rng.random() < 0.03 else time
        fields = f"{time} {blob(key)} {blob(value)} {header_words(headers)} {'-' if offset is None else offset}"
        self.call(f"append {fields}", lambda: self.add(time, key, value, headers, offset))

    def add(self, *fields):
        self.builder.append(*fields)

    def has_room(self):
        time, key, value, headers = self.timestamp(), self.blob(), self.blob(), self.headers()
        builder = self.builder
        line = f"room {time} {blob(key)} {blob(value)} {header_words(headers)}"
        self.call(line, lambda: builder.has_room_for(time, key, value, headers))

    def control_record(self):
        builder, rng = self.builder, self.rng
        time = self.timestamp()
        number, other = rng.choice((0, 1, 2**31 - 1, -5)), rng.choice((0, 3, 2**15 - 1))
        kind = rng.choice(("ABORT", "COMMIT", "LEADER_CHANGE"))
        uuid = UUID(bytes=rng.randbytes(16))
        halves = [struct.unpack(">q", uuid.bytes[at : at + 8])[0] for at in (0, 8)]
        voter = KRaftVoter(number, uuid, (Endpoint("CONTROLLER", "höst", 9093),), KRaftVersionFeature(0, other))
        offset = builder.next_offset + rng.randrange(3)
        key = struct.pack(">hh", rng.choice((0, 1)), rng.choice((0, 1, 2, 3, 4, 5, 6, 7, -1)))
        value = self.blob()

        def control(kind, *fields):
            return builder.append_control(time, typed_control.control(kind, *fields))

        calls = [
            (f"marker {time} {kind} {number}", lambda: builder.append_end_txn_marker(time, kind, number)),
            (
                f"leader {time} {number} 1,2,3 -",
                lambda: control("LEADER_CHANGE", number, tuple(map(LeaderChangeVoter, (1, 2, 3))), ()),
            ),
            (
                f"leader {time} {number} - 8",
                lambda: control("LEADER_CHANGE", number, (), (LeaderChangeVoter(8),)),
            ),
            (f"snapshotheader {time} {number}", lambda: control("SNAPSHOT_HEADER", number)),
            (f"snapshotfooter {time}", lambda: control("SNAPSHOT_FOOTER")),
            (f"version {time} {other}", lambda: control("KRAFT_VERSION", other)),
            (
                f"voters {time} {number} {halves[0]} {halves[1]} 0 {other} CONTROLLER höst 9093",
                lambda: control("KRAFT_VOTERS", (voter,)),
            ),
            (f"voters {time}", lambda: control("KRAFT_VOTERS", ())),
            (
                f"control {time} {blob(key)} {blob(value)} [] {offset}",
                lambda: builder.append_control_record(time, key, value, (), offset),
            ),
        ]
        line, run = rng.choice(calls)
        self.call(line, lambda: self.append_quietly(run))

    def append_quietly(self, run):
        """Kafka's append methods return nothing."""
        assert run() == self.builder.last_offset

    def compare_properties(self):
        b = self.builder
        size = "?" if self.codec and b.is_closed and len(b) else b.estimated_size
        fields = (
            len(b),
            str(b.is_full).lower(),
            str(b.is_closed).lower(),
            size,
            str(b.delete_horizon_ms is not None).lower(),
        )
        self.call("facts", lambda: " ".join(map(str, fields)))
        if len(b) or not self.append_time:
            self.call("time", lambda: str(b.max_timestamp))

    def override_last(self):
        builder = self.builder
        offset = builder.next_offset + self.rng.choice((-1, 0, 5, -3))
        self.call(f"last {offset}", lambda: builder.override_last_offset(offset))

    def ratio(self):
        ratio = to_float32(self.rng.choice((0.1, 0.333, 0.5, 0.95, 1.0, 1.2)))
        self.builder.estimated_compression_ratio = ratio
        self.call(f"ratio {ratio!r}", lambda: None)

    def build(self):
        builder = self.builder

        def run():
            batch = builder.build()
            self.batches.append(batch)
            return f"{blob(batch)} {bits(builder.compression_ratio)}"

        self.call("build", run)

    def run(self):
        if not self.start():
            return
        for _ in range(self.rng.choice((0, 1, 3, 10, 30))):
            draw = self.rng.random()
            if draw < 0.6:
                (self.control_record if self.control != (self.rng.random() < 0.05) else self.append)()
            elif draw < 0.8:
                self.has_room()
            elif draw < 0.9:
                self.compare_properties()
            elif draw < 0.97:
                self.rng.choice((self.override_last, self.ratio))()
        self.compare_properties()
        self.build()
        self.compare_properties()
        self.rng.choice((self.append, self.override_last, self.has_room))()
        self.compare_properties()
        self.build()
        end = self.rng.randrange(4)
        if end == 0:
            self.call("abort", self.builder.abort)
            self.build()
        elif end == 1 and self.magic == 2 and not self.control:
            self.call("append 5 - - - -", lambda: self.add(5, None, None, None))
        elif end == 2:
            far = self.base + 2**31 + self.rng.randrange(1, 9)
            self.call(f"append 5 - - [] {far}", lambda: self.add(5, None, None, [], far))


def readable(data):
    try:
        return kafkarec.decode(data, control=True).remaining == 0
    except kafkarec.KafkaRecordError:
        return False


def compare(script, answers, seed):
    for line, ours, theirs in zip(script.lines, script.answers, answers, strict=True):
        where = (seed, line, script.lines[0])
        if ours is None or theirs.startswith("refused"):
            assert ours is None and theirs.startswith("refused"), (where, ours, theirs)
            continue
        answer = theirs.removeprefix("ok").strip()
        if line == "build" and script.codec and len(answer) > 30:
            our_batch, their_batch = (bytes.fromhex(text.split()[0][1:]) for text in (ours, answer))
            assert content_of(our_batch) == content_of(their_batch), where
        elif "?" in ours:
            assert all(
                ours_word in ("?", theirs_word)
                for ours_word, theirs_word in zip(ours.split(), answer.split(), strict=True)
            ), where
        else:
            assert ours == answer, where


def test_random_calls_have_the_same_results_as_in_kafka(kafka, tmp_path):
    counts = {}
    file = tmp_path / "batches"
    unreadable = 0
    for seed in range(jvm_oracle.count(1500)):
        script = Script(seed)
        script.run()
        answers = kafka.ask("build", "\n".join(script.lines)).out.splitlines()
        compare(script, answers, seed)
        for line, answer in zip(script.lines, script.answers, strict=True):
            outcome = f"{line.split()[0]} {'refused' if answer is None else 'ok'}"
            counts[outcome] = counts.get(outcome, 0) + 1
        if script.batches and script.codec and seed % 5 == 0:
            file.write_bytes(b"".join(script.batches))
            read = kafka.ask("read", file).out.splitlines()
            assert (read[-1] == "end 0") == readable(b"".join(script.batches)), seed
            unreadable += read[-1] != "end 0"
    for outcome in ("new", "append", "marker", "leader", "control", "last", "build"):
        assert counts[f"{outcome} ok"] > 10 and counts[f"{outcome} refused"] > 10, (outcome, counts)
    assert unreadable < jvm_oracle.count(1500) / 200, "only wrappers with a too low last offset are unreadable"
    assert counts["room ok"] > 500 and counts["voters ok"] > 5 and counts["snapshotfooter ok"] > 5


def test_size_estimates_equal_those_of_kafka(kafka):
    lines, ours = [], []
    for seed in range(jvm_oracle.count(1000)):
        script = Script(seed)
        rng, magic, codec = script.rng, script.rng.choice((0, 1, 2)), NAMES[script.codec]
        rows = [
            (n, script.timestamp(), script.blob(), script.blob(), script.headers())
            for n in range(rng.choice((0, 1, 2, 5, 400 if seed % 50 == 0 else 3)))
        ]
        fields = [f"{r[1]} {blob(r[2])} {blob(r[3])} {header_words(r[4])}" for r in rows]
        lines.append(" ".join(["size", str(magic), codec, *fields]))
        ours.append(str(estimate_size(rows, magic=magic, compression=codec)))
    assert kafka.ask("estimates", "\n".join(lines)).out.splitlines() == ours


def test_compression_ratios_change_as_in_kafka(kafka):
    rng = random.Random(5)
    estimator = CompressionRatioEstimator()
    lines, ours = [], []
    for _ in range(jvm_oracle.count(4000)):
        topic, codec = rng.choice(("orders", "payments")), rng.choice(NAMES)
        ratio = to_float32(rng.choice((rng.random(), rng.random() * 3, 0.3, 1.0)))
        verb = rng.choice(("observed",) * 20 + ("estimate",))
        lines.append(f"{verb} {topic} {codec} {ratio!r}")
        if verb == "observed":
            ours.append(str(bits(estimator.update_estimation(topic, codec, ratio))))
        else:
            ours.append(str(bits(estimator.estimation(topic, codec))))
    assert kafka.ask("estimates", "\n".join(lines)).out.splitlines() == ours


def stamp_all(data, last, epoch, kind, time):
    buffer, position = bytearray(data), 0
    try:
        while position < len(data):
            times = {} if time is None else {"timestamp_type": kind, "max_timestamp": time}
            position = stamp(buffer, position=position, last_offset=last, partition_leader_epoch=epoch, **times)
    except ValueError:
        return "refused"
    return blob(bytes(buffer))


def whole(case):
    """Whether the file has no cut tail; Kafka ignores one, and `stamp` refuses it."""
    try:
        return kafkarec.scan(case.bytes).remaining == 0
    except kafkarec.KafkaRecordError:
        return False


@pytest.mark.parametrize("folder", ["vectors", "invalid"])
def test_stamping_as_in_kafka(folder, kafka):
    """Including undefined attribute bits, unknown codec ids and wrappers of magic 1."""
    cases = [case for case in (golden.vectors() if folder == "vectors" else golden.invalid()) if whole(case)]
    refused = 0
    changes = (
        (17, None, 0, None),
        (None, 5, 0, None),
        (None, None, 1, 99),
        (None, None, 0, 1_700_000_000_000),
        (2**40, -1, 1, -1),
        (0, None, 1, 99),
    )
    for case in cases:
        for last, epoch, kind, time in changes:
            fields = ["-" if word is None else word for word in (last, epoch, kind, time)]
            answer = kafka.ask("stamp", case.bin_path, *fields).out
            answer = "refused" if answer.startswith("refused") else answer
            refused += answer == "refused"
            assert stamp_all(case.bytes, last, epoch, kind, time) == answer, (case.name, fields)
    assert len(cases) > 100 and refused > 20
