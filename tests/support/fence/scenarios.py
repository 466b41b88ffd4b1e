"""Every scenario of the fence: what is put into an empty working directory, and the calls that are made there.

In a command line F stands for the partition's folder. What a call writes is named `out...`.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import builders
import plain_logs
import transaction_logs
import zstandard
from paths import VECTORS
from plain_logs import batch

import kafkarec
from kafkarec.format.side_files import SnapshotEntry
from kafkarec.sidecars import offset_index, producer_snapshot, time_index

from . import folders, names, python_calls
from .calls import Recorder

Run = Callable[[Recorder], None]
_TOPIC_ID = "pmqbwj8JRCSCfzvNTqatEw"
_COLUMNS = "offset,timestamp,key,base_offset,producer_id,is_control"

EVERY_FOLDER = f"""
ls F
ls F --format json --full
verify F
verify . --format json --sequences --all
txn F
txn F --format json --all
cat F --errors skip --columns {_COLUMNS} --control -n 300
cat F --isolation read_committed --columns offset -n 300
salvage F -o out
salvage F -o out --as-partition --undecided open --format json
reindex F -o out --format json
reindex F --dry-run
explain F --records 1
"""

SOUND_FOLDER = f"""
cat F
cat F --format csv --last 5
cat F --from-offset 10 --to-offset 20 --value-as hex --time-format iso
cat F --latest-per-key -n 20
cat F --isolation read_committed --last 3
cat F --columns partition,file,batch_position,magic,compression,sequence,producer_epoch,control_type --control -n 9
verify F --html out.html
scan F --format json
scan F
salvage F -o out --no-repair --undecided commit
salvage F -o out --keep-end --undecided aside --as-partition
salvage F -o out --dry-run --as-partition
convert F -o out/ --compression zstd --format json --topic-id {_TOPIC_ID}
convert F -o out.log --magic 1 --format json
convert F -o out/ --batch-size 4k --compression lz4 --topic-id {_TOPIC_ID}
compact F -o out/ --format json --now 2026-11-23T00:00:00Z --topic-id {_TOPIC_ID}
compact F -o out.log --now 2026-11-23T00:00:00Z --delete-retention-ms 0
explain F --format json
explain F --full --records all
explain F --redact
txn F --state open,hanging,aborted,committed --hanging-after 1s
ls . --segments
"""

# Of which copies are damaged; of the later ones in CI only, so that `make test` stays short.
DAMAGED = ("txn-0", "deleted-1551")
DAMAGED_IN_CI = ("compacted-0", "all-codecs-0", "orders-158", "__cluster_metadata-0", "log25-0")

RANGES = (
    "--from-offset 7 --to-offset 12", "--from-offset 40", "--to-offset 3", "--last 4", "-n 3", "--from-offset 9 -n 4",
    "--from-time 2023-11-14T22:13:20.030Z", "--to-time 2023-11-14T22:13:20.050Z", "--from-time 1700000000010 --last 3",
    "--from-time 1700000000030 --to-time 1700000000060 -n 5", "--from-offset 8 --to-time 1700000000040",
    "--from-offset 30 --to-offset 30", "--from-offset 9999",
)  # fmt: skip


def scenarios() -> dict[str, Run]:
    """Name -> the calls, in the order of the snapshot."""
    files = [path for group in ("vectors", "invalid") for path in sorted((VECTORS / group).glob("*.bin"))]
    return {
        **{f"healthy/{name}": partial(_sound, name=name) for name in folders.healthy()},
        **{
            f"damaged/{name}/{label}": partial(_spoiled, name=name, label=label)
            for name in (*DAMAGED, *DAMAGED_IN_CI)
            for label in folders.damages(name)
        },
        **{f"harvested/{name}": partial(_found, name=name) for name in folders.harvested()},
        **{f"{path.parent.name}/{path.stem}": partial(_file, path=path) for path in files},
        **_BUILT,
        **names.LISTED,
    }


def of_make_test() -> list[str]:
    return [name for name in scenarios() if name.split("/")[1] not in DAMAGED_IN_CI or name.startswith("healthy/")]


def _calls(here: Recorder, lines: str | Iterable[str], folder: Path | str = ""):
    for line in filter(None, lines.splitlines() if isinstance(lines, str) else lines):
        here.run(" ".join(str(folder) if word == "F" else word for word in line.split(" ")))


# ---- healthy, damaged and harvested folders


def _sound(here: Recorder, *, name: str):
    folder = folders.put(name)
    _calls(here, EVERY_FOLDER + SOUND_FOLDER, folder)
    # one by one: the tool's order of several files is that of a Java HashMap, by the hashes of their whole paths
    for log in sorted(folder.glob("*.log"))[:2]:
        _calls(here, [f"dump {log} --print-data-log", f"dump {log}"])


def _spoiled(here: Recorder, *, name: str, label: str):
    folder = folders.put(name)
    folders.damages(name)[label](folder)
    _calls(here, EVERY_FOLDER, folder)


def _found(here: Recorder, *, name: str):
    folder = folders.put_harvested(name)
    _calls(here, EVERY_FOLDER, folder)
    _calls(here, ["cat F --errors skip --from-offset 7 --to-offset 12", "scan F --errors skip --format json"], folder)


def _file(here: Recorder, *, path: Path):
    shutil.copy(path, "bytes.bin")
    _calls(
        here, ["verify F --format json", "cat F --errors skip -n 50", "explain F", "scan F --errors skip"], "bytes.bin"
    )
    python_calls.of_bytes(here, path.read_bytes())


# ---- folders that are built: a scenario each

_BUILT: dict[str, Run] = {}


def _built(run: Run) -> Run:
    _BUILT[f"built/{run.__name__.strip('_').replace('_', '-')}"] = run
    return run


def _log(name: str, count: int = 12, *, codec: str = "none", magic: int = 2, start: int = 0, epoch: int = 0) -> Path:
    """A partition folder of one segment: batches of three records, times that rise by ten milliseconds a batch."""
    batches = [_batch(start + 3 * n, codec, magic, epoch) for n in range(count)]
    return plain_logs.log(Path(name), batches, epochs=[(epoch, start)] if magic == 2 else None)


def _batch(
    base: int, codec: str = "none", magic: int = 2, epoch: int = 0, producer: int = -1, sequence: int = -1
) -> bytes:
    now = 1_700_000_000_000 + base // 3 * 10
    if magic == 2:
        return builders.batch(
            [
                builders.record(offset_delta=n, timestamp_delta=n, key=_key(base, n), value=_value(base + n))
                for n in range(3)
            ],
            codec=codec, base_offset=base, leader_epoch=epoch, base_timestamp=now,
            producer_id=producer, producer_epoch=0 if producer >= 0 else -1, base_sequence=sequence,
        )  # fmt: skip
    first = 0 if codec != "none" and magic else base  # relative in a wrapper of magic 1
    plain = [
        builders.message(magic=magic, offset=first + n, key=_key(base, n), value=_value(base + n), timestamp=now + n)
        for n in range(3)
    ]  # fmt: skip
    if codec == "none":
        return b"".join(plain)
    return builders.wrapper(plain, magic=magic, codec=codec, offset=base + 2, timestamp=now + 2)


def _key(base: int, number: int) -> bytes:
    return b"key-%d" % (base % 7 + number)


def _value(offset: int) -> bytes:
    return b'{"offset": %d, "text": "%s"}' % (offset, b"abc" * (offset % 5))


for _name, _arguments in {
    "plain": {}, "zstd": {"codec": "zstd"}, "magic0": {"magic": 0}, "magic1": {"magic": 1},
    "magic1-lz4": {"magic": 1, "codec": "lz4"}, "magic0-gzip": {"magic": 0, "codec": "gzip"},
}.items():  # fmt: skip

    def _ranges(here: Recorder, arguments: dict[str, object] = _arguments):
        folder = _log("orders-0", 20, **arguments)
        _calls(here, (f"cat F {one}" for one in RANGES), folder)
        _calls(
            here,
            (f"scan F {one} --columns base_offset,last_offset,record_count,max_timestamp" for one in RANGES),
            folder,
        )
        _calls(
            here,
            (f"cat F {one}" for one in ("--key key-3", "--key key-3 --key key-5 -n 4", "--latest-per-key")),
            folder,
        )
        python_calls.of_log(here, folder)

    _BUILT[f"built/ranges-{_name}"] = _ranges

    def _headers(here: Recorder, arguments: dict[str, object] = _arguments):
        """Each field that no checksum covers is damaged in the first, a middle and the last batch."""
        data = next(_log("orders-0", **arguments).glob("*.log")).read_bytes()
        starts = folders.borders(data)
        log = Path("orders-0") / f"{0:020}.log"
        for where, at in {"first": starts[0], "middle": starts[len(starts) // 2], "last": starts[-1]}.items():
            for field, (byte, bit) in folders.FIELDS.items():
                if byte > 22:
                    continue
                log.write_bytes(folders.flip(at + byte, bit)(data))
                here.part = f"{where}-{field}"
                _calls(here, _HEADER_CALLS, "orders-0")
        here.part = ""

    _BUILT[f"built/headers-{_name}"] = _headers

_HEADER_CALLS = f"""
verify F --format json
cat F --errors skip --columns {_COLUMNS}
salvage F -o out --as-partition --format json
salvage F -o out --no-repair
explain F
"""


@_built
def _replicas(here: Recorder):
    """Two replicas, damaged at different places; one ends earlier."""
    a, b = (folders.put("txn-0", Path(side) / "txn-0") for side in "ab")
    first, last = (sorted(path.name for path in a.glob("*.log"))[n] for n in (0, -1))
    folders.edit(a / last, folders.flip(600, 1))
    folders.edit(b / first, folders.zeros(300, 400))
    folders.edit(b / last, lambda d: d[:-700])
    _calls(here, _REPLICAS)


_REPLICAS = """
salvage a/txn-0 b/txn-0 -o out
salvage b/txn-0 a/txn-0 -o out --as-partition --format json
salvage a b -o out --format json
salvage a/txn-0 b/txn-0 -o out --dry-run --format json
diff a/txn-0 b/txn-0
diff a/txn-0 b/txn-0 --format json
diff b/txn-0 a/txn-0 --format json
verify a b
ls a b
txn a b
"""


@_built
def _diverged_replicas(here: Recorder):
    """The same offsets, other records: a leader that did not know the last batches went on in a later epoch."""
    common = [_batch(3 * n) for n in range(6)]
    plain_logs.log(Path("a/orders-0"), [*common, _batch(18, "zstd"), _batch(21, "zstd")], epochs=[(0, 0)])
    plain_logs.log(Path("b/orders-0"), [*common, _batch(18, epoch=2)], epochs=[(0, 0), (2, 18)])
    _calls(here, _REPLICAS.replace("txn-0", "orders-0"))


@_built
def _different_topics(here: Recorder):
    for side, topic_id in {"a": _TOPIC_ID, "b": "tqimKeZwStOEOwRzT3L5oQ"}.items():
        folder = _log(f"{side}/orders-0", 4)
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    _calls(here, _REPLICAS.replace("txn-0", "orders-0"))
    _calls(here, ["salvage b/orders-0 a/orders-0 -o out --merge-different --as-partition --format json"])


@_built
def _exchanged_names(here: Recorder):
    folder = folders.put("txn-0")
    plain_logs.exchange(folder, *(int(path.stem) for path in sorted(folder.glob("*.log"))[:2]))
    _calls(here, EVERY_FOLDER, folder)


@_built
def _wrong_names(here: Recorder):
    """A segment named too low, one named too high, and a file without a name."""
    folder = folders.put("txn-0")
    sorted(folder.glob("*.log"))[1].rename(folder / f"{3:020}.log")
    _calls(here, EVERY_FOLDER, folder)
    (folder / f"{3:020}.log").rename(folder / f"{900:020}.log")
    here.part = "high"
    _calls(here, EVERY_FOLDER, folder)
    here.part = "unnamed"
    (folder / f"{900:020}.log").rename("#12345")
    _calls(here, EVERY_FOLDER + _UNNAMED, folder)


_UNNAMED = """
salvage F #12345 -o out --format json
salvage #12345 -o out --topic txn --partition 0 --as-partition
salvage F --use #12345 -o out --format json
verify #12345 --format json
ls #12345
cat #12345 --topic t -n 2
"""


@_built
def _other_files(here: Recorder):
    """Copies with Kafka's suffixes, with and without a hole in the log that they would fill."""
    folder = folders.put("txn-0")
    log = sorted(folder.glob("*.log"))[-1]
    for suffix in (".swap", ".deleted", ".cleaned"):
        shutil.copy(log, f"{log}{suffix}")
        here.part = suffix[1:]
        _calls(here, EVERY_FOLDER, folder)
        folders.edit(log, folders.zeros(500, 900))
        here.part = f"{suffix[1:]}-and-damage"
        _calls(here, EVERY_FOLDER, folder)
        _calls(here, [f"salvage F -o out --use {log}{suffix} --format json"], folder)
        shutil.copy(f"{log}{suffix}", log)
        Path(f"{log}{suffix}").unlink()


