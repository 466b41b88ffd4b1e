"""Objects with URLs: s3://, gs://, abfs://, http(s):// and all others that fsspec or pyarrow.fs reads.

Each `read_at` is one range request: the libraries' caches and read-ahead are off, so `fetched` is the number of bytes
transferred. Retries and credentials are those of the library. fsspec is used if it and the package for the scheme are
installed (`pip install 'kafkarec[remote]'`), otherwise pyarrow.

    storage_options    those of fsspec.filesystem; for s3 key, secret, token, anon, endpoint_url, client_kwargs, or
                       pyarrow's names: access_key, secret_key, region, endpoint_override, ...; either names work with
                       both libraries
    environment        AWS_PROFILE, AWS_ACCESS_KEY_ID, ..., AWS_DEFAULT_REGION, AWS_ENDPOINT_URL

For code that writes and opens its files itself: `arrow_filesystem`, that of pyarrow.fs for these options;
`remote_error`, which converts its exceptions to a RemoteError; `display_url`, a URL without passwords and signatures.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from .remote_errors import S3, RemoteError, RemoteNotFoundError, RemotePermissionError, display_url, remote_error
from .remote_object import WINDOW, FolderEntry, RemoteObject

if TYPE_CHECKING:
    from .remote_libraries import Library

__all__ = [
    "FolderEntry",
    "RemoteError",
    "RemoteNotFoundError",
    "RemotePermissionError",
    "RemoteSource",
    "arrow_filesystem",
    "display_url",
    "is_url",
    "listing",
    "local_path",
    "open_source",
    "read_whole",
    "remote_error",
    "stat",
]

# A request takes about as long as transferring this many bytes: fewer are read rather than skipped.
_SKIP_BYTES = 256 << 10
_SMALL_FILE = 64 << 20
# The first batch's header is read several times; it is cached.
_HEAD = 64

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://.*|[a-z0-9+.-]+::.*", re.DOTALL)
_PACKAGES = {
    **dict.fromkeys(S3, "'kafkarec[remote]'"),
    **dict.fromkeys(("gs", "gcs"), "fsspec gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "fsspec adlfs"),
    **dict.fromkeys(("http", "https"), "fsspec aiohttp"),
}
LIBRARIES = ("Fsspec", "Arrow")
"""The classes of remote_libraries, tried in this order."""


class RemoteSource:
    """The bytes of one object. Safe for several threads.

    name, size (bytes when it was opened), fetched (bytes transferred); read_at returns fewer bytes only at the end, or
    if the object has become shorter. Errors of the network or the server are RemoteErrors; they end the reading and are
    not damage.
    """

    descriptor: int | None = None
    window_bytes = WINDOW
    skip_bytes = _SKIP_BYTES

    def __init__(self, url: str, library: Library, size: int | None = None) -> None:
        self.name = display_url(url)
        self.fetched = 0
        self._url, self._library = url, library
        self._lock = threading.Lock()
        self._object: RemoteObject | None = None
        self._head = b""
        try:
            self._object = library.opened(url, size)
        except Exception as error:
            raise _with_reason(error, url, library) from error
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
            data = self._read_shortened(position, stop, failure)
        with self._lock:
            self.fetched += len(data)
            if position == 0:
                self._head = data[:_HEAD]
        if len(data) > stop - position:
            raise remote_error(ValueError("RangeNotSupported"), self._url)
        return data

    def _read_shortened(self, position: int, stop: int, error: Exception) -> bytes:
        """The remaining bytes, if a read failed because a shorter object has replaced it; else raises the error."""
        translated = remote_error(error, self._url, self._library.endpoint)
        if translated.kind not in ("other", "not_found", "not_implemented"):
            raise translated from error
        try:
            size = self._library.info(self._url).size
            if size < stop and self._object is not None:
                return self._object.read(position, size) if position < size else b""
        except Exception as reason:
            # pyarrow cuts the server's error text to the length of the range that was to be read
            raise _with_reason(reason, self._url, self._library) from error
        raise translated from error

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
    return RemoteSource(url, _library(url, storage_options), size)


def listing(url: str, storage_options: Mapping[str, Any] | None = None) -> list[FolderEntry]:
    """The entries directly in the folder (the prefix) `url`, by name. FileNotFoundError, a RemoteError, if it is
    empty or missing."""
    library = _library(url, storage_options)
    try:
        entries = library.entries(url)
        if not entries:
            library.info(url)
    except Exception as error:
        raise remote_error(error, url, library.endpoint) from error
    return sorted(entry for entry in entries if entry.name)


def stat(url: str, storage_options: Mapping[str, Any] | None = None) -> FolderEntry:
    """The object or folder at `url`, which is a folder if it ends in /. FileNotFoundError, a RemoteError, if there is
    neither."""
    library = _library(url, storage_options)
    name = url.rstrip("/").rpartition("/")[2]
    if url.endswith("/"):
        return FolderEntry(name, 0, True)
    try:
        return library.info(url)._replace(name=name)
    except Exception as error:
        raise _with_reason(error, url, library) from error


def read_whole(url: str, storage_options: Mapping[str, Any] | None = None) -> bytes | None:
    """All bytes of a small object (an index, a manifest; up to 64 MiB); None if it does not exist."""
    try:
        with closing(open_source(url, storage_options)) as source:
            if source.size > _SMALL_FILE:
                raise RemoteError(
                    f"{source.name}: {source.size} bytes are too many for a file of its kind", source.name
                )
            return source.read_at(0, source.size)
    except FileNotFoundError:
        return None


def arrow_filesystem(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str, str | None]:
    """For code that writes: the filesystem of pyarrow.fs for a URL, the URL's path in it, and the endpoint if one is
    set. Errors of the filesystem are pyarrow's: see `remote_error`."""
    from .remote_libraries import Arrow

    library = Arrow(url, url.partition("://")[0], dict(storage_options))
    return library.filesystem, library.path(url), library.endpoint


