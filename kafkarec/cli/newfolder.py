"""A partition folder in the making: under another name until it is complete."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from kafkarec import durable
from kafkarec.appending import AppendRefused, SegmentWriter
from kafkarec.storage import names
from kafkarec.storage.outputs import Inputs

from .newlog import BadInput, Folder, NewLog, OneLog, Origin, Place
from .options import WrongUse

_APPEND = 1 << 20
# What a partition folder may hold beside the files of segments.
_BESIDE = ("leader-epoch-checkpoint", "partition.metadata", "salvage.json")


class PartitionFolder(OneLog):
    """One partition. `path`: the folder that appears when it is finished."""

    is_folder = True

    def __init__(self, path: str, folder: Folder, force: bool, reads: Inputs) -> None:
        super().__init__(path)
        reads.demand_apart(path, f"-o {path}")
        self._path = os.path.realpath(path.rstrip("/") or path)
        self._folder = folder
        self._replaces = demand_free(self._path, path, force)
        if self._replaces:
            reads.demand_none_in(self._path, f"-o {path}")
        above, name = os.path.split(self._path)
        self._part = os.path.join(above, f".{name}.{os.getpid()}.part")
        self._writer: SegmentWriter | None = None
        self._waiting: list[bytes | memoryview] = []
        self._waits = 0

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        super().begin(place, where, origin)
        if self._writer is None:
            self._writer = self._begun(origin)

    def _begun(self, origin: Origin) -> SegmentWriter:
        durable.make_folder(os.path.dirname(self._part))
        os.mkdir(self._part)
        told = self._folder
        try:
            return SegmentWriter(
                self._part, segment_bytes=told.segment_bytes, index_interval_bytes=told.index_interval,
                start_offset=origin.start_offset, topic_id=told.topic_id or origin.topic_id, check_all=False,
            )  # fmt: skip
        except ValueError as error:
            raise WrongUse(str(error)) from error

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        self._waiting.append(batches)
        self._waits += len(batches)
        self.size += len(batches)
        if self._waits >= _APPEND:
            self._append()

    def _append(self) -> None:
        waiting, self._waiting, self._waits = b"".join(self._waiting), [], 0
        if waiting and self._writer:
            try:
                self._writer.append(waiting)
            except AppendRefused as error:
                place = f"at byte {error.position} (base offset {error.base_offset})"  # a byte of this append alone
                told = str(error).replace(place, f"of base offset {error.base_offset}")
                raise BadInput(f"{self.name}: {told}") from error

    def finish(self) -> None:
        if self._writer is None:
            self.begin((None, None), self.name)
        self._append()
        if self._writer:
            self._writer.close()
        aside = self._part.removesuffix(".part") + ".old"
        replaces = demand_free(self._path, self.name, self._replaces)
        if replaces:
            os.rename(self._path, aside)
        else:
            with suppress(FileNotFoundError):
                os.rmdir(self._path)  # an empty one
        os.rename(self._part, self._path)
        durable.sync_folder(os.path.dirname(self._path))
        if replaces:
            shutil.rmtree(aside)

    def drop(self) -> None:
        if os.path.isdir(self._part):
            with suppress(OSError):
                if self._writer:
                    self._writer.close()
            shutil.rmtree(self._part, ignore_errors=True)


class PartitionFolders(NewLog):
    """A folder of partition folders, each made when its first batch comes."""

    is_folder = True

    def __init__(self, path: str, folder: Folder, force: bool, reads: Inputs) -> None:
        self._path, self._folder, self._force, self._reads = path, folder, force, reads
        self._made: dict[Place, PartitionFolder] = {}

    def check(self, place: Place, where: str) -> None:
        topic, partition = place
        if topic is None or partition is None:
            raise WrongUse(
                f"{where}: no topic and partition is told, which name the folder in {self._path}; "
                f"name it: -o {os.path.join(self._path, 'orders-0')}"
            )
        if names.folder(f"{topic}-{partition}") is None or "/" in topic:
            raise WrongUse(f"{where}: the topic and the partition are none of Kafka's: no folder can have the name")
        if place not in self._made:
            path = os.path.join(self._path, f"{topic}-{partition}")
            self._made[place] = PartitionFolder(path, self._folder, self._force, self._reads)

    def begin(self, place: Place, where: str, origin: Origin = Origin()) -> None:  # noqa: B008
        self.check(place, where)
        self._made[place].begin(place, where, origin)

    def shown(self, place: Place) -> str:
        return self._made[place].name

    def write(self, place: Place, batches: bytes | memoryview) -> None:
        self._made[place].write(place, batches)
        self.size += len(batches)

    def finish(self) -> None:
        for each in self._made.values():
            each.finish()

    def drop(self) -> None:
        for each in self._made.values():
            each.drop()

    @property
    def told(self) -> str:
        made = sorted(os.path.basename(each.name) for each in self._made.values())
        return os.path.join(self._path, made[0]) if len(made) == 1 else f"{len(made)} folders in {self._path}"


def demand_free(path: str, shown: str, force: bool) -> bool:
    """Whether there is a log that --force replaces; WrongUse for anything else that is there."""
    if not os.path.lexists(path):
        return False
    if not os.path.isdir(path):
        raise WrongUse(f"-o {shown} is a file, and a partition is a folder")
    held = os.listdir(path)
    if not held:
        return False
    strange = [name for name in held if names.segment(name) is None and name not in _BESIDE]
    if strange:
        raise WrongUse(f"-o {shown} holds {sorted(strange)[0]}, which is no file of a partition; choose a new folder")
    if not force:
        raise WrongUse(f"-o {shown} is there and not empty; --force replaces it")
    return True
