"""The reference page of damage: reasons and exceptions from `kafkarec.errors`, findings from
`kafkarec.ops.verify.finding_kinds`."""

from __future__ import annotations

DAMAGE = """\
# Damage: the reasons

<!-- written by tools/make_docs.py from kafkarec/errors.py and kafkarec/ops/verify/finding_kinds.py: do not edit -->

One word says why bytes were refused. It is the same in the exception (`error.reason`), in `.damage` under
`errors="skip"`, in the JSON of the command line and in Spark's `_corrupt_record`. The list is closed: words
are only added, and the changelog lists each.

```python
import kafkarec

data = bytearray(open("examples/data/all-codecs-0/00000000000000000000.log", "rb").read())
data[9000] ^= 0x10  # one flipped bit

columns = kafkarec.decode(data, errors="skip")
for damage in columns.damage:
    print(damage.position, damage.length, damage.lost_from, damage.lost_to, damage.reason)
```

```text
7755 2586 129 171 crc_mismatch
```

| field | meaning |
|---|---|
| `file` | the file, when one was read |
| `position`, `length` | the bytes that are not a good batch, in the input |
| `lost_from` | the first offset that may be lost: next offset of the good batch before; null without one |
| `lost_to` | the last one: the base offset of the next good batch - 1; on compacted logs an upper bound |
| `next_position` | where reading continued |
| `reason` | a word from the table below |
| `detail` | the message, with both sides of the comparison that failed |

A batch whose first 17 bytes are damaged, which no checksum covers, may still be a good one: `.restored` lists those
whose length, magic, base offset or leader epoch the checksum or the neighbours prove, with stored and used value.
[Restored batches](restored.md) says what proves what; `restore=False` gives them as damage.

Always: the bytes of all good batches + the bytes of all damage + what remains at the end = the bytes of
the input. Messages never contain key, value or header bytes, so they can be pasted into a ticket.

## Reasons

The numbers are in `error.expected` and `error.found`. "What to do" is for a log on disk; [Rescue a
disk](howto/rescue.md) shows all steps.

| reason | meaning | numbers | what to do | exception |
|---|---|---|---|---|
"""

FAMILY = """
## The exceptions

All are `ValueError`s of one family; bytes never raise any other. Each has `position`, `base_offset`,
`next_position`, `reason`, `expected`, `found`, `file`, and can be pickled with them.

| exception | is a | meaning |
|---|---|---|
"""

FINDINGS = """
## Other findings of `verify`

Findings are about batches that can be read, about the other files of a partition, and about gaps between batches. Their
words are in square brackets in the report and under `kind` in the JSON.

* **error**: the log contradicts itself; exit status 1
* **anomaly**: Kafka reads it without an error, but never writes it; exit status 1 with `--strict`
* **note**: has a known cause; nothing to do

`end_lost`, `end_was_longer` and `start_above_end` come from other files that refer to offsets after the end of the log:
[Is the end of the log there?](howto/rescue.md#is-the-end-of-the-log-there) says which files, and what each proves.

| finding | severity | meaning | what to do |
|---|---|---|---|
"""

SIDE_FILES = """
## Side files

What each is for, what a broker (4.4) does with a bad one, and what helps. `kafkarec reindex LOG -o NEW` writes the
first five from the batches into another folder, to be copied with the broker stopped; `kafkarec salvage --as-partition`
writes all files of a partition's folder. No record is lost with them; only the topic's id is nowhere else.

| file | for | a broker | what helps |
|---|---|---|---|
"""

# file, what it is for, what a broker does with a bad one, what helps
_SIDE_FILES = (
    (
        "`.index`",
        "the byte at which an offset is searched",
        "does not check it at its start: fetches begin at wrong bytes, and fail or skip records. Of a missing one "
        "it recovers the segment: it makes all three indexes anew",
        "`reindex`; or delete it",
    ),
    (
        "`.timeindex`",
        "the offset of a time; the age of a segment",
        "does not check it: searches by time find other offsets, and retention deletes too early or too late. A "
        "missing one is made empty: searches read the segment",
        "`reindex`; or delete the `.index` beside it, too",
    ),
    (
        "`.txnindex`",
        "the aborted transactions of a segment",
        "checks its format, and recovers the segment if that is wrong. A missing one means that nothing was "
        "aborted: read_committed consumers get aborted records",
        "`reindex`; or delete the `.index` beside it, too",
    ),
    (
        "`.snapshot`",
        "producers: epochs, sequences, open transactions",
        "deletes one that is malformed, or whose checksum is wrong, takes the one before it, and reads the log "
        "from there. It believes any other: batches are refused (OUT_OF_ORDER_SEQUENCE_NUMBER), or stored twice",
        "`reindex`; or delete it, if there is one before it",
    ),
    (
        "`leader-epoch-checkpoint`",
        "where each leader's epoch begins: where a follower truncates (KIP-101)",
        "takes a malformed one for a failed disk: the whole data folder goes offline. Of a missing one it knows "
        "only the epochs of segments that it recovers, and those to come",
        "`reindex`",
    ),
    (
        "`partition.metadata`",
        "the topic's id",
        "takes a malformed one for a failed disk, too. A folder without one is stray for a KRaft broker, another "
        "id is another topic",
        "two lines of text: `version: 0` and `topic_id: ` with the id that `kafka-topics.sh --describe` prints; "
        "or the file of a replica",
    ),
    (
        "`meta.properties` of the data folder",
        "the ids of cluster, broker and folder",
        "does not start on the folder",
        "copy it from a backup, or write one with these ids",
    ),
    (
        "`recovery-point-offset-checkpoint` and the three other `*-checkpoint` files of the data folder",
        "what is flushed, deleted, replicated, cleaned",
        "takes a malformed one for a failed disk. Of missing ones: recovers every log, begins each at its first "
        "segment, learns the high watermark again, cleans from the start",
        "delete it: a new one is written",
    ),
)


def page() -> str:
    from kafkarec import errors
    from kafkarec.ops.verify.finding_kinds import KINDS

    rows = [
        f"| `{word}` | {reason.sentence} | {_numbers(reason.expected, reason.found)} | {reason.advice} "
        f"| `{reason.error.__name__}` |"
        for word, reason in errors.REASONS.items()
    ]
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    # a class may have a second name there
    family = dict.fromkeys(cls for cls in classes if issubclass(cls, errors.KafkaRecordError))
    family_rows = [f"| `{cls.__name__}` | `{cls.__bases__[0].__name__}` | {_sentence(cls.__doc__)} |" for cls in family]
    found = [
        f"| `{word}` | {' or '.join(kind.severities)} | {kind.violation} | {kind.advice} |"
        for word, kind in KINDS.items()
    ]
    tables = ("\n".join(table) + "\n" for table in (rows, found, family_rows))
    side_files = "".join(f"| {' | '.join(row)} |\n" for row in _SIDE_FILES)
    heads = (DAMAGE, FINDINGS, SIDE_FILES + side_files + FAMILY)
    return "".join(part for pair in zip(heads, tables, strict=True) for part in pair)


def _numbers(expected: str, found: str) -> str:
    return ", ".join(filter(None, (expected, found)))


def _sentence(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())
