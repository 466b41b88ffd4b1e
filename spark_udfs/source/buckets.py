"""A folder in a bucket that is written to: operations on objects, each of which succeeds completely or not at all

    put, upload, copy     make a whole object or none; copy runs in the store, without a download
    names, folders        current listings (S3 has been strongly consistent since December 2020)
    delete, drop          an object that does not exist is no error

Uses pyarrow.fs, which executors have. Its marker of an empty folder, an object of 0 bytes, may remain after a `delete`;
listings leave it out. Tested with S3; gs:// and abfs:// use the same calls.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .staging import ListedFile

S3 = ("s3", "s3a", "s3n")
SCHEMES = (*S3, "gs", "gcs", "abfs", "abfss")
# These need one request for a small object instead of three, and no background threads in a worker.
_S3_DEFAULTS = {"allow_delayed_open": True, "background_writes": False}
_PIECE = 8 << 20


class Bucket:
    """The objects below `path`, a URL; names are relative to it. Every failure is a RemoteError of one line.
    Thread-safe, and not picklable: each process makes its own."""

    def __init__(self, url: str, storage: Mapping[str, Any]) -> None:
        from pyarrow import fs  # type: ignore[import-untyped]

        from kafkarec import distributed

        self.path = url.rstrip("/")
        self._types, self._selector = fs.FileType, fs.FileSelector
        scheme = url.partition("://")[0]
        given = {**storage, **_S3_DEFAULTS} if scheme in S3 else dict(storage)
        self._endpoint: str | None = None
        with self._errors_of(""):
            self._fs, self._root, self._endpoint = distributed.arrow_filesystem(self.path, given)

    def check_access(self) -> None:
        """RemoteError where the bucket does not exist or cannot be accessed."""
        name = self._root.partition("/")[0]
        with self._errors_of(""):
            if self._fs.get_file_info(name).type == self._types.NotFound:
                raise FileNotFoundError("NoSuchBucket")

    # ---- write

    def put(self, name: str, data: bytes) -> None:
        with self._errors_of(name), self._fs.open_output_stream(self._path(name)) as out:
            out.write(data)

    def upload(self, path: str, name: str) -> None:
        with self._errors_of(name), open(path, "rb") as file, self._fs.open_output_stream(self._path(name)) as out:
            shutil.copyfileobj(file, out, _PIECE)

    def copy(self, source: str, target: str) -> None:
        with self._errors_of(source):
            self._fs.copy_file(self._path(source), self._path(target))

    def delete(self, name: str) -> None:
        with self._ignoring_missing(), self._errors_of(name):
            self._fs.delete_file(self._path(name))

    def drop(self, folder: str) -> None:
        """Deletes everything below a folder."""
        with self._ignoring_missing(), self._errors_of(folder):
            self._fs.delete_dir(self._path(folder))

    # ---- read

    def read(self, name: str) -> bytes | None:
        """The content of a small object; None: it does not exist."""
        with self._ignoring_missing(), self._errors_of(name), self._fs.open_input_file(self._path(name)) as file:
            return bytes(file.read())
        return None

    def download(self, name: str, path: str) -> None:
        with self._errors_of(name), self._fs.open_input_stream(self._path(name)) as file, open(path, "wb") as out:
            shutil.copyfileobj(file, out, _PIECE)

    def names(self, folder: str = "", below: bool = True) -> list[ListedFile]:
        """The objects of a folder, sorted by name; below: with those of the folders in it."""
        return sorted(
            ListedFile(name, one.size or 0, one.mtime.timestamp() if one.mtime else 0.0)
            for name, one in self._listed(folder, below)
            if one.type == self._types.File
        )

    def folders(self, folder: str = "") -> list[str]:
        """The names of the folders in a folder."""
        return sorted(name for name, one in self._listed(folder, False) if one.type == self._types.Directory)

    def _listed(self, folder: str, below: bool) -> Iterator[tuple[str, Any]]:
        root = self._path(folder)
        with self._errors_of(folder):
            entries = self._fs.get_file_info(self._selector(root, allow_not_found=True, recursive=below))
        for one in entries:
            yield one.path[len(root) :].strip("/"), one

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextmanager
    def _errors_of(self, name: str) -> Iterator[None]:
        from kafkarec import distributed

        url = f"{self.path}/{name}" if name else self.path
        try:
            yield
        except Exception as error:
            failure = distributed.remote_error(error, url, self._endpoint)
            if failure.kind == "denied":
                words = f"{failure}; writing also needs s3:PutObject and s3:DeleteObject"
                failure = type(failure)(words, failure.filename or "", failure.kind)
            raise failure from error

    @contextmanager
    def _ignoring_missing(self) -> Iterator[None]:
        """Ignores that an object does not exist; a missing bucket stays an error."""
        try:
            yield
        except FileNotFoundError as error:
            if getattr(error, "kind", "not_found") != "not_found":
                raise
