"""Files behind URLs: s3://, gs://, abfs://, http(s):// and whatever else fsspec or pyarrow.fs reads.

Only what is asked for is fetched, one range request for each `read_at`: no cache and no read-ahead of a library stands
between, so `fetched` is what came over the wire. Retries and credentials are the library's own. fsspec is taken where
it and the package for the scheme are installed (`pip install 'kafkarec[remote]'`), otherwise pyarrow.

    storage_options    what fsspec.filesystem takes; for s3 key, secret, token, anon, endpoint_url, client_kwargs, or
                       pyarrow's words: access_key, secret_key, region, endpoint_override, ...: both know both
    from outside       AWS_PROFILE, AWS_ACCESS_KEY_ID, ..., AWS_DEFAULT_REGION, AWS_ENDPOINT_URL

For a writer, which opens its files itself: `Arrow`, the pyarrow.fs filesystem that these options make; `translate`, any
exception of it as a RemoteError; `shown`, a URL without what may be a password or a signature.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from .remote_errors import RemoteError, RemoteNotFoundError, RemotePermissionError, missing, shown, translate
from .remote_libraries import S3, WINDOW, Arrow, Fsspec, Library, RemoteEntry, RemoteObject

__all__ = [
    "Arrow",
    "RemoteEntry",
    "RemoteError",
    "RemoteNotFoundError",
    "RemotePermissionError",
    "RemoteSource",
    "is_url",
    "listing",
    "local_path",
    "look",
    "open_source",
    "read_whole",
    "shown",
    "translate",
]

# A round trip costs about as long as this many bytes: fewer are rather read than skipped.
_WORTH_A_REQUEST = 256 << 10
_SMALL_FILE = 64 << 20
# Everyone looks at the first batch's header first; it is kept.
_HEAD = 64

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://.*|[a-z0-9+.-]+::.*", re.DOTALL)
_PACKAGES = {
    "s3": "'kafkarec[remote]'",
    "gs": "fsspec gcsfs",
    "abfs": "fsspec adlfs",
    "az": "fsspec adlfs",
    "http": "fsspec aiohttp",
}
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "https": "http"}


class RemoteSource:
    """The bytes of one object. Safe for several threads.

    name, size (bytes when it was opened), fetched (bytes that came over the wire), requests (how many were made);
    read_at gives fewer bytes only at the end, or where the object has become shorter. RemoteError where the network
    or the server refuses; that ends the reading and is no damage of the file.
    """

    descriptor: int | None = None
    window_bytes = WINDOW
    skip_bytes = _WORTH_A_REQUEST

    def __init__(self, url: str, library: Library, size: int | None = None) -> None:
        self.name = shown(url)
        self.fetched = self.requests = 0
        self._url, self._library = url, library
        self._lock = threading.Lock()
        self._object: RemoteObject | None = None
        self._head = b""
        try:
            self._object = library.opened(url, size)
        except Exception as error:
            raise _explained(error, url, library) from error
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
        if failure is not None:  # outside of the handler: what is raised there would carry this one along
            data = self._shorter(position, stop, failure)
        with self._lock:
            self.requests += 1
            self.fetched += len(data)
            if position == 0:
                self._head = data[:_HEAD]
        if len(data) > stop - position:
            raise RemoteError(
                f"{self.name}: the server does not serve pieces of a file; download it and read the file",
                self.name,
                "no_ranges",
            )
        return data

    def _shorter(self, position: int, stop: int, error: Exception) -> bytes:
        """After a failure: what is left of the piece where the object has been replaced by a shorter one."""
        told = translate(error, self._url, self._library.endpoint)
        if told.kind not in ("other", "not_found", "not_implemented"):
            raise told from error
        try:
            now = self._library.info(self._url)
            if now is not None and now.size < stop and self._object is not None:
                return self._object.read(position, now.size) if position < now.size else b""
        except Exception as reason:
            # pyarrow has no room for the reason of a refusal when it reads less than its text is long
            raise _explained(reason, self._url, self._library) from error
        raise told from error

    def is_damage(self, error: OSError) -> bool:
        """Never: what a server refuses today may well be whole."""
        return False

    def close(self) -> None:
        if self._object is not None:
            self._object.close()
            self._object = None

    def __enter__(self) -> RemoteSource:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteSource {self.name}, {self.size} bytes, {self.fetched} fetched>"


def is_url(path: str) -> bool:
    """Whether a path is a URL rather than a name on this machine's disks; file:// is one, see local_path."""
    return _URL.fullmatch(path) is not None


def local_path(url: str) -> str | None:
    """The path that a file:// URL (or fsspec's local://) names; None for any other."""
    parts = urlsplit(url)
    if parts.scheme not in ("file", "local") or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path)


