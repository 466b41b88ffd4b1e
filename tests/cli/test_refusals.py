"""Wrong use: a command line, its exit status and the decisive part of the one line that is said. Nothing is written.

More of them are in the fence: `_refusals` of tests/support/fence/scenarios.py.
"""

import io
import os
import shlex
import sys
from pathlib import Path

import pytest
from paths import ROOT, SEGMENTS

CODECS = SEGMENTS / "all-codecs-0"
# Words of the command lines below; other paths are in the folder of the test.
PLACES = {
    "ALL": SEGMENTS,
    "TXN": SEGMENTS / "txn-0",
    "COPY": ROOT / "examples" / "data" / "txn-0",
    "CODECS": CODECS,
    "LOG": CODECS / f"{0:020}.log",
    "INSIDE": CODECS / "new-0",
}
REFUSED = {
    # the verb, its options and their values
    "": "no verb given",
    "verify TXN --thread 2": "unrecognized arguments: --thread 2 (see kafkarec verify --help)",
    "cat LOG -n 3 --last 3": "not allowed with",
    "cat - -": "standard input (-) can be read only once",
    "salvage - --use - -o new": "standard input (-) can be read only once",
    # columns, keys, times, numbers
    "cat LOG --columns offset,offset": "column named twice: offset",
    "cat LOG --columns ''": "no column given",
    "cat LOG --key xyz --key-as hex": "--key 'xyz' is not hex",
    "cat LOG --key 3000000000 --key-as int32": "is not int32",
    "cat LOG --to-time 1795168800000000": "looks like microseconds, and a bare number is milliseconds; write",
    "cat LOG --to-time 1795168800000000000": "looks like nanoseconds, and a bare number is milliseconds; write",
    "cat LOG --to-time 9223372036854775808": "'9223372036854775808' is not a time of 64 bits",
    "cat LOG --from-time=-1000000000000000000w": "is not a time of 64 bits",
    **{
        f"cat LOG --{option}={shlex.quote(text)}": f"--{option}: {text!r} is not a {kind}; write"
        for option, kind, texts in (
            ("from-time", "time", ["", "yesterday", "1h", "-1y", "2023-13-01", "12:00", "1e12", "9" * 20]),
            ("max-decompressed-bytes", "size", ["", "-1", "1.5g", "1t", "g"]),
        )
        for text in texts
    },
    "cat LOG --from-offset 9223372036854775808": "'9223372036854775808' is not an offset of 64",
    "scan LOG --to-offset -9223372036854775809": "'-9223372036854775809' is not an offset of 64",
    "cat LOG --partition 2147483648": "'2147483648' is not a number of a partition, 0 to 2147483647",
    "salvage LOG -o new --topic a --partition=-1": "'-1' is not a number of a partition",
    "convert LOG -o a.log --batch-size 0": "'0' is not a size from 1 to 2147483647",
    "compact LOG -o a.log --now -1": "--now must be in 1970 or later",
    "convert LOG --threads 257": "'257' is not a number of threads, 1 to 256",
    "verify LOG --threads two": "'two' is not a number of threads, 1 to 256",
    # what is not there, or not of the kind that is needed
    "diff ALL TXN": "partitions; name one",
    "diff TXN -": "- is standard input",
    "diff TXN orders-0": "a folder without .log files",
    "explain ALL": "partitions; name one",
    "explain orders-0": "a folder without .log files",
    "explain LOG --at 99999999": "the file ends at byte 50319",
    "explain LOG --at x": "not a position",
    "explain LOG --at 0 --offset 2": "not allowed with",
    # what excludes each other
    "cat TXN --latest-per-key --control": "--control",
    "cat TXN --latest-per-key --columns control": "leaves out control records",
    "cat TXN --latest-per-key --follow": "--follow has no end",
    "cat TXN --follow --format parquet": "it prints json or csv, to standard output",
    "cat TXN --follow -o new": "--follow has no end",
    "cat TXN --follow --to-offset 5": "--follow has no end",
    "cat - -f": "local files",
    "cat TXN --time-format iso -o new.parquet": "--time-format",
    "cat TXN --value-as hex -o new.parquet": "--value-as is for json and csv",
    "cat TXN --key-as hex -o new.arrow": "--key-as is for json and csv",
    "cat TXN --partition-by topic": "name it with -o DIR",
    "cat TXN --partition-by topic -o -": "name it with -o DIR",
    "cat TXN --partition-by topic -o new --format csv": "name it with -o DIR",
    "cat TXN --partition-by key -o new": "there are topic, date",
    "cat CODECS --partition-by topic -o INSIDE": "nothing is written there",
    "cat TXN --partition-by topic -o full --force": "exists and is not an empty folder; name a new one",
    # outputs (test_outputs.py has those that are inputs)
    "verify TXN -o new.html": "not html; --html FILE writes a page",
    "cat TXN -o new.avro": "new.avro: cat writes json, csv, parquet, arrow, not avro",
    "cat TXN -o new.csv.gz": "cat writes json, csv, parquet, arrow, not gz",
    "cat TXN -o new.csv.zst --format csv": "cat writes json, csv, parquet, arrow, not zst",
    "cat TXN -o s3://b/x": "-o s3://b/x is a URL, and outputs are written on this machine only",
    "convert TXN -o s3://b/x/": "name a local file, and upload it afterwards",
    "salvage TXN -o file:///x": "name it as a path: /x",
    "verify TXN --html a -o ./a": "-o ./a and --html a are the same file",
    "explain TXN --html -": "standard output and --html - are the same file",
    "study TXN --plot a.svg -o full/../a.svg": "-o full/../a.svg and --plot a.svg are the same",
    "verify TXN --html plain.txt -o same --force": "are the same file",
    "verify TXN --html missing/../plain.txt -o plain.txt --force": "are the same file",
    "cat TXN -o full": "-o full is a folder; name a file",
    "cat TXN -o new/": "-o new/ is a folder; name a file",
    "cat TXN -o ''": "-o: the name is empty; name a file",
    "cat ''": "argument PATH: the name is empty; name a file or folder",
    "diff TXN ''": "argument B: the name is empty; name a file or folder",
    "convert TXN -o orders-1 --segment-bytes 100": "orders-1: the batch of base offset 0 needs --segment-bytes ",
    "cat TXN -o loop --force": "a symbolic link to itself",
    "salvage TXN -o full": "is not empty",
    "salvage TXN -o new --topic x": "--topic and --partition must be given together",
    "reindex TXN -o full": "not an empty folder",
    "reindex TXN -o plain.txt": "is not a folder",
    "reindex TXN COPY -o new": "same name",
    "reindex TXN --dry-run --index-interval 2147483648": "not a number of bytes",
    "reindex TXN --dry-run --index-interval=-1": "not a number of bytes",
    "convert TXN CODECS -o both.log": "a second partition, and both.log is for one",
    "convert LOG --magic 1 --on-loss raise": "--on-loss raise needs -o",
    "convert CODECS --level 3": "--level needs --compression",
    "convert CODECS --magic 1 --compression zstd": "--magic 1 does not support zstd",
    "compact TXN CODECS -o both.log": "a second partition",
    "compact TXN --delete-retention-ms 1d": "'1d' is not a number of milliseconds",
    "study TXN --codecs zstd:23": "zstd has the levels -131072 to 22, not 23",
    "study TXN --codecs ,": "the list is empty",
    "study TXN --batch-sizes 0": "'0' is not a size from 1 to 2147483647",
    "study TXN --batch-sizes large": "'large' is not a size",
    "study TXN --all --sample 1m": "not allowed with argument",
    "study TXN --plot picture.txt": "the name must end in one of .svg, .png, .pdf",
    "study TXN CODECS --plot two.svg": "--plot needs a single partition, and there are 2",
    "build -o COPY": "exists and is not an empty folder; name a new one",
    "build --columns offset,colour": "no such column: colour",
    "build --topic-id xxxxxxxxxxxxxxxxxxxxxx -o a.log": "--topic-id needs a partition folder",
    "cat TXN --from-time 9223372036854775808": "'9223372036854775808' is not a time of 64 bits",
    "build --base-offset -5": "--base-offset must be 0 or more",
    "dump --max-bytes -1 x": "is not a number of bytes from 0 to 2147483647",
    "dump --max-bytes 4294967296 x": "is not a number of bytes from 0 to 2147483647",
    "dump --value-decoder-class com.example.Mine x": "com.example.Mine is a Java class",
    "dump LOG -o gone/new": "gone/new: no such file or directory",
}
STATUSES = {"diff TXN orders-0": 3, "explain orders-0": 3}  # of all others 2; of dump 1, as of Kafka's tool


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_use_is_refused(run, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    Path("orders-0").mkdir()
    Path("full").mkdir()
    for name in ("plain.txt", "full/mine"):
        Path(name).write_text("mine")
    os.link("plain.txt", "same")
    Path("loop").symlink_to("loop")
    before = sorted(tmp_path.rglob("*"))
    status = 1 if line.startswith("dump ") else STATUSES.get(line, 2)
    ran = run(*(PLACES.get(word, word) for word in shlex.split(line)))
    assert (ran.status, ran.out) == (status, b"")
    assert REFUSED[line] in ran.complaint
    assert sorted(tmp_path.rglob("*")) == before and not PLACES["INSIDE"].exists()
    assert Path("plain.txt").read_text() == Path("full/mine").read_text() == "mine"
