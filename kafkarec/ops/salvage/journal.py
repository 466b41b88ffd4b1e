"""The finished steps of a run, from which a later run continues: `salvage.journal` in the output folder

    line 1     {"sources": [...], "options": {...}}     identifies the run
    line 2..   {"partition": ..., "step": ..., "result": {...}, "files": {...}, "rewritten": {...}}

A line is written when the files of its step are on the disk, and synced later: a step whose line is lost is repeated.
What follows the last whole line (after a kill), or begins with one of zeros (after a power failure), is ignored. The
file is locked during a run, and removed after `salvage.json` is written.

A later run believes a step only if its files still have the size and the digest that its line has, or those that the
line of a later step says they get when that rewrites them.
"""

from __future__ import annotations

import fcntl
import json
import os
from itertools import takewhile
from typing import Any

from kafkarec.storage.output_rules import Refused
from kafkarec.support.durable import FileGroup, sync_folder

from .copying import digest
from .output_folder import is_empty

JOURNAL, REPORT = "salvage.journal", "salvage.json"
RUNS = "runs"  # the step that lists the folders of a file with several logs


State = list[Any]
"""What a file was when it was written: [size, SHA-256 in hexadecimal]."""


def as_json(data: Any) -> Any:
    """The data as it is when it is read from the journal."""
    return json.loads(json.dumps(data))


class Journal:
    """The journal of one run, and the files that it writes.

    done      {(partition, step): result}, those of earlier runs included
    touched   the partitions with a source whose time of modification is not that of the earlier run
    files     the new files of the output folder
    """

    def __init__(self, out: str, identity: dict[str, Any]) -> None:
        self.files = FileGroup()
        self.done: dict[tuple[str, str], dict[str, Any]] = {}
        self.touched: set[str] = set()
        self._states: dict[str, list[State]] = {}  # by the path in the output, in the order in which it gets them
        self._own: dict[tuple[str, str], dict[str, int]] = {}  # of each step: which of its files' states it made
        self._is_synced = True
        self._out = out
        self._path = os.path.join(out, JOURNAL)
        if os.path.lexists(os.path.join(out, REPORT)):
            raise Refused(f"{out} contains a finished salvage ({REPORT}); choose another folder")
        fresh = not os.path.lexists(self._path)
        if fresh and not is_empty(out):
            raise Refused(f"{out} is not empty; choose a new folder")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o644)
        try:
            self._lock()
            self._begin(identity, fresh)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"another salvage is running in {self._out}") from None

    def _begin(self, identity: dict[str, Any], fresh: bool) -> None:
        with open(self._path, "rb") as file:
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.splitlines()
        if not lines:  # new, or killed before its first line was written
            if not fresh and any(name != JOURNAL for name in os.listdir(self._out)):
                raise Refused(f"{self._out} is not empty; choose a new folder")
            os.ftruncate(self._descriptor, 0)
            self._write(identity)
            self.sync()
            sync_folder(self._out)
            return
        try:
            self._compare(json.loads(lines[0]), as_json(identity))
            good = list(takewhile(lambda line: b"\0" not in line, lines))
            os.ftruncate(self._descriptor, sum(len(line) + 1 for line in good))
            for line in good[1:]:
                self._remember(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, Refused):
                raise
            raise Refused(f"{self._path} was not written by a salvage; choose another folder") from None

    def _compare(self, begun: dict[str, Any], now: dict[str, Any]) -> None:
        """Raises Refused unless the run that begun is this one: the same options, and sources of the same names and
        sizes."""
        before, after = begun.pop("sources"), now.pop("sources")
        if begun != now or [one[:2] for one in before] != [one[:2] for one in after]:
            raise Refused(
                f"{self._out} contains the unfinished run of another salvage, with other sources or options; choose "
                "another folder"
            )
        for (partition, path, old_size, old_time), (*_, size, time) in zip(before, after, strict=True):
            if size != old_size:
                raise Refused(
                    f"{path} has {size} bytes, and had {old_size} when the unfinished run in {self._out} read it; "
                    "choose another folder"
                )
            if time != old_time:
                self.touched.add(partition)

    def add(
        self,
        partition: str,
        step: str,
        result: dict[str, Any],
        files: dict[str, State],
        rewritten: dict[str, State] | None = None,
    ) -> None:
        """Records a finished step. files: its synced files, by their paths in the output; rewritten: what files of
        earlier steps will be when they are rewritten, which is still to be done."""
        line = {"partition": partition, "step": step, "result": result, "files": files, "rewritten": rewritten or {}}
        self._write(line)
        self._remember(line)

    def _remember(self, line: dict[str, Any]) -> None:
        step = line["partition"], line["step"]
        self.done[step], self._own[step] = line["result"], {}
        for path, state in line["files"].items():
            states = self._states.setdefault(path, [])
            self._own[step][path] = len(states)
            states.append(state)
        for path, state in line["rewritten"].items():
            self._states.setdefault(path, []).append(state)

    def written(self, partition: str, step: str) -> dict[str, State]:
        """The files of a finished step as it wrote them, by their paths in the output."""
        return {path: self._states[path][number] for path, number in self._own[partition, step].items()}

    def is_as_written(self, partition: str, step: str) -> bool:
        """Whether all files of a finished step are there as they were written, by it or a later step."""
        try:
            return all(self.state(path) in self._states[path][own:] for path, own in self._own[partition, step].items())
        except OSError:
            return False

    def state(self, path: str) -> State:
        """What a file of the output is on the disk."""
        path = os.path.join(self._out, path)
        return [os.path.getsize(path), digest(path)]

    def forget(self, step: tuple[str, str]) -> None:
        """Has a step of a partition done again."""
        self.done.pop(step, None)

    def runs(self, partition: str) -> list[str]:
        """The folders of a file that was found to have several logs; empty: it was not read to its end yet."""
        folders: list[str] = self.done.get((partition, RUNS), {}).get("folders", [])
        return folders

    def _write(self, line: dict[str, Any]) -> None:
        data = (json.dumps(line) + "\n").encode()
        while data:
            data = data[os.write(self._descriptor, data) :]
        self._is_synced = False

    def sync(self) -> None:
        """Syncs the new files, then the lines written so far."""
        self.files.sync()
        if not self._is_synced:
            os.fsync(self._descriptor)
            self._is_synced = True

    def finish(self) -> None:
        """Removes the journal. The report must be written first."""
        os.unlink(self._path)
        sync_folder(self._out)

    def close(self) -> None:
        """Removes the files that are not synced, and ends the lock."""
        self.files.drop()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
