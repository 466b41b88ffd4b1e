"""A folder in a bucket, to be written: few verbs on objects, each of them all or nothing

    put, upload, copy     an object is there, whole, or not; copy happens in the store, no bytes come here
    names, folders        a listing, always of now (S3 has been strongly consistent since December 2020)
    delete, drop          what is gone already is no error

Through pyarrow.fs, which executors have. Its own mark of an empty folder, an object of no bytes, may stay behind a
`delete`; every listing passes it over. S3 is what is tried; gs:// and abfs:// take the same calls.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

S3 = ("s3", "s3a", "s3n")
SCHEMES = (*S3, "gs", "gcs", "abfs", "abfss")
# One request for a small object instead of three, and no threads of its own in a worker.
_PLAIN = {"allow_delayed_open": True, "background_writes": False}
_PIECE = 8 << 20


class Listed(NamedTuple):
    """name: below what was listed. modified: seconds, by the store's clock."""

    name: str
    size: int
    modified: float


class Bucket:
    """Names are below `url`, with / between their parts. RemoteError, one line, for whatever goes wrong. Safe for
    threads; it does not travel: each process makes its own."""

    def __init__(self, url: str, storage: Mapping[str, Any]) -> None:
        from pyarrow import fs  # type: ignore[import-untyped]

        from kafkarec.storage import remote

        self.url = url.rstrip("/")
        self._types, self._selector = fs.FileType, fs.FileSelector
        scheme = url.partition("://")[0]
        given = {**storage, **_PLAIN} if scheme in S3 else dict(storage)
        self._endpoint: str | None = None
        with self._telling(""):
            made = remote.Arrow(self.url, scheme, given)
            self._fs, self._root = made.filesystem, made.path(self.url)
        self._endpoint = made.endpoint

    def demand(self) -> None:
        """RemoteError where the bucket is not there, or cannot be looked at."""
        name = self._root.partition("/")[0]
        with self._telling(""):
            if self._fs.get_file_info(name).type == self._types.NotFound:
                raise FileNotFoundError("NoSuchBucket")

    # ---- write

    def put(self, name: str, data: bytes) -> None:
        with self._telling(name), self._fs.open_output_stream(self._path(name)) as out:
            out.write(data)

    def upload(self, path: str, name: str) -> None:
        with self._telling(name), open(path, "rb") as file, self._fs.open_output_stream(self._path(name)) as out:
            shutil.copyfileobj(file, out, _PIECE)

    def copy(self, source: str, target: str) -> None:
        with self._telling(source):
            self._fs.copy_file(self._path(source), self._path(target))

    def delete(self, name: str) -> None:
        with self._missing_is_fine(), self._telling(name):
            self._fs.delete_file(self._path(name))

    def drop(self, folder: str) -> None:
        """All that is below a folder."""
        with self._missing_is_fine(), self._telling(folder):
            self._fs.delete_dir(self._path(folder))

    # ---- read

    def read(self, name: str) -> bytes | None:
        """A small object; None: it is not there."""
        with self._missing_is_fine(), self._telling(name), self._fs.open_input_file(self._path(name)) as file:
            return bytes(file.read())
        return None

    def download(self, name: str, path: str) -> None:
        with self._telling(name), self._fs.open_input_stream(self._path(name)) as file, open(path, "wb") as out:
            shutil.copyfileobj(file, out, _PIECE)

    def is_there(self, name: str) -> bool:
        with self._telling(name):
            return bool(self._fs.get_file_info(self._path(name)).type == self._types.File)

    def names(self, folder: str = "", below: bool = True) -> list[Listed]:
        """The objects of a folder, by name; with those of folders in it."""
        return sorted(
            Listed(name, one.size or 0, one.mtime.timestamp() if one.mtime else 0.0)
            for name, one in self._listed(folder, below)
            if one.type == self._types.File
        )

    def folders(self, folder: str = "") -> list[str]:
        """Names of the folders in it."""
        return sorted(name for name, one in self._listed(folder, False) if one.type == self._types.Directory)

    def _listed(self, folder: str, below: bool) -> Iterator[tuple[str, Any]]:
        root = self._path(folder)
        with self._telling(folder):
            found = self._fs.get_file_info(self._selector(root, allow_not_found=True, recursive=below))
        for one in found:
            yield one.path[len(root) :].strip("/"), one

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        from kafkarec.storage import remote

        url = f"{self.url}/{name}" if name else self.url
        try:
            yield
        except Exception as error:
            told = remote.translate(error, url, self._endpoint)
            if told.kind == "denied":
                words = f"{told}; to write they need s3:PutObject and s3:DeleteObject, too"
                told = type(told)(words, told.filename or "", told.kind)
            raise told from error

    @contextmanager
    def _missing_is_fine(self) -> Iterator[None]:
        """Of the object; a bucket that is not there is an error."""
        try:
            yield
        except FileNotFoundError as error:
            if getattr(error, "kind", "not_found") != "not_found":
                raise
