"""No output replaces an input: each verb, each option that names an output, each way to name an input."""

import errno
import io
import os
import re
import shutil
import stat
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from command import own_process
from failing_calls import before, failing
from golden import copied
from make_docs import parser_of_verb
from paths import SEGMENTS

from kafkarec.cli import input_logs
from kafkarec.cli.shared_options import FILE, FOLDER, CouldNot, InputPath, OutputPath, errors_named
from kafkarec.cli.shared_options import LOG as LOG_KIND
from kafkarec.cli.verb_parsers import VERBS
from kafkarec.ops.segment_writer import SegmentWriter

LOG, INDEX = f"{0:020}.log", f"{0:020}.index"
STUDY = ("--sample", "64k", "--codecs", "lz4", "--batch-sizes", "keep")  # runs quickly


def _kind(verb):
    """The kind of what the verb writes with -o; None: it has no -o."""
    options = [one for one in parser_of_verb(verb)._actions if "-o" in one.option_strings]
    return options[0].type("a").kind if options and callable(options[0].type) else None


FILES, FOLDERS, LOGS = (
    [verb for verb in VERBS if verb != "doctor" and _kind(verb) == kind] for kind in (FILE, FOLDER, LOG_KIND)
)
# verb, the option that names its output, whether there is a --force
CALLS = [
    *((verb, "-o", True) for verb in FILES),
    ("verify", "--html", True),
    ("explain", "--html", True),
    ("study", "--plot", True),
    ("study", "--html", True),
    *((verb, "-o", True) for verb in LOGS),
    *((verb, "-o", False) for verb in FOLDERS),
]
# Output paths in or around the inputs, below a folder with flat/txn-0 (without files of a broker) and broker/txn-0 (in
# a data folder). The names end as `--plot` requires.
REFUSED = (
    f"{{0}}/txn-0/{LOG}",
    f"{{0}}/txn-0/{INDEX}",
    "{0}/txn-0/leader-epoch-checkpoint",
    "{0}/txn-0/new.svg",
    "{0}/txn-0/deep/new.svg",
    "{0}/../{0}//txn-0/./new.svg",
    f"./{{0}}/txn-0/../txn-0/{LOG}",
    "links/log.svg",
    "links/index.svg",
    "links/log.hard.svg",
    "links/index.hard.svg",
    "links/folder/new.svg",
    f"links/folder/{LOG}",
    "links/dangling.svg",
    "{0}/txn-0/leads-out.svg",
)
IN_A_BROKERS_FOLDER = (
    "broker/new.svg",
    f"broker/all-codecs-0/{LOG}",
    "broker/all-codecs-0/new.svg",
    "broker/new/deep-0",
)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Partition folders in a broker's data folder and in a plain folder; the latter's parent is the current folder."""
    for name in ("flat/txn-0", "broker/txn-0", "broker/all-codecs-0", "other/all-codecs-0"):
        copied(SEGMENTS / Path(name).name, tmp_path / name)
    (tmp_path / "broker" / "meta.properties").write_text("version=1\n")
    (tmp_path / "plain.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def link(tree, top):
    """Make links to the files and the folder of {top}/txn-0."""
    folder, links = tree / top / "txn-0", tree / "links"
    links.mkdir()
    for name, path in (("log", folder / LOG), ("index", folder / INDEX)):
        (links / f"{name}.svg").symlink_to(path)
        os.link(path, links / f"{name}.hard.svg")
    (links / "folder").symlink_to(f"../{top}/txn-0")
    (links / "dangling.svg").symlink_to(folder / "not-there")
    (folder / "leads-out.svg").symlink_to(tree / "plain.txt")


def content(top):
    """Path -> type and bytes of everything below a folder."""
    content_by_path = {}
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            is_file = stat.S_ISREG(mode)
            content_by_path[path] = (
                os.readlink(path) if stat.S_ISLNK(mode) else Path(path).read_bytes() if is_file else mode
            )
    return content_by_path


@pytest.fixture
def refused(run, tree):
    """Run a command that is refused, without output or any change in the tree; return what it says."""

    def refused(*words):
        before = content(tree)
        ran = run(*words)
        assert (ran.status, ran.out) == (2, b""), (words, ran)
        assert content(tree) == before, words
        return ran.complaint

    return refused


def arguments(verb, *inputs):
    """The command line up to the output. `diff` compares two inputs, `build` reads rows and no log."""
    return [verb, *inputs, *(inputs[:1] if verb == "diff" else ())]


@pytest.mark.parametrize("top", ["flat", "broker"])
@pytest.mark.parametrize("verb, option, has_force", CALLS)
def test_no_output_replaces_an_input(refused, tree, verb, option, has_force, top):
    link(tree, top)
    targets = [target.format(top) for target in REFUSED] + (list(IN_A_BROKERS_FOLDER) if top == "broker" else [])
    if verb in (*LOGS, *FOLDERS):
        targets += [f"{top}/txn-0", "links/folder", f"{top}/txn-0/new-0"]
    inputs = [f"{top}/txn-0/{LOG}", f"{tree.as_uri()}/{top}/txn-0/{LOG}", f"{top}/txn-0", "links/folder"]
    if verb == "build":
        inputs = inputs[:2]  # it reads files only
    calls = [(given, target, force) for given in inputs for target in targets for force in ([], ["--force"])]
    if verb != "cat":  # `cat` tries all of them, each other verb a share
        share = len(inputs) + 1
        calls = calls[CALLS.index((verb, option, has_force)) % share :: share]
    for given, target, force in calls:
        said = refused(*arguments(verb, given), option, target, *force * has_force)
        assert f"{option} " in said and target.split("/")[0] in said


@pytest.mark.parametrize(
    "verb, option, has_force", [call for call in CALLS if call[0] not in ("diff", "explain", "build")]
)
def test_no_output_is_written_below_a_data_folder(refused, tree, verb, option, has_force):
    """Outputs below an input folder, and a file elsewhere that has several names, one of which may be in it."""
    os.link(tree / "flat" / "txn-0" / INDEX, tree / "hard.svg")
    (tree / "flat" / "all-codecs-0").symlink_to("../other/all-codecs-0")
    names = (
        "flat/all-codecs-0/x",
        "other/all-codecs-0/x",
        "flat/new.svg",
        "flat/new-0/x.svg",
        f"flat/txn-0/{LOG}",
        "hard.svg",
    )
    for target in names:
        for force in ([], ["--force"]) if has_force else ([],):
            assert refused(verb, "flat", option, target, *force)


@pytest.mark.parametrize(
    "verb",
    [
        *FILES,
        *("verify --html", "explain --html", "study --plot", "study --html"),
        *(*LOGS, "doctor"),
    ],
)
def test_an_existing_file_needs_force(run, refused, tree, verb):
    verb, _, option = verb.partition(" ")
    if option == "--plot":
        pytest.importorskip("matplotlib")
    (tree / "rows.jsonl").write_text('{"value": "x"}\n')
    given = {"build": ["rows.jsonl"], "doctor": []}.get(verb, [f"other/all-codecs-0/{LOG}"])
    call = [*arguments(verb, *given), *(STUDY if verb == "study" else ()), option or "-o"]
    existing = tree / "there.svg"
    existing.write_text("mine")
    (tree / "link.svg").symlink_to(existing)
    before = content(tree)
    for name in ("there.svg", "link.svg"):
        assert refused(*call, name).endswith(f"{name} exists already; --force replaces it")
    assert run(*call, "link.svg", "--force").status in (0, 1)
    assert existing.read_bytes() != b"mine" and (tree / "link.svg").is_symlink()
    assert run(*call, "new.svg").status in (0, 1) and (tree / "new.svg").stat().st_size > 0
    assert {path for path in content(tree) if path not in before} == {str(tree / "new.svg")}


@pytest.mark.parametrize("verb, option", [(verb, option) for verb, option, has_force in CALLS if has_force])
def test_a_file_of_another_log_is_not_replaced(refused, tree, verb, option):
    """By Kafka's names, also without the files that only a broker writes, and through a link."""
    alone = tree / "copies" / "orders-7"
    alone.mkdir(parents=True)
    shutil.copy(tree / "flat" / "txn-0" / LOG, alone)
    (tree / "link.svg").symlink_to(alone / LOG)
    (tree / "rows.jsonl").write_text('{"value": "x"}\n')
    given = "rows.jsonl" if verb == "build" else f"flat/txn-0/{LOG}"
    names = (LOG, INDEX, "leader-epoch-checkpoint", "partition.metadata")
    targets = [f"other/all-codecs-0/{name}" for name in names] + [f"copies/orders-7/{LOG}", "link.svg"]
    for target in (*targets, "broker/meta.properties"):
        for force in ([], ["--force"]):
            said = refused(*arguments(verb, given), option, target, *force)
            assert "is a file of a Kafka log, which is never replaced alone" in said


