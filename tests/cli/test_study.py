"""`kafkarec study`: a text table, JSON, a plot; its estimates agree with the result of `convert`."""

import re
import shlex
from xml.etree import ElementTree

import plain_logs
from builders import flipped
from command import own_process, with_modules
from html_pages import parsed
from paths import SEGMENTS

import kafkarec
from kafkarec.ops.study import BATCH_SIZES, CODECS

CODEC_LOG = SEGMENTS / "all-codecs-0"


def log_of_similar_records(folder, count=4000):
    """A log of many small batches of similar records, which shrinks when it is converted."""
    rows = [(n, 1769860800000 + n, b"user-%d" % (n * 7919 % 50), b'{"visits": %d}' % n, []) for n in range(count)]
    with kafkarec.SegmentWriter(folder / "users-0", segment_bytes=1 << 20) as log:
        log.append(kafkarec.encode(rows, batch_size=300))
    return folder / "users-0"


def test_the_estimate_agrees_with_convert(run, tmp_path):
    log = log_of_similar_records(tmp_path / "logs")
    ran = run("study", log)
    assert (ran.status, ran.err) == (0, "")
    text = ran.text
    match = re.search(r"smallest +(\S+ \S+), .* less: kafkarec (convert .*)", text)
    assert match, text
    estimate = match[1]
    converted = run(*match[2].replace("new/", str(tmp_path / "new") + "/").split())
    assert converted.status == 0 and f"batches, {estimate} (" in converted.err.replace("batch, ", "batches, ")
    rows = [line for line in text.splitlines() if line.startswith(("unchanged", "16k", "128k", "1m"))]
    assert len(rows) == len(CODECS) * len(BATCH_SIZES)
    assert any(row.endswith("*") for row in rows) and not all(row.endswith("*") for row in rows)


def test_partitions_are_sorted_by_saving(run):
    ran = run("study", SEGMENTS, "--codecs", "zstd,gzip", "--batch-sizes", "keep,1m")
    lines = ran.text.splitlines()
    assert ran.status == 0 and lines[0].startswith("partition ") and lines[-2].startswith("total ")
    assert lines[-1] == "everything was read"
    assert len(lines) > 5 and any("all-codecs-0" in line for line in lines)
    cells = [re.split(r"  +", line) for line in lines[1:-2]]
    saved = [int(cell[1]) - int(cell[4]) for cell in cells]
    assert saved == sorted(saved, reverse=True) and saved[0] > 0


def test_a_sample_reports_how_much_was_read(run, tmp_path):
    log, options = log_of_similar_records(tmp_path, 20_000), ["--codecs", "lz4", "--batch-sizes", "keep"]
    text = run("study", log, "--sample", "64k", *options).text
    assert re.search(r"; 2 pieces read, 6\d\.\d KiB \(\d", text), text
    assert "±" in text
    text = run("study", log, "--all", *options).text
    assert "all read" in text and "±" not in text


def test_the_sample_is_a_budget_for_the_whole_folder(run, tmp_path):
    rows = [(n, 1769860800000 + n, b"k%d" % n, b'{"visits": %d}' % n, []) for n in range(200)]
    data = kafkarec.encode(rows, batch_size=300)
    for number in range(40):
        plain_logs.log(tmp_path / f"users-{number}", [data])
    size, how = len(data), ("--codecs", "zstd", "--batch-sizes", "16k")
    sampled = (*how, "--sample", str(10 * size))
    some, every = (run("study", tmp_path, *words).text.splitlines() for words in (sampled, (*how, "--all")))
    assert (len(some), len(every)) == (1 + 10 + 2, 1 + 40 + 2) and some[-2] == every[-2]  # the same total
    assert every[-1] == "everything was read"
    read = "(25 %), in 10 of 40 partitions; the total takes the others to be like them; --all reads everything"
    assert read in some[-1]
    *_, sample = run("study", tmp_path, *sampled, "--format", "json").rows
    counts = {"size": 40 * size, "sampled": 10 * size, "partitions": 40, "partitions_sampled": 10}
    assert sample == {"kind": "sample", **counts}


def test_damage_in_the_samples_is_reported(run, tmp_path):
    (tmp_path / "bad.log").write_bytes(flipped((CODEC_LOG / f"{0:020}.log").read_bytes(), 5000))
    ran = run("study", tmp_path / "bad.log")
    assert ran.status == 1 and "smallest" in ran.text
    assert f"1 damaged range in what was read, left out; see kafkarec verify {tmp_path / 'bad.log'}" in ran.complaint


