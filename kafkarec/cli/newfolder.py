"""A partition folder in the making: under another name until it is complete."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from kafkarec import durable
from kafkarec.appending import AppendRefused, SegmentWriter
from kafkarec.storage import names

from .newlog import BadInput, Folder, NewLog, OneLog, Place
from .options import WrongUse

_APPEND = 1 << 20
# What a partition folder may hold beside the files of segments.
_BESIDE = ("leader-epoch-checkpoint", "partition.metadata", "salvage.json")


class PartitionFolder(OneLog):
    """One partition. `path`: the folder that appears when it is finished."""

    is_folder = True

    def __init__(self, path: str, folder: Folder, force: bool) -> None:
        super().__init__(path)
        self._path = os.path.realpath(path.rstrip("/") or path)
        self._old = demand_free(self._path, path, force)
        above, name = os.path.split(self._path)
        durable.make_folder(above)
        self._part = os.path.join(above, f".{name}.{os.getpid()}.part")
        os.mkdir(self._part)
        self._waiting: list[bytes] = []
        self._waits = 0
        try:
            self._writer = SegmentWriter(
                self._part, segment_bytes=folder.segment_bytes, index_interval_bytes=folder.index_interval,
                topic_id=folder.topic_id, check_all=False,
            )  # fmt: skip
        except ValueError as error:
            shutil.rmtree(self._part)
            raise WrongUse(str(error)) from error
        except BaseException:
            shutil.rmtree(self._part, ignore_errors=True)
            raise

    def write(self, place: Place, batches: bytes) -> None:
        self._waiting.append(batches)
        self._waits += len(batches)
        self.size += len(batches)
        if self._waits >= _APPEND:
            self._append()

    def _append(self) -> None:
        waiting, self._waiting, self._waits = b"".join(self._waiting), [], 0
        if waiting:
            try:
                self._writer.append(waiting)
            except AppendRefused as error:
                raise BadInput(f"{self.shown}: {error}") from error

    def finish(self) -> None:
        self._append()
        self._writer.close()
        if self._old:
            aside = f"{self._part[:-5]}.old"
            os.rename(self._path, aside)
            os.rename(self._part, self._path)
            shutil.rmtree(aside)
        else:
            with suppress(FileNotFoundError):
                os.rmdir(self._path)  # an empty one
            os.rename(self._part, self._path)
        durable.sync_folder(os.path.dirname(self._path))

    def drop(self) -> None:
        """Leaves nothing behind of one that was not finished."""
        if os.path.isdir(self._part):
            with suppress(OSError):
                self._writer.close()
            shutil.rmtree(self._part, ignore_errors=True)


class PartitionFolders(NewLog):
    """A folder of partition folders, each made when its first batch comes."""

    is_folder = True

    def __init__(self, path: str, folder: Folder, force: bool) -> None:
        self._path, self._folder, self._force = path, folder, force
        self._made: dict[Place, PartitionFolder] = {}

    def demand_place(self, topic: str | None, partition: int | None, where: str) -> None:
        if topic is None or partition is None:
            raise WrongUse(
                f"{where}: no topic and partition is told, which name the folder in {self._path}; "
                f"name it: -o {os.path.join(self._path, 'orders-0')}"
            )
        if names.folder(f"{topic}-{partition}") is None or "/" in topic:
            raise WrongUse(f"{where}: the topic and the partition are none of Kafka's: no folder can have the name")
        if (topic, partition) not in self._made:
            path = os.path.join(self._path, f"{topic}-{partition}")
            self._made[topic, partition] = PartitionFolder(path, self._folder, self._force)

    def write(self, place: Place, batches: bytes) -> None:
        self._made[place].write(place, batches)

    def finish(self) -> None:
        for each in self._made.values():
            each.finish()

    def drop(self) -> None:
        for each in self._made.values():
            each.drop()

    @property
    def told(self) -> str:
        sizes = [each.size for each in self._made.values()]
        return f"{sum(sizes)} bytes in {len(sizes)} folder{'s' * (len(sizes) != 1)} in {self._path}"


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
