"""The finished steps of a run, from which a later run continues: `salvage.journal` in the output folder

    line 1     {"sources": [...], "options": {...}}                 identifies the run
    line 2..   {"partition": ..., "step": ..., "result": {...}}     a step whose files are synced

A line is written when the files of its step are on the disk, and synced later: a step whose line is lost is repeated.
What follows the last whole line (after a kill), or begins with one of zeros (after a power failure), is ignored. The
file is locked during a run, and removed after `salvage.json` is written.
"""

from __future__ import annotations

import fcntl
import json
import os
from itertools import takewhile
from typing import Any

from kafkarec.storage.output_rules import Refused
from kafkarec.support.durable import FileGroup, sync_folder

from .output_folder import is_empty

JOURNAL, REPORT = "salvage.journal", "salvage.json"


class Journal:
    """The journal of one run, and the files that it writes.

    done    {(partition, step): result}, those of earlier runs included
    files   the new files of the output folder
    """

    def __init__(self, out: str, identity: dict[str, Any]) -> None:
        self.files = FileGroup()
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
            self.done = self._begin(identity, fresh)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"another salvage is running in {self._out}") from None

    def _begin(self, identity: dict[str, Any], fresh: bool) -> dict[tuple[str, str], dict[str, Any]]:
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
            return {}
        try:
            if json.loads(lines[0]) != json.loads(json.dumps(identity)):
                raise Refused(f"{self._out} contains the unfinished run of another salvage; choose another folder")
            good = list(takewhile(lambda line: b"\0" not in line, lines))
            os.ftruncate(self._descriptor, sum(len(line) + 1 for line in good))
            steps = [json.loads(line) for line in good[1:]]
            return {(step["partition"], step["step"]): step["result"] for step in steps}
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, Refused):
                raise
            raise Refused(f"{self._path} was not written by a salvage; choose another folder") from None

    def add(self, partition: str, step: str, result: dict[str, Any]) -> None:
        """Records a finished step, whose files are synced."""
        self._write({"partition": partition, "step": step, "result": result})
        self.done[partition, step] = result

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