def test_a_segment_outside_of_a_partition_folder_is_replaced(run, tree):
    (tree / LOG).write_bytes(b"old")
    assert run("convert", "flat/txn-0", "-o", LOG, "--force").status == 0
    assert (tree / LOG).stat().st_size > 3


def test_other_folders_next_to_an_input_are_free(run, tree, monkeypatch):
    """A folder that merely holds a partition folder is no data folder (README)."""
    monkeypatch.chdir(tree / "flat")
    assert run("cat", "txn-0", "-o", "txn.csv", "--format", "csv").status == 0
    assert run("convert", "txn-0", "-o", "small").status == 0
    assert run("compact", f"txn-0/{LOG}", "-o", "clean").status == 0
    assert run("salvage", "txn-0", "-o", "rescued").status == 0
    assert run("reindex", "txn-0", "-o", "new").status == 0
    assert sorted(os.listdir()) == ["clean", "new", "rescued", "small", "txn-0", "txn.csv"]


def test_each_folder_of_many_is_checked(refused, tree):
    """`-o DIR/` makes DIR/TOPIC-PARTITION, which may be an input although DIR is not."""
    os.link(tree / "flat" / "txn-0" / LOG, tree / "linked.log")
    (tree / "rows.jsonl").write_text('{"topic": "txn", "partition": 0, "value": "x"}\n')
    shutil.copy(tree / "rows.jsonl", tree / "flat" / "txn-0" / f"{5:020}.log")
    to = ("-o", "flat/", "--force")
    for given in ("flat/txn-0", f"flat/txn-0/{LOG}", "linked.log"):
        for verb in ("convert", "compact"):
            assert "-o flat/txn-0 " in refused(verb, given, "--topic", "txn", "--partition", "0", *to)
    said = refused("build", "--from", "json", f"flat/txn-0/{5:020}.log", *to)
    assert "-o flat/txn-0 is the partition folder of" in said
    assert "flat/txn-0 exists and is not an empty" in refused("build", "rows.jsonl", *to)


