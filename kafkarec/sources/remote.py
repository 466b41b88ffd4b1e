"""Objects with URLs: s3://, gs://, abfs://, http(s):// and all others that fsspec or pyarrow.fs reads.

Each `read_at` is one range request: the libraries' caches and read-ahead are off, so `fetched` is the number of bytes
transferred. Retries and credentials are those of the library: fsspec's package for the scheme if it is installed
(`pip install 'kafkarec[remote]'`: s3fs), otherwise pyarrow. fsspec itself is always needed.

    storage_options    those of fsspec.filesystem; for s3 key, secret, token, anon, endpoint_url, client_kwargs, or
                       pyarrow's names: access_key, secret_key, region, endpoint_override, ...; either names work with
                       both libraries
    environment        AWS_PROFILE, AWS_ACCESS_KEY_ID, ..., AWS_DEFAULT_REGION, AWS_ENDPOINT_URL
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .files import FolderEntry
from .remote_errors import display_url

if TYPE_CHECKING:
    from .remote_path import RemoteObject, RemotePath

# A request takes about as long as transferring this many bytes: fewer are read rather than skipped.
_SKIP_BYTES = 256 << 10
# The first batch's header is read several times; it is cached.
_HEAD = 64

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://.*|[a-z0-9+.-]+::.*", re.DOTALL)


class RemoteSource:
    """The bytes of one object. Safe for several threads.

    name, size (bytes when it was opened), fetched (bytes transferred); read_at returns fewer bytes only at the end, or
    if the object has become shorter. Errors of the network or the server are RemoteErrors; they end the reading and are
    not damage.
    """

    descriptor: int | None = None
    window_bytes = 2 << 20
    skip_bytes = _SKIP_BYTES

    def __init__(self, path: RemotePath, size: int | None = None) -> None:
        self.name = display_url(path.url)
        self.fetched = 0
        self._path = path
        self._lock = threading.Lock()
        self._object: RemoteObject | None = path.opened(size)
        self._head = b""
        self.size = self._object.size

    def read_at(self, position: int, length: int) -> bytes:
        stop = min(position + length, self.size)
        if self._object is None:
            raise ValueError(f"{self.name} is closed")
        if position < 0 or position >= stop:
            return b""
        if stop <= len(self._head):
            return self._head[position:stop]
        failure: Exception | None = None
        try:
            data = self._object.read(position, stop)
        except Exception as error:
            failure = error
        if failure is not None:  # outside of the handler, so that errors raised there have no __context__
            translated = self._path.error(failure)
            size = stop
            if translated.kind in ("other", "not_found", "not_implemented"):
                # Has a shorter object replaced it? The error of `info` says why: pyarrow cuts the text of a failed read
                # to its length.
                size = self._path.info().size
            if size >= stop:
                raise translated from failure
            with self._path.errors():
                data = self._object.read(position, size) if position < size else b""
        with self._lock:
            self.fetched += len(data)
            if position == 0:
                self._head = data[:_HEAD]
        if len(data) > stop - position:
            raise self._path.error(ValueError("RangeNotSupported"))
        return data

    def is_damage(self, error: OSError) -> bool:
        """Always False: after an error of the server or the network the object's bytes may be good."""
        return False

    def close(self) -> None:
        if self._object is not None:
            self._object.close()
            self._object = None

    def __repr__(self) -> str:
        return f"<RemoteSource {self.name}, {self.size} bytes, {self.fetched} fetched>"


def is_url(path: str) -> bool:
    """Whether a path is a URL (file:// included: see local_path) and not a local path."""
    return _URL.fullmatch(path) is not None


def local_path(path: str) -> str | None:
    """A path as it is, that of a file:// URL (or fsspec's local://); None for any other URL."""
    if not is_url(path):
        return path
    from urllib.parse import unquote, urlsplit  # not at the top: a tenth of `kafkarec --help` with all its users

    parts = urlsplit(path)
    if parts.scheme not in ("file", "local") or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path)


def open_source(url: str, storage_options: Mapping[str, Any] | None = None, *, size: int | None = None) -> RemoteSource:
    """Opens an object. size: from a listing, if known, which may save a request. Errors are RemoteErrors."""
    return RemoteSource(_remote_path(url, storage_options), size)


def listing(url: str, storage_options: Mapping[str, Any] | None = None) -> list[FolderEntry]:
    """The entries directly in the folder (the prefix) `url`, by name. FileNotFoundError, a RemoteError, if it is
    empty or missing."""
    path = _remote_path(url, storage_options)
    entries = path.entries()
    if not entries:
        path.info()
    return sorted(entry for entry in entries if entry.name)


def stat(url: str, storage_options: Mapping[str, Any] | None = None) -> FolderEntry:
    """The object or folder at `url`, which is a folder if it ends in /. FileNotFoundError, a RemoteError, if there is
    neither."""
    path = _remote_path(url, storage_options)
    name = url.rstrip("/").rpartition("/")[2]
    return FolderEntry(name, 0, True) if url.endswith("/") else path.info()._replace(name=name)


def _remote_path(url: str, storage_options: Mapping[str, Any] | None) -> RemotePath:
    from .remote_path import RemotePath  # not at the top: no file of this machine needs it

    return RemotePath(url, storage_options or {})
