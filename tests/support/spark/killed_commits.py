"""Commits of each kind in processes that are killed (SIGKILL) within them; without Spark, tasks run in the process.

In a folder a process kills itself before a chosen call that changes files. In a bucket the server kills its client at a
chosen request, which it carries out or not.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from multiprocessing import forkserver, get_context
from pathlib import Path
from typing import Any

import pytest
from s3server import Refusal, Server

import spark_udfs

KILLED, CONFLICT = -signal.SIGKILL, 3
DAY = 86_400_000
# Two tasks of a job; a static overwrite empties the partitions of t that they do not have.
FIRST = ({"t-0": ["a", "b"], "t-1": ["c"], "t-9": ["i"], "u-0": ["j"]},)
SECOND = ({"t-0": ["d"], "t-1": ["f"], "t-2": ["g"]}, {"t-0": ["e"], "t-2": ["h"]})
# What they say of a job: overwrite, query and batch.
FOLDER_KINDS: dict[str, dict[str, Any]] = {
    "append": {},
    "overwrite": {"overwrite": "static"},
    "stream": {"query": "q", "batch": 1},
}
TABLE_KINDS = {"table append": "append", "table overwrite": "overwrite"}
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "shutil.copyfile", "ctypes.dlsym")
# Without pyarrow.fs, whose threads do not outlive a fork.
_PRELOADED = (
    "killed_commits",
    "publish_jobs",
    "damage_reports",
    "spark_udfs.table_writing",
    "spark_udfs.source.writing",
)
_PRELOADED += ("pyarrow.parquet", "pyarrow.compute", "kafkarec.distributed", "spark_udfs.source.bucket_publishing")


def write_folders(path: str, name: str, tasks: Any, storage: dict[str, Any], **options: Any) -> None:
    """`df.write` or a micro-batch of a stream, with these rows of each task."""
    from publish_jobs import publisher, stage

    from spark_udfs.source.options import StorageOptions
    from spark_udfs.source.staging import WriteJob, WriteSettings

    overwrite = options.pop("overwrite", None)
    made = WriteJob(path, name, overwrite, WriteSettings(), storage=StorageOptions(storage), **options)
    if made.query is None:
        publisher(made).begin(made)
    staged = [one for task, rows in enumerate(tasks) for one in stage(made, task, rows)]
    publisher(made).commit(made, staged)


def write_table(source: str, out: str, storage: dict[str, Any], **options: Any) -> Any:
    from damage_reports import Frames

    given = {"storageOptions": storage} if storage else {}
    return spark_udfs.write_table(Frames(), source, out, **given, **options)


def commit(kind: str, path: str, source: str, storage: dict[str, Any], name: str = "job-2") -> None:
    """One job of a kind: `SECOND`, or what the logs in `source` have."""
    if kind in TABLE_KINDS:
        write_table(source, path, storage, mode=TABLE_KINDS[kind])
    else:
        write_folders(path, name, SECOND, storage, **FOLDER_KINDS[kind])


def _process(kill_at: int | None, folder: str, counted: Any, job: tuple[Any, ...]) -> None:
    from spark_udfs import shipping
    from spark_udfs.source import bucket_lock

    shipping.ship = lambda spark: None  # type: ignore[assignment]
    os.fsync = lambda descriptor: None  # type: ignore[assignment]  # processes crash here, machines do not
    bucket_lock._POLL = 0.05
    calls = 0

    def watch(event: str, words: tuple[Any, ...]) -> None:
        nonlocal calls
        writes = event == "open" and isinstance(words[2], int) and words[2] & (os.O_WRONLY | os.O_RDWR)
        is_ours = (event == "ctypes.dlsym" and words[1] == "renameat2") or (words and folder in str(words[0]))
        if (writes or event in _CHANGES) and is_ours:
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            counted[0] = calls
            if not counted[1] and "commit.json" in str(words[0]):
                counted[1] = calls - 1

    if kill_at is not None:
        sys.addaudithook(watch)
    try:
        commit(*job)
    except spark_udfs.Conflict:
        os._exit(CONFLICT)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # without S3's threads being joined


class Commits:
    """Processes that commit; each is forked from one that has imported the libraries."""

    def __init__(self) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([*_PRELOADED])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # where the first process finds these modules
            forkserver.ensure_running()

    def start(self, *job: Any, kill_at: int | None = None, folder: str = "") -> tuple[Any, Any]:
        counted = self._context.Array("i", 2)
        process = self._context.Process(target=_process, args=(kill_at, folder, counted, job))
        process.start()
        return process, counted

    def ended(self, process: Any) -> int:
        process.join(120)
        assert process.exitcode is not None and process.exitcode in (0, KILLED, CONFLICT), process.exitcode
        return int(process.exitcode)

    def in_folder(self, kill_at: int, *job: Any) -> tuple[int, int, int]:
        """The exit code of a process that is killed before that call; the calls that it made, and how many of them
        before the one that commits."""
        process, counted = self.start(*job, kill_at=kill_at, folder=str(job[1]))
        return self.ended(process), counted[0], counted[1]

    def in_bucket(self, server: Server, kill_at: int, *job: Any) -> tuple[int, int, int]:
        """As `in_folder`, by requests; one with an even number is refused, the others are carried out."""
        server.reset()
        pids: list[int] = []

        def kill(method: str, path: str) -> None:
            if len(server.requests) > kill_at >= 0 and pids:
                os.kill(pids.pop(), signal.SIGKILL)
                if kill_at % 2 == 0:
                    server.refusal = Refusal("503 Slow Down", "SlowDown", "its client is dead")

        server.before = kill
        process, _ = self.start(*job)
        pids.append(process.pid)
        try:
            code, requests = self.ended(process), [(method, path) for method, path, _ in server.requests]
            puts = (at for at, each in enumerate(requests) if each[0] == "PUT" and each[1].endswith("commit.json"))
            return code, len(requests), next(puts, len(requests))
        finally:
            server.before = server.refusal = None


def download(server: Server, prefix: str, to: Path) -> Path:
    """The objects below a prefix, as files."""
    for name in server.names(f"{prefix}/"):
        path = to / name.removeprefix(f"{prefix}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(server.get(name))
    return to


def chosen(calls: int, journal: int, kills: int) -> list[int]:
    """Numbers of that many calls, a quarter or more of them before the one that commits, and the one after the last."""
    late = min(3 * kills // 4, calls - journal)
    early = min(kills - late, journal)
    before = {journal * number // early for number in range(early)}
    return sorted(before | {journal + (calls - journal) * number // late for number in range(late + 1)})