def test_files_of_a_segment_outside_of_a_partition_folder_are_inputs(run, refused, tree):
    """They are read with the segment, so they are inputs; a new name in the same folder is free."""
    (tree / "loose").mkdir()
    for name, as_ in ((LOG, "a.log"), (INDEX, "a.index")):
        shutil.copy(tree / "flat" / "txn-0" / name, tree / "loose" / as_)
    for words in (
        "cat loose/a.log -o loose/a.index",
        "dump loose/a.index -o loose/a.log",
        "dump --files x.log,loose/a.log -o loose/a.log",
    ):
        assert "is one of the inputs" in refused(*words.split(), "--force")
    assert run("cat", "loose/a.log", "-o", "loose/a.json").status == 0
    (tree / "copied").mkdir()
    shutil.copy(tree / "flat" / "txn-0" / LOG, tree / "copied" / LOG)  # without its index: no partition folder
    assert run("cat", f"copied/{LOG}", "-o", "copied/a.json").status == 0
    assert run("salvage", f"copied/{LOG}", "-o", "copied/new").status == 0
    assert refused("cat", f"copied/{LOG}", "-o", f"copied/{LOG}", "--force")
    shutil.copy(tree / "flat" / "txn-0" / INDEX, tree / "copied" / INDEX)
    assert "the partition folder of" in refused("cat", f"copied/{LOG}", "-o", "copied/b.json")


