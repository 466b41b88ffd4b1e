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
REFUSED = [
    # the verb, its options and their values
    ("", 2, "no verb given"),
    ("verify TXN --thread 2", 2, "unrecognized arguments: --thread 2 (see kafkarec verify --help)"),
    ("cat LOG -n 3 --last 3", 2, "not allowed with"),
    ("cat - -", 2, "standard input (-) can be read only once"),
    # columns, keys, times, numbers
    ("cat LOG --columns offset,offset", 2, "column named twice: offset"),
    ("cat LOG --columns ''", 2, "no column given"),
    ("cat LOG --key xyz --key-as hex", 2, "--key 'xyz' is not hex"),
    ("cat LOG --key 3000000000 --key-as int32", 2, "is not int32"),
    ("cat LOG --to-time 1795168800000000", 2, "looks like microseconds, and a bare number is milliseconds; write"),
    ("cat LOG --to-time 1795168800000000000", 2, "looks like nanoseconds, and a bare number is milliseconds; write"),
    ("cat LOG --to-time 9223372036854775808", 2, "'9223372036854775808' is not a time of 64 bits"),
    ("cat LOG --from-time=-1000000000000000000w", 2, "is not a time of 64 bits"),
    ("cat LOG --from-offset 9223372036854775808", 2, "'9223372036854775808' is not an offset of 64"),
    ("scan LOG --to-offset -9223372036854775809", 2, "'-9223372036854775809' is not an offset of 64"),
    ("cat LOG --partition 2147483648", 2, "'2147483648' is not a number of a partition, 0 to 2147483647"),
    ("salvage LOG -o new --topic a --partition=-1", 2, "'-1' is not a number of a partition"),
    ("convert LOG -o a.log --batch-size 0", 2, "--batch-size must be 1 or more"),
    ("compact LOG -o a.log --now -1", 2, "--now must be in 1970 or later"),
    ("convert LOG --threads 257", 2, "257 threads: 1 to 256"),
    ("verify LOG --threads two", 2, "two threads: 1 to 256"),
    # what is not there, or not of the kind that is needed
    ("diff ALL TXN", 2, "one is expected"),
    ("diff TXN -", 2, "- is standard input"),
    ("diff TXN orders-0", 3, "a folder without .log files"),
    ("explain ALL", 2, "partitions; name one"),
    ("explain orders-0", 3, "a folder without .log files"),
    ("explain LOG --at 99999999", 2, "the file ends at byte 50319"),
    ("explain LOG --at x", 2, "not a position"),
    ("explain LOG --at 0 --offset 2", 2, "not allowed with"),
    # what excludes each other
    ("cat TXN --latest-per-key --control", 2, "--control"),
    ("cat TXN --latest-per-key --columns control", 2, "leaves out control records"),
    ("cat TXN --latest-per-key --follow", 2, "--latest-per-key needs an end of the log"),
    ("cat TXN --follow --format parquet", 2, "needs an end, which --follow does not have; use json or csv"),
    ("cat TXN --follow -o new", 2, "appears when it is complete"),
    ("cat TXN --follow --to-offset 5", 2, "--follow has no end"),
    ("cat - -f", 2, "local files"),
    ("cat TXN --time-format iso -o new.parquet", 2, "--time-format"),
    ("cat TXN --value-as hex -o new.parquet", 2, "--value-as is for json and csv"),
    ("cat TXN --key-as hex -o new.arrow", 2, "--key-as is for json and csv"),
    ("cat TXN --partition-by topic", 2, "name it with -o DIR"),
    ("cat TXN --partition-by topic -o -", 2, "name it with -o DIR"),
    ("cat TXN --partition-by topic -o new --format csv", 2, "name it with -o DIR"),
    ("cat TXN --partition-by key -o new", 2, "there are topic, date"),
    ("cat CODECS --partition-by topic -o INSIDE", 2, "nothing is written there"),
    ("cat TXN --partition-by topic -o full --force", 2, "exists and is not empty; name a new folder"),
    # outputs (test_outputs.py has those that are inputs)
    ("verify TXN -o new.html", 2, "not html; --html FILE writes a page"),
    ("cat TXN -o new.avro", 2, "new.avro: cat writes json, csv, parquet, arrow, not avro"),
    ("cat TXN -o new.csv.gz", 2, "cat writes json, csv, parquet, arrow, not gz"),
    ("cat TXN -o new.csv.zst --format csv", 2, "cat writes json, csv, parquet, arrow, not zst"),
    ("cat TXN -o s3://b/x", 2, "-o s3://b/x is a URL, and outputs are written on this machine only"),
    ("convert TXN -o s3://b/x/", 2, "name a local file, and upload it afterwards"),
    ("salvage TXN -o file:///x", 2, "name it as a path: /x"),
    ("verify TXN --html a -o ./a", 2, "-o ./a and --html a are the same file"),
    ("explain TXN --html -", 2, "standard output and --html - are the same file"),
    ("study TXN --plot a.svg -o full/../a.svg", 2, "-o full/../a.svg and --plot a.svg are the same"),
    ("verify TXN --html plain.txt -o same --force", 2, "are the same file"),
    ("cat TXN -o full", 2, "-o full is a folder; name a file"),
    ("cat TXN -o new/", 2, "-o new/ is a folder; name a file"),
    ("cat TXN -o ''", 2, "-o: the name is empty; name a file"),
    ("cat ''", 2, "argument PATH: the name is empty; name a file or folder"),
    ("diff TXN ''", 2, "argument B: the name is empty; name a file or folder"),
    ("convert TXN -o orders-1 --segment-bytes 100", 2, "orders-1: the batch of base offset 0 needs --segment-bytes "),
    ("cat TXN -o loop --force", 2, "a symbolic link to itself"),
    ("salvage TXN -o full", 2, "is not empty"),
    ("salvage TXN -o new --topic x", 2, "--topic and --partition must be given together"),
    ("reindex TXN -o full", 2, "not empty"),
    ("reindex TXN -o plain.txt", 2, "is not a folder"),
    ("reindex TXN COPY -o new", 2, "same name"),
    ("reindex TXN --dry-run --index-interval 2147483648", 2, "not a number of bytes"),
    ("reindex TXN --dry-run --index-interval=-1", 2, "not a number of bytes"),
    ("convert TXN CODECS -o both.log", 2, "a second partition, and both.log is for one"),
    ("convert CODECS --level 3", 2, "--level needs --compression"),
    ("convert CODECS --magic 1 --compression zstd", 2, "--magic 1 does not support zstd"),
    ("compact TXN CODECS -o both.log", 2, "a second partition"),
    ("compact TXN --delete-retention-ms 1d", 2, "'1d' is not a number of milliseconds"),
    ("study TXN --codecs zstd:23", 2, "zstd has the levels -131072 to 22, not 23"),
    ("study TXN --codecs ,", 2, "the list is empty"),
    ("study TXN --batch-sizes 0", 2, "a batch size is 1 byte to 2 GiB"),
    ("study TXN --batch-sizes large", 2, "'large' is not a size"),
    ("study TXN --all --sample 1m", 2, "not allowed with argument"),
    ("study TXN --plot picture.txt", 2, "the name must end in one of .svg, .png, .pdf"),
    ("study TXN CODECS --plot two.svg", 2, "--plot needs a single partition, and there are 2"),
    ("build -o COPY", 2, "which is not a file of a partition"),
    ("build --columns offset,colour", 2, "no such column: colour"),
    ("build --topic-id xxxxxxxxxxxxxxxxxxxxxx -o a.log", 2, "--topic-id needs a partition folder"),
    ("build --timestamp 9223372036854775808", 2, "'9223372036854775808' is not a time of 64 bits"),
    ("build --timestamp -5", 2, "--timestamp must be in 1970 or later"),
    ("build --base-offset -5", 2, "--base-offset must be 0 or more"),
    # the status is that of Kafka's tool
    ("dump --max-bytes -1 x", 1, "is not a number of bytes from 0 to 2147483647"),
    ("dump --max-bytes 4294967296 x", 1, "is not a number of bytes from 0 to 2147483647"),
    ("dump --value-decoder-class com.example.Mine x", 1, "com.example.Mine is a Java class"),
    ("dump LOG -o gone/new", 1, "gone/new: no such file or directory"),
]


@pytest.mark.parametrize("line, status, message", REFUSED, ids=[line for line, _, _ in REFUSED])
def test_wrong_use_is_refused(run, tmp_path, monkeypatch, line, status, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}\n")))
    Path("orders-0").mkdir()
    Path("full").mkdir()
    for name in ("plain.txt", "full/mine"):
        Path(name).write_text("mine")
    os.link("plain.txt", "same")
    Path("loop").symlink_to("loop")
    before = sorted(tmp_path.rglob("*"))
    ran = run(*(PLACES.get(word, word) for word in shlex.split(line)))
    assert (ran.status, ran.out) == (status, b"")
    assert message in ran.complaint
    assert sorted(tmp_path.rglob("*")) == before and not PLACES["INSIDE"].exists()
    assert Path("plain.txt").read_text() == Path("full/mine").read_text() == "mine"