def _with_reason(error: Exception, url: str, library: Library) -> RemoteError:
    """The RemoteError for a failed request. Responses to HEAD have no error text, so on S3 the folder is listed too,
    and the error of that request is returned if it is more specific."""
    translated = remote_error(error, url, library.endpoint)
    if translated.kind not in ("denied", "not_found", "other", "region") or url.partition("://")[0] not in S3:
        return translated
    try:
        library.entries(url)
    except Exception as reason:
        better = remote_error(reason, url, library.endpoint)
        return better if better.kind not in ("not_found", "other") else translated
    return translated


def _library(url: str, storage_options: Mapping[str, Any] | None) -> Library:
    """The first of LIBRARIES that reads the scheme and is installed; RemoteError names the package to install."""
    if not is_url(url):
        raise RemoteError(f"{url}: not a URL such as s3://bucket/folder/", url)
    from urllib.parse import urlsplit

    from . import remote_libraries  # not at the top: no file of this machine needs them

    scheme = re.split(r"://|::", url, maxsplit=1)[0].lower()
    options = dict(storage_options or {})
    if scheme in S3 and "@" in urlsplit(url).netloc:
        raise RemoteError(
            f"{display_url(url)}: a URL must not contain keys; set AWS_ACCESS_KEY_ID and "
            f"AWS_SECRET_ACCESS_KEY, or pass storage_options",
            display_url(url),
        )
    reasons: list[Exception] = []
    for library in LIBRARIES:
        try:
            opened: Library = getattr(remote_libraries, library)(url, scheme, options)
            return opened
        except ImportError as error:
            reasons.append(error)
        except RemoteError:
            raise
        except TypeError as error:  # an unknown option; its message names the option and has no values (secrets)
            text = str(error).partition(") ")[2] or error
            raise RemoteError(f"{display_url(url)}: storage_options: {text}", display_url(url)) from error
        except Exception as error:
            if not re.search(r"Protocol not known|Unrecognized filesystem", str(error)):
                raise remote_error(error, url) from error
            reasons.append(error)
    package = _PACKAGES.get(scheme)
    if package is None and not any(isinstance(reason, ImportError) for reason in reasons):
        raise RemoteError(f"{display_url(url)}: no library here reads {scheme}:// URLs", display_url(url), "missing")
    command = f"pip install {package or _PACKAGES['s3']}"
    raise RemoteError(f"{scheme}:// needs a library that is not installed: {command}", kind="missing") from reasons[-1]