def test_streams_are_written_as_standard_output_is(run, tree):
    names = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "//dev/./stdout")
    for verb in FILES:
        call = [*arguments(verb, "flat/txn-0"), *(STUDY if verb == "study" else ())]
        plain = run(*call)
        for name in names if verb == "cat" else names[1:2]:
            ran = run(*call, "-o", name)
            outs = [re.sub(rb"read in [0-9.]+ s", b"", one.out) for one in (ran, plain)]
            assert ran.status == plain.status and (verb == "study" or outs[0] == outs[1] != b""), (verb, name)
        assert run(*call, "-o", "/dev/null").out == b""
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    for call in (["verify", "other"], ["explain", "flat/txn-0"]):
        assert run(*call, "--html", "/dev/stdout", "-o", "/dev/null").out.startswith(b"<!doctype html>")
    for verb in ("convert", "compact"):
        plain = run(verb, "flat/txn-0")
        assert run(verb, "flat/txn-0", "-o", "/dev/stdout").out == plain.out != b""
        assert run(verb, "flat/txn-0", "-o", "/dev/null").status == 0
    (tree / "stdout").symlink_to("/dev/stdout")
    assert run("cat", "flat/txn-0", "-o", "stdout").out == run("cat", "flat/txn-0").out
    assert (tree / "stdout").is_symlink()
    for call in (["cat", "flat/txn-0", "-o"], ["verify", "flat/txn-0", "--html"]):
        ran = run(*call, "/dev/fd/999")
        assert (ran.status, ran.complaint) == (3, "kafkarec: /dev/fd/999: bad file descriptor")


@pytest.mark.parametrize("verb", [*FILES, "convert", "compact"])
def test_a_full_disk_is_named_by_the_output(run, tree, verb):
    """Also where the last bytes are written as the file is closed."""
    ran = run(*arguments(verb, "flat/txn-0"), *(STUDY if verb == "study" else ()), "-o", "/dev/full")
    assert (ran.status, ran.complaint) == (1 if verb == "dump" else 3, "kafkarec: /dev/full: no space left on device")


def test_a_copy_of_standard_input_that_does_not_fit_is_named():
    class Full(io.BytesIO):
        def write(self, data, /):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    where = re.escape(tempfile.gettempdir())
    with pytest.raises(
        CouldNot, match=f"copy of standard input in {where} .TMPDIR names another folder.: no space left"
    ):
        input_logs.copy_pipe(io.BytesIO(b"x"), Full())


@pytest.mark.parametrize("name", [pytest.param("t" * 255, id="file"), pytest.param(f"{'t' * 249}-0", id="partition")])
def test_the_longest_names_can_be_written(run, tree, name):
    """That of a topic has up to 249 characters."""
    verb = "convert" if name.endswith("-0") else "cat"
    assert run(verb, "flat/txn-0", "-o", name).status == 0
    assert (tree / name).exists() and list(tree.glob(".*")) == []


@pytest.mark.parametrize(
    "words",
    ["cat -o new.jsonl", "convert -o new.log", "convert -o new-0", "reindex -o new", "cat -o new --partition-by topic"],
)
def test_what_a_killed_run_left_is_not_used(run, tree, words):
    """In a container each run may have the same process number."""
    verb, option, name, *more = words.split()
    left = tree / f".{name}.{os.getpid()}.part"
    if name in ("new.jsonl", "new.log"):
        left.write_text("half")
    else:
        left.mkdir()
        (left / "half").touch()
    assert run(verb, "flat/txn-0", option, name, *more).status == 0
    assert left.exists() and not (tree / name / "half").exists()