def open_source(
    url: str, storage_options: Mapping[str, Any] | None = None, *, size: int | None = None, library: str | None = None
) -> RemoteSource:
    """A source of the object's bytes. `size`: as a listing told it, which saves a request where the library can.

    `library`: "fsspec" or "pyarrow"; None: the one that is installed. RemoteError: one line that says what to do.
    """
    return RemoteSource(url, _library(url, storage_options, library), size)


def listing(url: str, storage_options: Mapping[str, Any] | None = None, *, library: str | None = None) -> list[RemoteEntry]:
    """What lies directly in the folder (the prefix) `url`, by name. An empty or missing one: RemoteNotFoundError."""
    chosen = _library(url, storage_options, library)
    try:
        found = chosen.entries(url)
        if not found and chosen.info(url) is None:
            raise FileNotFoundError("Not Found")
    except Exception as error:
        raise translate(error, url, chosen.endpoint) from error
    return sorted(entry for entry in found if entry.name)


def look(url: str, storage_options: Mapping[str, Any] | None = None, *, library: str | None = None) -> RemoteEntry:
    """What `url` is: an object with its size, or a folder (always, where it ends in /). Else RemoteNotFoundError."""
    chosen = _library(url, storage_options, library)
    name = url.rstrip("/").rpartition("/")[2]
    try:
        if url.endswith("/"):
            return RemoteEntry(name, 0, True)
        found = chosen.info(url)
        if found is None:
            raise FileNotFoundError("Not Found")
    except Exception as error:
        raise _explained(error, url, chosen) from error
    return RemoteEntry(name, found.size, found.is_dir)


def read_whole(
    url: str, storage_options: Mapping[str, Any] | None = None, *, library: str | None = None
) -> bytes | None:
    """All of a small object (an index, a manifest); None where there is none."""
    try:
        with open_source(url, storage_options, library=library) as source:
            if source.size > _SMALL_FILE:
                raise RemoteError(
                    f"{source.name}: {source.size} bytes are too many for a file of its kind", source.name
                )
            return source.read_at(0, source.size)
    except FileNotFoundError:
        return None


def _explained(error: Exception, url: str, library: Library) -> RemoteError:
    """A HEAD request is answered without a reason: reading one byte, or listing, makes the server tell it."""
    told = translate(error, url, library.endpoint)
    if told.kind not in ("denied", "not_found", "other", "region") or not url.startswith(
        tuple(f"{one}://" for one in S3)
    ):
        return told
    try:
        library.entries(url)
    except Exception as reason:
        better = translate(reason, url, library.endpoint)
        return better if better.kind not in ("not_found", "other") else told
    return told


def _library(url: str, storage_options: Mapping[str, Any] | None, wanted: str | None) -> Library:
    """fsspec where it knows the scheme and has its package, else pyarrow where it does, else what to install."""
    if not is_url(url):
        raise RemoteError(f"{url}: not a URL such as s3://bucket/folder/", url)
    scheme = re.split(r"://|::", url, maxsplit=1)[0].lower()
    options = dict(storage_options or {})
    if scheme in S3 and "@" in urlsplit(url).netloc:
        raise RemoteError(f"{shown(url)}: keys do not belong into a URL; set AWS_ACCESS_KEY_ID and "
                          f"AWS_SECRET_ACCESS_KEY, or pass storage_options", shown(url))  # fmt: skip
    reasons: list[Exception] = []
    for name, maker in (("fsspec", Fsspec), ("pyarrow", Arrow)):
        if wanted not in (None, name):
            continue
        try:
            return maker(url, scheme, options)
        except ImportError as error:
            reasons.append(error)
        except RemoteError:
            raise
        except TypeError as error:  # of a call: no value of an option is in its words
            told = str(error).partition(") ")[2] or error
            raise RemoteError(f"{shown(url)}: storage_options: {told}", shown(url)) from error
        except Exception as error:
            if not _unknown_scheme(error):
                raise translate(error, url) from error
            reasons.append(error)
    known = _PACKAGES.get(_SAME_SCHEME.get(scheme, scheme))
    if known is None and not any(isinstance(reason, ImportError) for reason in reasons):
        raise RemoteError(f"{shown(url)}: nothing here reads {scheme}:// URLs", shown(url), "missing")
    raise missing(f"{scheme}://", scheme, f"pip install {known or _PACKAGES['s3']}") from reasons[-1]


def _unknown_scheme(error: Exception) -> bool:
    return isinstance(error, ValueError) and bool(re.search(r"Protocol not known|Unrecognized filesystem", str(error)))