@_built
def _packed(here: Recorder):
    """Segments packed by gzip and zstd, whole, torn and damaged."""
    folder = _log("orders-0", 40)
    log = next(folder.glob("*.log"))
    data = log.read_bytes()
    log.unlink()
    packed = {".gz": gzip.compress(data, 6, mtime=0), ".zst": zstandard.compress(data, 3)}
    damage = {"whole": lambda d: d, "torn": lambda d: d[: len(d) * 2 // 3], "flipped": folders.flip(300, 2)}
    for suffix, stored in packed.items():
        for how, change in damage.items():
            path = Path(f"{log}{suffix}")
            path.write_bytes(change(stored))
            here.part = f"{suffix[1:]}-{how}"
            _calls(here, EVERY_FOLDER, folder)
            _calls(here, (f"cat F {one} --columns offset,value --errors skip" for one in RANGES[:6]), folder)
            _calls(
                here,
                ["scan F --last 2", "scan F --format json", f"cat {path} -n 2", f"explain {path} --offset 20"],
                folder,
            )
            path.unlink()


@_built
def _data_folder(here: Recorder):
    """A broker's folder: several partitions, checkpoints, folders that are deleted or stray, a coordinator's log."""
    parts = [
        folders.put(name) for name in ("txn-0", "compacted-0", "all-codecs-0", "orders-158", "__consumer_offsets-0")
    ]
    folders.data_folder(*parts[:3], recovery_point=60, replication=70, log_start=5, cleaner=10)
    Path("empty-3").mkdir()
    Path("gone-0.1b6e4b5c0d0e4d1e8f8c5a3f0e1d2c3b-delete").mkdir()
    _calls(here, _DATA_FOLDER)
    here.part = "damaged"
    folders.edit(sorted(parts[0].glob("*.log"))[-1], folders.flip(620, 1))
    folders.edit(sorted(parts[2].glob("*.log"))[0], lambda d: d[:-50])
    shutil.rmtree(parts[3])
    _calls(here, _DATA_FOLDER)


_DATA_FOLDER = f"""
ls
ls . --segments --format json
verify .
verify . --format json --all --strict
verify . --topic txn
txn .
txn . --format json --fail-if-hanging
salvage . -o out
salvage . -o out --as-partition --keep-end --format json
salvage . -o out --new-cluster --keep-end
salvage . -o out --dry-run
reindex . -o out
reindex . --dry-run --format json
cat . -n 12
cat . --isolation read_committed --columns topic,partition,offset --from-offset 60
scan . --columns file,base_offset,record_count -n 20
convert . -o out/ --compression none --format json --topic-id {_TOPIC_ID}
compact . -o out/ --format json --now 2026-11-23T00:00:00Z --topic-id {_TOPIC_ID}
diff txn-0 compacted-0
"""


@_built
def _producers(here: Recorder):
    """Sequences with a gap, a batch twice, a new epoch, a producer without a beginning."""
    steps = [(0, 0, 7), (3, 3, 7), (6, 9, 7), (9, 9, 7), (12, 12, 7), (15, 40, 8), (18, 43, 8), (21, 0, 8)]
    batches = [_batch(base, producer=producer, sequence=sequence) for base, sequence, producer in steps]
    folder = plain_logs.log(Path("orders-0"), batches[:4], batches[4:], epochs=[(0, 0)])
    _calls(here, EVERY_FOLDER, folder)
    _calls(here, ["verify F --sequences", "verify F --sequences --strict", "dump F"], folder)


@_built
def _open_transactions(here: Recorder):
    """One that hangs, one that is open, one aborted, one committed; the same with each marker damaged."""
    flags = {"attributes": builders.TRANSACTIONAL}
    parts, at = [], 0
    for producer, end in [(7, None), (8, False), (9, True), (8, True), (10, None)]:
        now = 1_700_000_000_000 + at * 400_000
        fields = {"producer_id": producer, "producer_epoch": 1, "base_timestamp": now}
        parts.append(batch(at, 2, base_sequence=at, **flags, **fields))
        at += 2
        if end is not None:
            parts.append(builders.end_marker(at, commit=end, **fields))
            at += 1
    plain_logs.log(Path("orders-0"), parts, epochs=[(0, 0)])
    log = Path("orders-0") / f"{0:020}.log"
    whole = log.read_bytes()
    lines = [*EVERY_FOLDER.strip().splitlines(), "txn F --hanging-after 5m", "txn F --fail-if-hanging",
             "txn F --state committed --format json", "salvage F -o out --undecided commit --format json",
             "salvage F -o out --undecided aside --format json", "cat F --isolation read_committed --errors skip",
             "reindex F -o out --index-interval 100"]  # fmt: skip
    _calls(here, lines, "orders-0")
    starts = folders.borders(whole)
    for number, start in enumerate(starts):
        log.write_bytes(folders.flip(start + 20, 3)(whole))
        here.part = f"batch-{number}"
        _calls(here, lines, "orders-0")


@_built
def _gaps(here: Recorder):
    """Offsets that are missing inside a segment, between two, and before the first."""
    folder = plain_logs.log(
        Path("orders-0"), [_batch(30), _batch(33), _batch(60)], [_batch(90), _batch(93)], epochs=[(0, 0)]
    )
    _calls(here, EVERY_FOLDER, folder)
    shutil.copytree(folder, "again/orders-0")
    _calls(here, ["diff F again/orders-0"], folder)


@_built
def _epochs(here: Recorder):
    """Leader epochs that fall, that rise without a line, and lines that no batch has."""
    folder = plain_logs.log(
        Path("orders-0"), [_batch(0, epoch=3), _batch(3, epoch=5), _batch(6, epoch=4), _batch(9, epoch=9)],
        epochs=[(3, 0), (4, 6), (7, 9)],
    )  # fmt: skip
    _calls(here, EVERY_FOLDER, folder)


@_built
def _standard_input(here: Recorder):
    """Each verb that reads `-`, for a sound log, a damaged one, and bytes that are no log."""
    folder = _log("orders-0", 6)
    sound = next(folder.glob("*.log")).read_bytes()
    files = {
        "sound": sound,
        "damaged": folders.flip(200, 1)(sound),
        "cut": sound[:-9],
        "none": b"not a log\n" * 9,
        "empty": b"",
    }
    for name, data in files.items():
        Path("given").write_bytes(data)
        here.part = name
        _calls(here, _STANDARD_INPUT)


_STANDARD_INPUT = """
cat - --topic orders < given
cat - --errors skip --last 2 < given
cat - --from-offset 4 --to-offset 9 < given
scan - < given
verify - < given
verify - --format json < given
txn - < given
explain - --records 1 < given
dump - --print-data-log < given
convert - -o out.log --compression zstd < given
compact - -o out.log < given
salvage - -o out --topic orders --partition 0 < given
ls - < given
build - -o out.log < given
"""


@_built
def _refusals(here: Recorder):
    """Wrong words, outputs that are inputs, files that are not there or not what they should be."""
    folder = folders.put("txn-0")
    log = sorted(folder.glob("*.log"))[0]
    Path("exists.json").write_text("{}\n")
    Path("folder-0").mkdir()
    Path("text.log").write_text("no batches here, only words\n" * 4)
    Path("empty.log").write_bytes(b"")
    Path("broken.log").symlink_to("nowhere.log")
    _calls(here, [line for verb in _VERBS for line in (
        verb, f"{verb} missing-0", f"{verb} text.log", f"{verb} empty.log", f"{verb} broken.log", f"{verb} folder-0",
        f"{verb} F --no-such-option", f"{verb} F -o {log}", f"{verb} F -o exists.json", f"{verb} F --format xml",
        f"{verb} F --topic", f"{verb} F --partition x",
    )] + _REFUSED.strip().splitlines(), folder)  # fmt: skip


_VERBS = ("ls", "scan", "cat", "dump", "verify", "explain", "salvage", "txn", "reindex", "convert", "compact", "study")
_REFUSED = """
no-such-verb
F
ver F
cat F --last -1
cat F -n x
cat F --from-time yesterday
cat F --from-time 1700000000
cat F --columns offset,colour
cat F --isolation dirty
cat F --from-offset 9 --to-offset 3
cat F -o out.txt
cat F -o out.csv --format json -n 2
cat F -o txn-0/out.json
cat F --value-as int32 -n 2
cat F --key
cat F F
scan F --columns base_offset,colour
verify F --html exists.json
verify F -o out.xml
verify F --threads 0
verify F --max-decompressed-bytes 10
verify F --max-decompressed-bytes lots
salvage F
salvage F -o F
salvage F -o txn-0/out
salvage F -o out --undecided maybe
salvage F -o out --use missing
reindex F
reindex F -o F
txn F --state finished
txn F --hanging-after soon
explain F --at 5
explain F --at 99999999
explain F --offset 99999
explain F --offset 99999
diff F
diff F missing-0
diff F text.log
dump F --files missing.log
dump exists.json
convert F -o out.log --compression lzma
convert F -o out.log --magic 3
convert F -o out.log --compression zstd --level 99
convert F -o out.log --batch-size none
convert F -o txn-0/out.log
compact F -o out.log --now then
build missing.jsonl -o out.log
build exists.json -o out.log
study F --codecs none,lzma
study F --formats 7
"""


@_built
def _rows_in(here: Recorder):
    """`build` from rows of each form, with the options of batches; what `cat` prints of it."""
    rows = [
        {"offset": n * 2, "timestamp": 1_700_000_000_000 + n, "key": None if n % 4 == 3 else f"k{n % 3}",
         "value": None if n == 5 else f"value {n}", "headers": [{"key": "h", "value": "x"}] * (n % 3)}
        for n in range(12)
    ]  # fmt: skip
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Path("rows.csv").write_text(
        "offset,timestamp,key,value\n" + "".join(f'{n},17000000000{n:02},k,"a ""b"", c"\n' for n in range(5))
    )
    bad = [json.dumps(rows[0]), '{"offset": "x"}', "{not json", json.dumps(rows[1]), '{"offset": 0, "colour": 1}']
    Path("bad.jsonl").write_text("".join(f"{line}\n" for line in bad))
    encoded = {"value_base64": base64.b64encode(b"\xff\x00").decode(), "key_hex": "00ff"}
    Path("bytes.jsonl").write_text(json.dumps(encoded) + "\n")
    _calls(here, _ROWS_IN)
    for options in ("", "--compression zstd --batch-size 100", "--magic 1", "--magic 0 --compression lz4"):
        here.part = f"cat {options}"
        Path("orders-0").exists() and shutil.rmtree("orders-0")
        here.run(f"build rows.jsonl -o orders-0 {options}".strip())
        _calls(here, ["cat F", "cat F --format csv", "scan F", "verify F --format json"], "orders-0")


_ROWS_IN = f"""
build rows.jsonl -o out.log
build rows.jsonl -o out/ --topic-id {_TOPIC_ID}
build rows.jsonl -o out-0/ --segment-bytes 300 --index-interval 100 --topic-id {_TOPIC_ID}
build rows.jsonl -o out.log --base-offset 100
build rows.jsonl -o out.log --columns offset,value
build rows.csv -o out.log
build rows.csv -o out.log --value-as json
build bytes.jsonl -o out.log
build bad.jsonl -o out.log
build bad.jsonl -o out.log --errors skip
build rows.jsonl -o out.log --key-as int32
build rows.jsonl -o out.log --magic 1
build rows.jsonl rows.csv -o out.log
"""


@_built
def _rewritten(here: Recorder):
    """`convert` and `compact` of logs with all that they must keep, lose or refuse."""
    folder = folders.put("txn-0")
    _calls(here, _REWRITTEN, folder)
    for name, arguments in {"magic0": {"magic": 0}, "magic1": {"magic": 1, "codec": "snappy"}}.items():
        here.part = name
        _calls(here, _REWRITTEN, _log(f"{name}-0", 8, **arguments))
    here.part = "damaged"
    folders.edit(sorted(folder.glob("*.log"))[-1], folders.flip(700, 1))
    _calls(here, _REWRITTEN, folder)
    here.part = "tombstones"
    dead = [builders.batch(
        [builders.record(offset_delta=n, key=b"k%d" % n, value=None if (base + n) % 3 else b"v") for n in range(4)],
        base_offset=base, base_timestamp=1_700_000_000_000 + base) for base in range(0, 40, 4)]  # fmt: skip
    _calls(here, _REWRITTEN, plain_logs.log(Path("users-0"), dead[:5], dead[5:]))


_REWRITTEN = f"""
convert F -o out.log --magic 2 --compression none
convert F -o out.log --magic 0 --format json
convert F -o out.log --magic 0 --on-loss raise
convert F -o out.log --magic keep --compression lz4 --errors skip --format json
convert F -o out.log --batch-size 1m --compression none --errors skip
convert F -o out.log --batch-size 200 --compression none --errors skip
convert F -o out-0 --segment-bytes 2000 --compression none --errors skip --topic-id {_TOPIC_ID}
compact F -o out.log --now 2023-11-14T22:14:00Z
compact F -o out.log --now 2026-11-23T00:00:00Z
compact F -o out.log --now 2026-11-23T00:00:00Z
compact F -o out.log --now 2026-11-23T00:00:00Z --producer-expiration-ms 0 --format json
compact F -o out-0 --now 2026-11-23T00:00:00Z --segment-bytes 2000 --topic-id {_TOPIC_ID}
compact F -o out.log --now 2026-11-23T00:00:00Z --max-decompressed-message-bytes 10
"""


@_built
def _studied(here: Recorder):
    for name in ("all-codecs-0", "compacted-0"):
        folder = folders.put(name)
        _calls(here, [
            "study F --all --codecs none,lz4,zstd:1 --batch-sizes keep,16k --format json",
            "study F --all --codecs none,lz4 --formats 0,1,2,3,header-first --batch-sizes keep --format json",
            "study F --sample 2k --codecs none,snappy --batch-sizes keep --format json",
        ], folder)  # fmt: skip


@_built
def _internal_topics(here: Recorder):
    for name, decoder in {"__consumer_offsets-0": "offsets", "__cluster_metadata-0": "cluster-metadata"}.items():
        folder = folders.put(name)
        _calls(here, ["cat F", "cat F --raw -n 20", "cat F --format csv -n 5", f"dump F --{decoder}-decoder",
                      "dump F --deep-iteration", "cat F --columns key,value -n 3"], folder)  # fmt: skip


@_built
def _dumped(here: Recorder):
    """`dump` of each kind of file, with the options of Kafka's tool."""
    folder = folders.put("txn-0")
    for path in sorted(folder.iterdir()):
        _calls(here, [f"dump {path}"])
    first = sorted(folder.glob("*.log"))[0]
    index = first.with_suffix(".index")
    _calls(here, [
        f"dump {first} --max-bytes 600", f"dump {first} --print-data-log --skip-record-metadata",
        f"dump {first} --deep-iteration", f"dump {first} --max-message-size 100", f"dump --files {first}",
        f"dump {index} --verify-index-only", f"dump {index} --index-sanity-check",
        f"dump {first.with_suffix('.timeindex')} --verify-index-only",
        f"dump {first} --print-data-log --key-decoder-class org.apache.kafka.common.serialization.LongDecoder",
    ])  # fmt: skip
    here.part = "damaged"
    folders.edit(first, folders.flip(400, 1))
    folders.edit(index, lambda d: d + b"\0\0\1\0\0\0\2\0")
    _calls(
        here,
        [f"dump {first}", f"dump {first} --print-data-log", f"dump {index}", "dump F"],
        folder,
    )


@_built
def _explained(here: Recorder):
    folder = folders.put("all-codecs-0")
    _calls(here, [
        "explain F --offset 40", "explain F --offset 0 --records 1", "explain F --offset 60 --redact --full",
        "explain F --offset 70 --format json", "explain F --offset 80 --html out.html", "explain F --at 0",
    ], folder)  # fmt: skip


@_built
def _zeros_in_a_batch(here: Recorder):
    log = plain_logs.log(Path("orders-0"), [batch(0, 1, value=bytes(range(1, 256)) * 12)])
    folders.edit(log / f"{0:020}.log", folders.zeros(700, 1400))
    _calls(here, ["explain F", "explain F --format json"], log)


@_built
def _conflicting_replicas(here: Recorder):
    """The same offsets and epoch, other records: the batch with more of them is kept."""
    batches = [_batch(3 * n) for n in range(6)]
    fewer = builders.batch([builders.record(offset_delta=2, value=b"the last one")], base_offset=9, last_offset_delta=2)
    plain_logs.log(Path("a/orders-0"), [*batches[:3], fewer, *batches[4:]])
    plain_logs.log(Path("b/orders-0"), batches)
    _calls(here, _REPLICAS.replace("txn-0", "orders-0"))


@_built
def _epoch_without_batches(here: Recorder):
    """A leader of epoch 4 wrote nothing: its epoch begins at the log's end."""
    batches = [_batch(3 * n, epoch=2) for n in range(6)]
    plain_logs.log(Path("a/orders-0"), batches, epochs=[(2, 0), (4, 18)])
    plain_logs.log(Path("b/orders-0"), [*batches, _batch(18, epoch=3)], epochs=[(2, 0), (3, 18)])
    _calls(here, _REPLICAS.replace("txn-0", "orders-0"))


@_built
def _wrong_indexes(here: Recorder):
    """A time entry too far behind, beside a right .index; an .index with two wrong entries; an empty .timeindex."""
    folder = _log("orders-0", 20)
    log = folder / f"{0:020}.log"
    at = folders.borders(log.read_bytes())
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    index.write_bytes(offset_index.write([(44, at[14])], 0))
    times.write_bytes(time_index.write([(1_700_000_000_050, 44), (1_700_000_000_192, 59)], 0))
    _calls(here, ["cat F --from-time 1700000000060 --columns offset,timestamp", f"dump {times}", "verify F"], folder)
    index.write_bytes(offset_index.write([(20, at[4]), (40, at[9]), (50, at[16])], 0))
    here.part = "wrong .index"
    _calls(here, [f"dump {index}", "verify F", "reindex F --dry-run"], folder)
    here.part = "empty .timeindex"
    folder = folders.put("txn-0")
    sorted(folder.glob("*.timeindex"))[0].write_bytes(b"")
    (folder / f"{1:020}.snapshot").write_bytes(
        producer_snapshot.write([SnapshotEntry(7, 0, 0, 0, 0, 1_700_000_000_000, -1, 0)])
    )
    _calls(here, ["verify F", f"dump {folder}/{1:020}.snapshot"], folder)


@_built
def _last_batch_by_its_index(here: Recorder):
    """A cleaned log: behind a gap only the .index says what the last batch's offset was."""
    folder = plain_logs.log(Path("orders-0"), [*(_batch(3 * n) for n in range(10)), _batch(33)])
    log = folder / f"{0:020}.log"
    last = folders.borders(log.read_bytes())[-1]
    log.with_suffix(".index").write_bytes(offset_index.write([(35, last)], 0))
    folders.edit(log, folders.flip(last + 7, 5))
    _calls(here, _HEADER_CALLS, folder)


@_built
def _many_open_transactions(here: Recorder):
    events = [
        transaction_logs.Event(transaction_logs.DATA, 100 + n, n, 1, time=1_700_000_000_000 + n) for n in range(25)
    ]
    folder = plain_logs.log(Path("orders-0"), [transaction_logs.as_bytes(events)])
    _calls(here, ["txn F", "txn F --all"], folder)


@_built
def _ends(here: Recorder):
    """Files that name offsets above the log's end."""
    cases = {
        "snapshot": lambda f: shutil.copy(sorted(f.glob("*.snapshot"))[-1], f / f"{5000:020}.snapshot"),
        "index-alone": lambda f: shutil.copy(sorted(f.glob("*.index"))[-1], f / f"{5000:020}.index"),
        "segment-alone": lambda f: (f / f"{5000:020}.log").write_bytes(b""),
        "zeros": lambda f: os.truncate(sorted(f.glob("*.log"))[-1], 1 << 20),
        "checkpoints": lambda f: folders.data_folder(f, recovery_point=5000, replication=4000),
        "start-above": lambda f: folders.data_folder(f, log_start=5000),
        "cut": lambda f: os.truncate(sorted(f.glob("*.log"))[-1], 1000),
    }
    for name, change in cases.items():
        Path(name).mkdir()
        os.chdir(name)
        folder = folders.put("txn-0")
        change(folder)
        here.part = name
        _calls(here, EVERY_FOLDER, folder)
        _calls(here, ["salvage F -o out --keep-end --as-partition --format json", "cat F --last 2"], folder)
        os.chdir("..")


@_built
def _python(here: Recorder):
    python_calls.of_writers(here)
    for name in ("txn-0", "all-codecs-0", "compacted-0"):
        here.part = name
        folder = folders.put(name)
        python_calls.of_log(here, folder)
        python_calls.of_side_files(here, folder)
        data = sorted(folder.glob("*.log"))[0].read_bytes()[:6000]
        python_calls.of_options(here, data)
        here.part = f"{name}, damaged"
        python_calls.of_options(here, folders.flip(100, 3)(data))


@_built
def _formats(here: Recorder):
    """Records as Parquet, Arrow and CSV, and back."""
    folder = folders.put("txn-0")
    _calls(here, _FORMATS, folder)
    for name in ("rows.parquet", "rows.arrow", "rows.csv"):
        here.run(f"cat {folder} -n 40 -o {name} --columns offset,timestamp,key,value,headers,producer_id,base_offset")
        _calls(here, [f"build {name} -o out.log", f"build {name} -o out.log --columns offset,key --magic 1"])


_FORMATS = """
cat F -o out.parquet
cat F -o out.arrow --columns offset,key,headers,is_control --control -n 30
cat F -o out.csv -n 20
cat F --format csv --columns key,value,headers --value-as hex
cat F --format json --key-as base64 --time-format iso -n 5
cat F --value-as int64 -n 4
scan F --columns base_offset,max_timestamp,producer_id --last 4
"""


@_built
def _urls(here: Recorder):
    """The same by a URL, which is read through another library, by ranges."""
    folder = folders.put("txn-0")
    url = f"file://{folder.resolve()}"
    _calls(here, ["ls F", "cat F -n 3", "scan F --last 2", "txn F", "verify F", "cat F --from-offset 250"], url)
    folders.edit(sorted(folder.glob("*.log"))[0], folders.flip(400, 1))
    here.part = "damaged"
    _calls(here, ["ls F", "ls F --full", "cat F --errors skip --columns offset", "verify F --format json"], url)
    _calls(here, ["cat file:///nowhere/at/all", "ls nosuch://bucket/x", f"cat {url}/{0:020}.index"])


@_built
def _many_partitions(here: Recorder):
    """More than a screen of them, each damaged in another way: the worst first, and how many are not shown."""
    ways = list(folders.damages("deleted-1551").values())
    for number in range(30):
        ways[number](folders.put("deleted-1551", Path(f"data/t{number % 4}-{number}")))
    _calls(here, ["ls data", "verify data", "verify data --all", "txn data", "salvage data -o out --dry-run"])


@_built
def _prepared(here: Recorder):
    """Transactions whose markers are lost, beside a coordinator's log that knows how they ended, or does not."""
    folder = folders.put("orders-158")
    log = sorted(folder.glob("*.log"))[0]
    producers = sorted({row["producer_id"] for row in kafkarec.scan(log.read_bytes()) if row["producer_id"]})
    states = [(f"app-{producer}", producer, number % 7) for number, producer in enumerate(producers)]
    transaction_logs.transaction_state(Path("__transaction_state-0"), *states)
    for start in folders.borders(log.read_bytes())[2::3]:
        whole = log.read_bytes()
        folders.edit(log, folders.zeros(start, 70))
        here.part = f"byte {start}"
        _calls(here, ["txn F", "cat F --isolation read_committed --errors skip --columns offset", "verify .",
                      "salvage F -o out --as-partition --format json"], folder)  # fmt: skip
        log.write_bytes(whole)
    here.part = ""
    _calls(here, ["cat __transaction_state-0", "dump __transaction_state-0 --transaction-log-decoder", "txn ."])


@_built
def _windows(here: Recorder):
    """A segment of several windows of a reader, with damage across one of their ends, and a batch of 3 MiB."""
    big = batch(300, 1, codec="none", value=bytes(range(256)) * 12_000)
    batches = [batch(3 * n, 3, base_timestamp=1_700_000_000_000 + n) for n in range(100)]
    rest = [batch(301 + n, 1, value=b"%06d" % n * 9000) for n in range(60)]
    folder = plain_logs.log(Path("orders-0"), [*batches, big, *rest], epochs=[(0, 0)])
    log = next(folder.glob("*.log"))
    _calls(here, _WINDOWS, folder)
    for name, at in {"inside": 1_500_000, "border": 4 << 20, "late": log.stat().st_size - 60_000}.items():
        whole = log.read_bytes()
        folders.edit(log, folders.zeros(at - 300, 600))
        here.part = name
        _calls(here, _WINDOWS, folder)
        log.write_bytes(whole)


_WINDOWS = """
ls F
scan F --errors skip --columns position,base_offset,size_in_bytes
verify F --format json
cat F --errors skip --columns offset --last 3
cat F --errors skip --columns offset --from-offset 295 --to-offset 310
salvage F -o out
"""