def test_no_partition_is_in_place_before_all_are_complete(run, tree, monkeypatch):
    shutil.copytree("flat/txn-0", "flat/txn-1")
    closed = []
    before(monkeypatch, SegmentWriter, "close", closed.append)
    before(monkeypatch, SegmentWriter, "close", failing(errno.ENOSPC, lambda one: closed and one not in closed))
    ran = run("convert", "flat", "-o", "new/")
    assert (ran.status, ran.complaint) == (3, "kafkarec: new/: no space left on device")
    assert not (tree / "new").exists()


def test_descriptors_and_pipes_are_written(run, tree):
    plain = run("cat", "flat/txn-0").out
    with open("third", "w+b") as file:
        file.write(b"first\n")
        file.flush()
        assert run("cat", "flat/txn-0", "-o", f"/dev/fd/{file.fileno()}").status == 0
        file.seek(0)
        assert file.read() == b"first\n" + plain
    os.mkfifo("pipe")
    for verb in (["cat"], ["verify", "--html"]):
        received = []
        reader = threading.Thread(target=lambda: received.append(Path("pipe").read_bytes()))  # noqa: B023
        reader.start()
        assert run(*verb[:1], "flat/txn-0", *(verb[1:] or ["-o"]), "pipe").status == 0
        reader.join(10)
        assert (received == [plain]) == (verb == ["cat"]) and received[0] and stat.S_ISFIFO(os.stat("pipe").st_mode)
    assert "pipe is one of the inputs" in run("cat", "pipe", "-o", "pipe").complaint
    for verb in ("salvage", "reindex"):
        for name in ("-", "/dev/null", "pipe", "plain.txt"):
            assert f"-o {name} is not a folder" in run(verb, "flat/txn-0", "-o", name).complaint


def test_standard_output_that_is_an_input_is_refused(tree):
    """Compared by device and inode, as GNU cat does, whatever opened the file."""
    log, index = tree / "flat" / "txn-0" / LOG, tree / "flat" / "txn-0" / INDEX
    os.link(index, tree / "hard")
    before = content(tree)
    for given, target in ((["flat"], log), ([str(log)], tree / "hard"), (["-"], log)):
        with open(target, "ab") as file, open(log, "rb") as stdin:
            ran = own_process("cat", *given, stdout=file, file=stdin)
        assert ran.status == 2 and "output is written to " in ran.complaint
        assert content(tree) == before
    with open(log, "rb") as stdin:
        assert "is one of the inputs" in own_process("cat", "-", "-o", log, "--force", file=stdin).complaint
    with open(log, "rb") as stdin:
        ran = own_process("cat", "-", "-o", log.parent / "new", "--force", file=stdin)
    assert "the partition folder of" in ran.complaint and content(tree) == before
    with open("list.txt", "wb") as file:  # `ls . > list.txt` is common use
        assert own_process("ls", ".", stdout=file).status == 0
    assert Path("list.txt").stat().st_size > 0


@pytest.mark.parametrize("name", ["missing/../a.log", "link"])
def test_an_input_that_is_named_through_a_missing_folder_is_not_replaced(refused, tree, name):
    """`stat` finds no such file, and the real path, at which an output is written, is that of the input."""
    shutil.copy(f"flat/txn-0/{LOG}", "a.log")
    Path("link").symlink_to("missing/../a.log")
    for verb in ("cat", "convert"):
        assert "one of the inputs" in refused(verb, "a.log", "-o", name, "--force")


@pytest.mark.parametrize(
    "words", ["cat A -o", "convert A -o", "verify A --html", "cat A --format csv -o", "salvage A -o"]
)
def test_a_url_that_is_refused_is_printed_without_its_password(refused, words):
    words = words.replace("A", "flat/txn-0").split()
    for end in ("", ".gz", ".json"):
        said = refused(*words, f"https://user:secret@host/x{end}?signature=secret")
        assert "https://host/x" in said and "secret" not in said


