"""`kafkarec verify`: what is beside the partitions, a safe HTML page, Ctrl-C. The fence has the rest."""

import json
from pathlib import Path

import builders
import pytest
from command import interrupted, interruptible, own_process
from html_pages import parsed
from paths import SEGMENTS
from plain_logs import batch, data_folder, log

BAD = batch(5)[:-1] + b"\xff"


@pytest.fixture
def damaged(tmp_path):
    """A data folder: partitions with damage, with a gap between segments, with an anomaly, and many good ones."""
    data = tmp_path / "data"
    log(data / "orders-0", [batch(0), BAD, batch(10)])
    log(data / "gap-0", [batch(0)], [batch(20)])
    log(data / "odd-0", [batch(0, attributes=0x80)])
    data_folder(data, cleaner="")  # known: no log was cleaned
    for number in range(30):
        log(data / f"fine-{number}", [batch(0)])
    return data


def test_files_that_their_folder_leaves_out_are_named_in_the_next_command(run, tmp_path, monkeypatch):
    """Of a folder of such files salvage reads none."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.log", "b.log"):
        Path(name).write_bytes(batch(0, 5) + builders.flipped(batch(5, 5)) + batch(10, 5))
    verified = run("verify", "a.log", "b.log")
    assert verified.text.splitlines()[-1] == "next: kafkarec salvage a.log b.log -o rescued"
    salvaged = run("salvage", "a.log", "b.log", "-o", "rescued")
    assert salvaged.status == 1 and "total: 4 batches" in salvaged.text


def test_standard_input_is_named_in_the_next_command(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(batch(0) + builders.patched(batch(5), 8, bytes(4)) + BAD + batch(10))
    for words in (["txn", "-"], ["study", "-", "--codecs", "lz4"]):
        with path.open() as file:
            ran = own_process(*words, file=file)
        assert ran.status == 1 and ran.complaint.endswith("kafkarec verify -"), ran.err


def test_each_path_that_cannot_be_read_is_told(run, tmp_path):
    paths = [tmp_path / f"missing-{number}.log" for number in range(3)]
    ran = run("verify", *paths)
    assert ran.status == 3 and "3 files or folders could not be read" in ran.text
    assert all(f"{path}: no such file or directory [unreadable_folder]" in ran.text for path in paths), ran.text


def test_what_is_beside_the_partitions_of_one_of_several_folders_is_told(run, damaged, tmp_path):
    disk = tmp_path / "disk"
    log(disk / f"old-0.{'a' * 32}-delete", [batch(0)])
    (disk / "#12345").write_bytes(batch(7))
    (disk / "replication-offset-checkpoint").write_bytes(bytes(9))
    (disk / "gone-0").mkdir()
    (disk / "gone-0" / f"{7:020}.snapshot").touch()
    ran = run("verify", damaged / "fine-1", disk, "--format", "json")
    assert ran.status == 1 and {(one["kind"], one["file"]) for one in json.loads(ran.out)["findings"]} >= {
        ("small_file_unreadable", str(disk / "replication-offset-checkpoint")),
        ("batches_left_out", str(disk / "#12345")),
        ("file_left_out", str(disk / f"old-0.{'a' * 32}-delete")),
    }
    text = run("verify", damaged / "fine-1", disk).text
    assert text.splitlines()[0].endswith(f"according to {7:020}.snapshot (gone-0)")


def test_a_segment_in_a_folder_with_another_name_is_left_out_for_the_folders_name(run, damaged):
    log(damaged / "copy", [batch(7)])
    (damaged / "copy" / "#12345").write_bytes(batch(9))
    text = run("verify", damaged, "--all").text
    assert f"copy/{7:020}.log: not verified: its folder's name is not a partition's; it contains record" in text
    assert "copy/#12345: not verified: its name is not a segment's; it contains record batches" in text


def test_one_of_several_paths_is_an_empty_folder(run, damaged, tmp_path):
    """Such as a disk that is not mounted: the others are verified, but that is not all."""
    disk = tmp_path / "disk"
    disk.mkdir()
    ran = run("verify", damaged / "fine-1", disk)
    assert ran.status == 3 and ran.out.startswith(b"COULD NOT READ EVERYTHING: ")
    assert f"  error    {disk}: " in ran.text


def test_zeros_alone_tell_nothing(run, tmp_path):
    ran = run("verify", log(tmp_path / "orders-0", [bytes(1 << 20)]))
    assert ran.status == 0 and ran.out.startswith(b"NO BATCHES: nothing is damaged, but there are only zeros: ")


def test_control_characters_and_markup_in_names_are_escaped(run, tmp_path):
    """Terminals and browsers show any file name as text (P17)."""
    # together: a tag, its end, and control characters of a terminal
    path = tmp_path / "<script>alert(1)<" / "script>\x1b[2J&'\".log"
    path.parent.mkdir()
    path.write_bytes(batch(0) + BAD)
    page = tmp_path / "page.html"
    ran = run("verify", path, "--html", page)
    assert ran.status == 1 and b"\x1b" not in ran.out
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text and "&lt;script&gt;" in text and "\x1b" not in text
    no_text = tmp_path / "\udcff\udcfe.log"  # a name that is no UTF-8
    no_text.write_bytes(batch(0) + BAD)
    for arguments in ((), ("--format", "json"), ("--html", page, "--force")):
        assert run("verify", no_text, *arguments).status == 1


def test_the_page_has_a_map_the_tables_and_the_next_command(run, damaged, tmp_path):
    run("verify", damaged, "--html", tmp_path / "page.html")
    page = parsed(tmp_path / "page.html")
    assert page.seen.count("svg") == 33 + 4  # each partition, and each file with findings
    assert "damaged: bytes 136 to 271 (136 B)" in page.text
    assert "offsets 5 to 9 lost" in page.text and "kafkarec salvage" in page.text
    run("verify", SEGMENTS / "logappend-0", "--html", tmp_path / "fine.html")
    assert "NOT DAMAGED" in parsed(tmp_path / "fine.html").text


def test_the_page_shows_the_bad_file_among_many(run, tmp_path):
    segments = [[batch(5 * i)] for i in range(300)]
    segments[298] = [batch(1490)[:-1] + b"\xff"]
    run(
        "verify",
        log(tmp_path / "orders-0", *segments),
        "--html",
        tmp_path / "page.html",
    )
    page = parsed(tmp_path / "page.html")
    assert f"{1490:020}.log" in page.text and f"{5:020}.log" not in page.text
    assert "299 more files, without findings" in page.text


def test_a_page_with_10_000_damaged_ranges_stays_small(run, tmp_path):
    folder = log(tmp_path / "orders-0", [batch(10 * i) + batch(10 * i + 5)[:-1] + b"\xff" for i in range(10_000)])
    ran = run("verify", folder, "--html", tmp_path / "page.html")
    assert ran.status == 1 and len(ran.out.splitlines()) < 40
    page = parsed(tmp_path / "page.html")
    assert "9804 more ranges" in page.text
    assert (tmp_path / "page.html").stat().st_size < 400_000


def test_ctrl_c_ends_all_threads(tmp_path):
    """Exit status 130 at once, without output."""
    block = b"".join(batch(5 * i) for i in range(5000))
    for number in range(4):
        log(tmp_path / f"t-{number}", [block] * 60)
    assert interrupted(interruptible("verify", tmp_path, "--threads", "3")) == (b"", b"")
