"""The reference page of damage: reasons and exceptions from `kafkarec.errors`, findings from
`kafkarec.ops.verify.finding_kinds`.

The advice for each reason is here; a reason without advice stops the generator.
"""

from __future__ import annotations

DAMAGE = """\
# Damage: the reasons

<!-- written by tools/make_docs.py from kafkarec/errors.py and kafkarec/ops/verify/finding_kinds.py: do not edit -->

One word says why bytes were refused. It is the same in the exception (`error.reason`), in `.damage` under
`errors="skip"`, in the JSON of the command line and in Spark's `_corrupt_record`. The list is closed: a
word is only ever added, and that is a feature in the changelog.

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
| `next_position` | where reading went on |
| `reason` | a word from the table below |
| `detail` | the message, with both sides of the comparison that failed |

Always: the bytes of all good batches + the bytes of all damage + what remains at the end = the bytes of
the input. Messages never hold key, value or header bytes, so they can be pasted into a ticket.

## Reasons

The numbers are what `error.expected` and `error.found` hold. What to do is for a log on disk; in general
[Rescue a disk](howto/rescue.md) goes through it.

| reason | meaning | numbers | what to do | exception |
|---|---|---|---|---|
"""

_SALVAGE = "`salvage`: every other batch is saved; or take the batch from a replica: `diff`, `salvage A B`"
_EXPLAIN = "the checksum holds, so the bytes are as they were written: `explain` shows where; a writer's bug"
_REBUILD = "`reindex` makes a new one"
# reasons that share what to do -> what to do
_DO = {
    "size_too_small size_overflow batch_too_small length_beyond_end crc_mismatch inner_size_too_small "
    "inner_crc_mismatch": _SALVAGE,
    "unsupported_magic": f"no Kafka batch begins here, or a byte of it is damaged; {_SALVAGE}",
    "unsupported_codec": "as `unsupported_magic`: only codecs 0 to 4 exist",
    "missing_codec": "install what the message names; `doctor` lists all of them",
    "payload_corrupt": "the checksum holds, so a producer wrote it so: `explain`; consumers fail on it as well",
    "limit_exceeded": "trusted? `--max-decompressed-bytes 1g`, `max_decompressed_bytes=`; else leave it out",
    "record_count_negative records_missing records_left_over record_length_invalid record_structure_invalid "
    "varint_too_long key_length_invalid value_length_invalid header_count_invalid header_key_invalid "
    "header_value_invalid wrapper_value_null wrapper_empty wrapper_offset_too_small inner_compressed "
    "message_truncated": _EXPLAIN,
    "out_of_memory": "`stream`, or fewer columns, instead of `decode`",
    "unreadable": "the medium failed: copy it with ddrescue, then `verify` and `salvage` the copy",
    "control_record_invalid": "`read_committed` stops here; `explain` shows the record",
    "index_invalid snapshot_invalid": _REBUILD,
    "checkpoint_invalid": "leader-epoch-checkpoint: `reindex`; a data folder's: delete it, a broker writes it anew",
    "metadata_invalid": "take the file from another broker, or write it anew: it is a few lines of text",
    "message_invalid": "`cat --raw` shows the bytes; the record stays bytes elsewhere",
    "message_unknown": "written by a newer Kafka; the record stays bytes",
    "message_too_large": "the record stays bytes",
    "request_empty batch_not_alone batch_magic_differs offset_range_invalid record_count_invalid record_count_mismatch "
    "control_batch_refused sequence_invalid producer_state_invalid timestamp_negative records_rejected "
    "timestamps_rejected base_offset_not_zero leader_epoch_differs batch_too_large offsets_out_of_order": (
        "`validate` says what a broker would: mend what sends it, or change the setting that is named"
    ),
    "batch_not_rewritable": "leave that batch out: cut the log around it, or `salvage` it from a replica",
    "magic_unfit": "write it with magic 2, or `convert`, which counts what gets lost",
    "arrow_invalid": "the program that made the Arrow array is wrong; with pyarrow, `.validate(full=True)` says more",
    "tiered_object": "fetch the segment through the plugin, or let a broker do it; [Layouts](layouts.md)",
}

FAMILY = """
## The exceptions

All are `ValueError`s of one family; bytes never raise anything else. Each carries `position`, `base_offset`,
`next_position`, `reason`, `expected`, `found`, `file`, and survives pickling with them.

| exception | is a | meaning |
|---|---|---|
"""

FINDINGS = """
## What `verify` finds besides

Findings are about batches that can be read, about the files around them, and about what is missing between them. Their
words are in square brackets in the report and under `kind` in the JSON.

* **error**: the log contradicts itself; exit status 1
* **anomaly**: Kafka reads it in silence, and no writer of Kafka's makes it; exit status 1 with `--strict`
* **note**: explained, nothing to do

| finding | severity | meaning | what to do |
|---|---|---|---|
"""


def page() -> str:
    from kafkarec import errors
    from kafkarec.ops.verify.finding_kinds import KINDS

    todo = {reason: what for reasons, what in _DO.items() for reason in reasons.split()}
    if set(todo) != set(errors.REASONS):
        raise ValueError(f"tools/doc_damage.py: what to do about {set(todo) ^ set(errors.REASONS)}?")
    rows = [
        f"| `{word}` | {reason.sentence} | {_numbers(reason.expected, reason.found)} | {todo[word]} "
        f"| `{reason.error.__name__}` |"
        for word, reason in errors.REASONS.items()
    ]
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    # a class may have a second name there
    family = dict.fromkeys(cls for cls in classes if issubclass(cls, errors.KafkaRecordError))
    family_rows = [f"| `{cls.__name__}` | `{cls.__bases__[0].__name__}` | {_sentence(cls.__doc__)} |" for cls in family]
    found = [f"| `{word}` | {kind.severity} | {kind.sentence} | {kind.advice} |" for word, kind in KINDS.items()]
    tables = ("\n".join(table) + "\n" for table in (rows, found, family_rows))
    return "".join(part for pair in zip((DAMAGE, FINDINGS, FAMILY), tables, strict=True) for part in pair)


def _numbers(expected: str, found: str) -> str:
    return ", ".join(filter(None, (expected, found)))


def _sentence(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())