def test_a_missing_folder_is_reported_before_anything_is_read(run, tree, monkeypatch):
    def read(*given, **named):
        raise AssertionError("the log was read")

    monkeypatch.setattr("kafkarec.ops.verify.verify", read)
    assert run("verify", "flat/txn-0", "-o", "nowhere/x").complaint == "kafkarec: nowhere/x: no such file or directory"
    assert run("verify", "flat/txn-0", "--html", "plain.txt").status == 2


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_during_the_run_is_not_replaced(run, tree, monkeypatch, has_links):
    """The new file stays, and the output is kept under the reported name."""
    real, appearing = os.link, []

    def link(part, place):
        for path in appearing:
            path.write_text("somebody's")
        if not has_links:
            raise OSError(errno.EPERM, "no hard links here")
        real(part, place)

    monkeypatch.setattr(os, "link", link)
    assert run("cat", "flat/txn-0", "-o", "alone").status == 0
    appearing.append(tree / "new")
    ran = run("cat", "flat/txn-0", "-o", "new")
    [part] = tree.glob(".new.*.part")
    assert ran.status == 2 and ran.complaint.endswith(f"and is not replaced; the output is in {part}")
    assert (tree / "new").read_text() == "somebody's" and part.read_bytes() == run("cat", "flat/txn-0").out
    part.unlink()
    assert run("cat", "flat/txn-0", "-o", "new", "--force").status == 0 and (tree / "new").stat().st_size > 1000
    assert not part.exists()


def test_a_bind_mount_is_the_same_folder(refused, tree, monkeypatch):
    """Another path with the device and inode of an input folder."""
    (tree / "mounted").mkdir()
    real = os.stat

    def mounted(path, **named):
        return real(tree / "flat" / "txn-0" if path == str(tree / "mounted") else path, **named)

    monkeypatch.setattr(os, "stat", mounted)
    for given in ("flat/txn-0", f"flat/txn-0/{LOG}"):
        assert "mounted/new" in refused("cat", given, "-o", "mounted/new")


def test_block_devices_are_refused(refused, tree, monkeypatch):
    """A block device is no output, and a file system mounted from one that is read is no place for an output."""
    real = os.stat
    disk = SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=real(tree).st_dev, st_dev=5, st_ino=77, st_nlink=1)
    monkeypatch.setattr(os, "stat", lambda path, **named: disk if path == "sdb1" else real(path, **named))
    said = refused("cat", "flat/txn-0", "-o", "sdb1", "--force")
    assert "-o sdb1 is a block device, and its content would be lost" in said
    assert "rescued is on the file system of sdb1, which is read" in refused("salvage", "sdb1", "-o", "rescued")


def test_every_path_argument_is_known_as_an_input_or_an_output():
    """By its type, so that no output of a verb can replace an input of it."""
    kinds = {"FILE": OutputPath, "DIR": OutputPath, "OUT": OutputPath, "PATH": InputPath, "FILES": InputPath}
    for verb in VERBS:
        arguments = parser_of_verb(verb)._actions
        for one in arguments:
            named = "FILES" if one.dest == "files" else str(one.metavar)  # of dump, whose metavar is Kafka's
            kind = kinds.get(named) if one.option_strings else InputPath
            if kind is not None:
                assert callable(one.type), (verb, one.dest)
                made = one.type("a")
                assert all(isinstance(each, kind) for each in (made if isinstance(made, list) else [made]))
                assert kind is InputPath or made.option in one.option_strings, (verb, one.dest)
        files = {one.dest for one in arguments if one.metavar == "FILE"}
        assert not files or "force" in {one.dest for one in arguments}, verb


def test_a_broken_pipe_of_an_input_is_an_error():
    """One of standard output ends the command quietly, with status 0."""
    with pytest.raises(CouldNot, match="orders-0: broken pipe"), errors_named("orders-0"):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