def test_formats_add_columns(run):
    options = ("--codecs", "none,zstd:9", "--batch-sizes", "keep,64k")
    text = run("study", CODEC_LOG, *options, "--formats", "1,2,header-first").text
    lines = text.splitlines()
    (titles,) = (line for line in lines if line.startswith("format  "))
    assert re.split(" {2,}", titles) == [
        *("format", "batches", "codec", "level", "bytes", "of current", "write MB/s", "read MB/s", "note"),
    ]
    rows = [line for line in lines if re.match(r"(1|2|header-first) +(unchanged|64k|any) ", line)]
    assert len(rows) == 2 + 4 + 4 + 1
    assert all(row.endswith("loses headers, producer ids, leader epochs") for row in rows[:2])
    assert all(row.endswith("no broker reads it") for row in rows[6:10])
    assert re.fullmatch(r"1 +any +zstd +(- +){5}not tried: format 1 has no zstd", rows[10]), rows[10]
    assert "* best trade-off: no other candidate of its format is both smaller and faster to write" in lines
    (advice,) = (line for line in lines if line.startswith("smallest "))
    assert "kafkarec convert " in advice and advice.endswith("--compression zstd --level 9 --batch-size 64k")
    plain = run("study", CODEC_LOG, *options, "--formats", "2").text
    assert "\nbatches " in plain and "\nformat  " not in plain
    other = run("study", CODEC_LOG, *options, "--formats", "3").text
    assert "smallest      not looked for: only format 2 loses nothing and is read by every broker\n" in other


def test_a_page_has_the_lines_and_tables_of_the_text(run, tmp_path):
    log = log_of_similar_records(tmp_path / "<i>logs")
    page = tmp_path / "study.html"
    ran = run("study", log, "--formats", "2,3", "--codecs", "lz4,zstd:9", "--batch-sizes", "keep,64k", "--html", page)
    assert ran.status == 0
    found, lines = parsed(page), ran.text.splitlines()
    assert found.seen.count("table") == 1
    best = re.search(r"smallest .* less: (kafkarec convert .*)", lines[-1])
    assert best and best[1] in found.text and "<i>logs/users-0" in found.text
    for line in lines:
        assert all(cell in found.text for cell in re.split(" {2,}", line.strip())), line


def test_standard_input_is_studied():
    ran = own_process("study", "-", "--codecs", "zstd", "--batch-sizes", "1m", file=(CODEC_LOG / f"{0:020}.log").open())
    assert ran.status == 0 and ran.text.startswith("standard input: 49.1 KiB")
    assert "kafkarec convert - -o new/" in ran.text


def test_without_a_saving_and_without_speeds(run, tmp_path):
    (tmp_path / "t.log").write_bytes(kafkarec.encode([(n, n, None, bytes([n]), []) for n in range(3)]))
    ran = run("study", tmp_path / "t.log", "--codecs", "none", "--batch-sizes", "keep")
    assert ran.text.endswith("\nsmallest      the current batches\n")
    falling = b"".join(kafkarec.encode([(offset, 1, None, b"v", [])], magic=1) for offset in (5, 3))
    (tmp_path / "t.log").write_bytes(falling)
    ran = run("study", tmp_path / "t.log", "--codecs", "none", "--batch-sizes", "1m")
    assert re.search(r"^1m +none +- +\d+ +\d+\.\d % +- +\d+", ran.text, re.M), ran.text


def test_batches_above_the_limit_are_named_with_a_higher_one(run, tmp_path):
    path = tmp_path / "t.log"
    path.write_bytes(kafkarec.encode([(0, 1, None, b"v" * 5000, [])], compression="zstd"))
    options = ("--codecs", "none", "--batch-sizes", "keep")
    ran = run("study", path, *options, "--max-decompressed-bytes", 1000)
    assert ran.status == 3 and "(limit_exceeded), left out. With a higher limit: kafkarec study " in ran.err, ran.err
    again = run(*shlex.split(ran.err.splitlines()[0].partition("limit: kafkarec ")[2]))
    assert (again.status, again.err) == (0, "")


def test_a_plot_is_written(run, tmp_path):
    path = tmp_path / "study.svg"
    assert run("study", CODEC_LOG, "--codecs", "lz4,zstd:9", "--batch-sizes", "keep,64k", "--plot", path).status == 0
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg") and len(list(root.iter())) > 100
    nowhere = run("study", CODEC_LOG, "--codecs", "lz4", "--batch-sizes", "keep", "--plot", tmp_path / "no" / "a.png")
    assert nowhere.status == 3 and "no such file or directory" in nowhere.err


def test_missing_matplotlib_is_one_line(tmp_path):
    without = with_modules(tmp_path, matplotlib="raise ImportError('not here')")
    ran = own_process("study", CODEC_LOG, "--plot", tmp_path / "study.svg", env=without)
    assert (ran.status, ran.out) == (3, b"")
    assert ran.complaint == "kafkarec: --plot needs matplotlib: pip install 'kafkarec[study]'"


def test_a_part_of_every_partition(run, tmp_path):
    for topic in "ab":
        log_of_similar_records(tmp_path / topic, 30_000)
    options = ["--codecs", "lz4", "--batch-sizes", "keep", "--sample", "600k"]
    lines = run("study", tmp_path / "a" / "users-0", tmp_path / "b" / "users-0", *options).text.splitlines()
    assert len(lines) == 5 and re.search(r"^read: 6\d\d\.\d KiB of .*, of every partition; --all reads", lines[-1]), (
        lines
    )


def test_a_page_of_several_partitions(run, tmp_path):
    page = tmp_path / "study.html"
    options = ("--codecs", "zstd", "--batch-sizes", "keep,1m", "--html", page)
    ran = run("study", SEGMENTS, *options)
    found, lines = parsed(page), ran.text.splitlines()
    assert ran.status == 0 and found.seen.count("table") == 1 and lines[-2] in found.text
