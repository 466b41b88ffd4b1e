"""What a later run knows of one that did not finish: a note for each partition, in OUT/.unfinished

    run.json            {"kafkarec": version, "form": of the notes,
                         "given": [...], "options": [...]}                            the run; the folder is locked
    orders-0.json       {"sources": {path: [size, mtime]}, "kept": [folder, ...],
                         "files": {path: null}}                                       written before its files are
                        {..., "files": {path: [size, SHA-256]}, "reports": [...]}     when they are on the disk

A finished partition is taken over if its sources and its files are as noted. Otherwise it is made again. If the
sources have changed, they may lack what an earlier run has read in them: its folders are moved to
OUT/set-aside/earlier.1. Only files that a note lists are removed.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from hashlib import sha256
from typing import Any

from kafkarec._version import __version__
from kafkarec.sidecars import leader_epochs, producer_snapshot
from kafkarec.storage.names import INDEX_SUFFIXES, side_file_name
from kafkarec.storage.output_rules import Refused
from kafkarec.storage.rebuild_folder import filename_prefix
from kafkarec.support.durable import PART, make_folder, sync_folder, write_file

from .partition_sources import PartitionSources
from .plan_writing import FileDigest, digest_of_file
from .planned_files import SET_ASIDE, PlannedFolder
from .salvaged_partition import SalvagedPartition

UNFINISHED, REPORT = ".unfinished", "salvage.json"
EARLIER = f"{SET_ASIDE}/earlier."
_RUN = "run.json"
_FORM = 2  # also a version of kafkarec that is under development can have changed it
_LONG_NAME = 240


class UnfinishedRun:
    """The notes in an output folder, which is locked until `close`.

    out, folder   the output folder, the folder of the notes
    """

    def __init__(self, out: str, given: list[str], options: list[Any]) -> None:
        self.out, self.folder = out, os.path.join(out, UNFINISHED)
        if os.path.lexists(os.path.join(out, REPORT)):
            raise Refused(f"{out} contains a finished salvage ({REPORT}); choose another folder")
        fresh = not os.path.isdir(self.folder)
        if fresh and os.listdir(out):
            raise Refused(f"{out} is not empty; choose a new folder")
        make_folder(self.folder)
        self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Refused(f"another salvage is running in {out}") from None
            run: dict[str, Any] = {"kafkarec": __version__, "form": _FORM, "given": given, "options": options}
            begun = _read_note(os.path.join(self.folder, _RUN))
            if begun is None:
                if any(name != UNFINISHED for name in os.listdir(out)):
                    raise Refused(f"{out} is not empty; choose a new folder")
                self.write(_RUN, run)
            elif begun != run:
                raise Refused(
                    f"{out} contains the unfinished run of another salvage, with other sources or options, or by "
                    "another version of kafkarec; choose another folder"
                )
        except BaseException:
            os.close(self._descriptor)
            raise

    def write(self, name: str, data: dict[str, Any]) -> None:
        """Writes a note durably."""
        write_file(self.folder, name, json.dumps(data).encode())
        sync_folder(self.folder)

    def finish(self) -> None:
        """Removes the notes. The report must be written first."""
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))
        os.rmdir(self.folder)
        sync_folder(self.out)

    def close(self) -> None:
        os.close(self._descriptor)


class PartitionNote:
    """The note of one partition. name: of its files in the folder of the notes, without suffixes"""

    def __init__(self, run: UnfinishedRun, partition: PartitionSources) -> None:
        self._run, self._out = run, run.out
        folder = partition.folder  # that of the longest topic leaves no room for a suffix
        self.name = folder if len(folder) < _LONG_NAME else sha256(folder.encode()).hexdigest()
        self._sources: dict[str, list[int]] = {}  # path -> size and time of modification
        for source in partition.sources:
            for segment in (*source.segments, *source.snapshots, *partition.fillers):
                try:
                    state = os.stat(segment.path)
                    self._sources[os.path.realpath(segment.path)] = [state.st_size, state.st_mtime_ns]
                except OSError:
                    self._sources[segment.path] = [segment.size, 0]
        self._found = _read_note(os.path.join(run.folder, self._file)) or {}
        # folders in `out` with what earlier runs made of other sources, or to which a killed run would have moved it
        self._kept: list[str] = self._found.get("kept", [])
        self._changed: list[str] = []

    @property
    def _file(self) -> str:
        return f"{self.name}.json"

    def load_finished(self) -> list[SalvagedPartition] | None:
        """The reports of an earlier run; None: the partition is to be made, and folders of other sources are moved."""
        now, noted = self._sources, self._found.get("sources", self._sources)
        self._changed = [f"the source {path}" for path in now | noted if now.get(path) != noted.get(path)]
        if self._changed:
            folders = dict.fromkeys(map(os.path.dirname, self._found["files"]))
            moved = [folder for folder in folders if os.path.isdir(os.path.join(self._out, folder))]
            if moved:  # noted first: the sources may be as before again when a run that was killed here goes on
                self._kept.append(f"{EARLIER}{len(self._kept) + 1}")
                self._run.write(self._file, {**self._found, "kept": self._kept})
            for folder in moved:
                target = os.path.join(self._out, self._kept[-1], folder)
                make_folder(os.path.dirname(target))
                os.rename(os.path.join(self._out, folder), target)
                sync_folder(os.path.dirname(target))
        elif "reports" in self._found:
            for path, state in self._found["files"].items():
                written = os.path.join(self._out, path)
                with suppress(OSError):
                    if os.path.getsize(written) == state[0] and digest_of_file(written) == tuple(state):
                        continue
                self._changed.append(written)
            if not self._changed:
                return [SalvagedPartition.of(one) for one in self._found["reports"]]
        return None

    def begin(self, plans: list[PlannedFolder]) -> None:
        """Notes the files that will be written, and removes those of an earlier run that are not planned: side files
        are written again."""
        report = plans[0].report
        if self._changed:
            report.problems.append(f"made again: {self._changed[0]} has changed since an earlier run")
        kept = [*filter(os.path.isdir, (os.path.join(self._out, folder) for folder in self._kept))]
        if kept:
            report.keeps_earlier = True
            report.problems.append(f"what was made before the sources changed is kept in {', '.join(kept)}")
        planned = {path for plan in plans for path, _ in plan.outputs()}
        earlier = set(self._found.get("files", ()))
        noted, suffixes = planned | earlier, (*INDEX_SUFFIXES, producer_snapshot.SUFFIX)
        for plan in plans:  # and the side files that may be written for it
            report = plan.report
            logs = [name for name in plan.files if name.endswith(".log")]
            for name in (*logs, f"{filename_prefix(report.next_offset or 0)}.log"):
                noted |= {f"{report.folder}/{side_file_name(name, suffix)}" for suffix in suffixes}
            noted.add(f"{report.folder}/{leader_epochs.NAME}")
        self._write(files=dict.fromkeys(sorted(noted)))
        for path in earlier - planned:
            for name in (path, path + PART):
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self._out, name))

    def finish(self, plans: list[PlannedFolder], states: dict[str, FileDigest]) -> None:
        """Notes that all files are on the disk."""
        self._write(files=states, reports=[one.report.to_dict() for one in plans])

    def _write(self, **state: Any) -> None:
        self._run.write(self._file, {"sources": self._sources, "kept": self._kept, **state})


def _read_note(path: str) -> dict[str, Any] | None:
    """A note; None: there is none, or it is not whole, which only happens to one that was never synced."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None
