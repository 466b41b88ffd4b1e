"""Files behind URLs: s3://, gs://, abfs://, http(s):// and whatever else fsspec or pyarrow.fs reads.

Only what is asked for is fetched, one range request for each `read_at`: no cache and no read-ahead of a library stands
between, so `fetched` is what came over the wire. Retries and credentials are the library's own. fsspec is taken where
it and the package for the scheme are installed (`pip install 'kafkarec[remote]'`), otherwise pyarrow.

    storage_options    what fsspec.filesystem takes; for s3 pyarrow understands the same key, secret, token, anon,
                       endpoint_url, client_kwargs
    from outside       AWS_PROFILE, AWS_ACCESS_KEY_ID, ..., AWS_DEFAULT_REGION, AWS_ENDPOINT_URL
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from .remotefaults import RemoteError, RemoteNotFoundError, RemotePermissionError, missing, shown, translate

__all__ = [
    "Entry",
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
]

# A round trip costs about as long as this many bytes: fewer are rather read than skipped.
_WORTH_A_REQUEST = 256 << 10
_WINDOW = 2 << 20
_SMALL_FILE = 64 << 20
# Everyone looks at the first batch's header first; it is kept.
_HEAD = 64

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://.*|[a-z0-9+.-]+::.*", re.DOTALL)
_S3 = ("s3", "s3a", "s3n")
_PACKAGES = {
    "s3": "'kafkarec[remote]'",
    "gs": "fsspec gcsfs",
    "abfs": "fsspec adlfs",
    "az": "fsspec adlfs",
    "http": "fsspec aiohttp",
}
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "https": "http"}


class Entry(NamedTuple):
    """One name of a listing. size: bytes, 0 for a folder and where the server does not tell."""

    name: str
    size: int
    is_dir: bool


class _Library(Protocol):
    """One library with one set of options. Paths are whole URLs; errors are the library's own."""

    endpoint: str | None

    def info(self, url: str) -> Entry | None: ...
    def entries(self, url: str) -> list[Entry]: ...
    def opened(self, url: str, size: int | None) -> _Object: ...


class _Object(Protocol):
    """One object behind a URL. `read` may be called by several threads at once."""

    size: int

    def read(self, start: int, stop: int) -> bytes: ...
    def close(self) -> None: ...


class RemoteSource:
    """The bytes of one object. Safe for several threads.

    name, size (bytes when it was opened), fetched (bytes that came over the wire), requests (how many were made);
    read_at gives fewer bytes only at the end, or where the object has become shorter. RemoteError where the network
    or the server refuses; that ends the reading and is no damage of the file.
    """

    descriptor: int | None = None
    window_bytes = _WINDOW
    skip_bytes = _WORTH_A_REQUEST

    def __init__(self, url: str, library: _Library, size: int | None = None) -> None:
        self.name = shown(url)
        self.fetched = self.requests = 0
        self._url, self._library = url, library
        self._lock = threading.Lock()
        self._object: _Object | None = None
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
        try:
            data = self._object.read(position, stop)
        except Exception as error:
            data = self._shorter(position, stop, error)
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
        if told.kind not in ("other", "not_found"):
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
    """The path that a file:// URL names; None for any other."""
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    return unquote(parts.path)


def open_source(
    url: str, storage_options: Mapping[str, Any] | None = None, *, size: int | None = None, library: str | None = None
) -> RemoteSource:
    """A source of the object's bytes. `size`: as a listing told it, which saves a request where the library can.

    `library`: "fsspec" or "pyarrow"; None: the one that is installed. RemoteError: one line that says what to do.
    """
    return RemoteSource(url, _library(url, storage_options, library), size)


def listing(url: str, storage_options: Mapping[str, Any] | None = None, *, library: str | None = None) -> list[Entry]:
    """What lies directly in the folder (the prefix) `url`, by name. An empty or missing one: RemoteNotFoundError."""
    chosen = _library(url, storage_options, library)
    try:
        found = chosen.entries(url)
        if not found and chosen.info(url) is None:
            raise FileNotFoundError("Not Found")
    except Exception as error:
        raise translate(error, url, chosen.endpoint) from error
    return sorted(entry for entry in found if entry.name)


def look(url: str, storage_options: Mapping[str, Any] | None = None, *, library: str | None = None) -> Entry:
    """What `url` is: an object with its size, or a folder (always, where it ends in /). Else RemoteNotFoundError."""
    chosen = _library(url, storage_options, library)
    name = url.rstrip("/").rpartition("/")[2]
    try:
        if url.endswith("/"):
            return Entry(name, 0, True)
        found = chosen.info(url)
        if found is None:
            raise FileNotFoundError("Not Found")
    except Exception as error:
        raise _explained(error, url, chosen) from error
    return Entry(name, found.size, found.is_dir)


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


def _explained(error: Exception, url: str, library: _Library) -> RemoteError:
    """A HEAD request is answered without a reason: reading one byte, or listing, makes the server tell it."""
    told = translate(error, url, library.endpoint)
    if told.kind not in ("denied", "not_found", "other", "region") or not url.startswith(
        tuple(f"{one}://" for one in _S3)
    ):
        return told
    try:
        library.entries(url)
    except Exception as reason:
        better = translate(reason, url, library.endpoint)
        return better if better.kind not in ("not_found", "other") else told
    return told


def _library(url: str, storage_options: Mapping[str, Any] | None, wanted: str | None) -> _Library:
    """fsspec where it knows the scheme and has its package, else pyarrow where it does, else what to install."""
    if not is_url(url):
        raise RemoteError(f"{url}: not a URL such as s3://bucket/folder/", url)
    scheme = re.split(r"://|::", url, maxsplit=1)[0].lower()
    options = dict(storage_options or {})
    reasons: list[Exception] = []
    for name, maker in (("fsspec", _Fsspec), ("pyarrow", _Arrow)):
        if wanted not in (None, name):
            continue
        try:
            return maker(url, scheme, options)
        except ImportError as error:
            reasons.append(error)
        except RemoteError:
            raise
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


class _Fsspec:
    """An fsspec filesystem, without its caches of listings and bytes."""

    def __init__(self, url: str, scheme: str, options: dict[str, Any]) -> None:
        import fsspec  # type: ignore[import-untyped]

        self._fs, _ = fsspec.core.url_to_fs(url, use_listings_cache=False, **options)
        settings = {**getattr(self._fs, "client_kwargs", {}), **options}
        self.endpoint = settings.get("endpoint_url") or _endpoint_outside(scheme)
        self._scheme = scheme

    def info(self, url: str) -> Entry | None:
        try:
            found = self._fs.info(self._path(url))
        except FileNotFoundError as error:
            if translate(error, url).kind != "not_found":
                raise
            return None
        return _entry(found)

    def entries(self, url: str) -> list[Entry]:
        path = self._path(url).rstrip("/")
        listed = self._fs.ls(path + "/" if self._scheme in ("http", "https") else path, detail=True)
        # A bucket may hold an empty object named like the folder itself; it is no name in the folder.
        return [_entry(one) for one in listed if one["name"].rstrip("/") != path]

    def opened(self, url: str, size: int | None) -> _Object:
        path = self._path(url)
        if self._scheme in ("http", "https"):
            return _HttpObject(self._fs, path)
        if size is None:
            found = self._fs.info(path)
            if found["type"] == "directory":
                raise IsADirectoryError("a folder, not an object")
            size = int(found["size"])
        return _FsspecObject(self._fs, path, size)

    def _path(self, url: str) -> str:
        return str(self._fs._strip_protocol(url))


class _FsspecObject:
    def __init__(self, fs: Any, path: str, size: int) -> None:
        self._fs, self._path, self.size = fs, path, size
        # A filesystem that is no asynchronous one reads through an open file, which would read ahead.
        self._plain = {} if getattr(fs, "async_impl", False) else {"cache_type": "none"}

    def read(self, start: int, stop: int) -> bytes:
        return bytes(self._fs.cat_file(self._path, start=start, end=stop, **self._plain))

    def close(self) -> None:
        return None


class _HttpObject:
    """Through fsspec's HTTP file: it stops early where a server sends everything instead of a range."""

    def __init__(self, fs: Any, path: str) -> None:
        self._file = fs.open(path, "rb", cache_type="none", block_size=_WINDOW)
        if not isinstance(getattr(self._file, "size", None), int) or not hasattr(self._file, "async_fetch_range"):
            raise ValueError("RangeNotSupported")
        self.size = int(self._file.size)

    def read(self, start: int, stop: int) -> bytes:
        return bytes(self._file._fetch_range(start, stop))

    def close(self) -> None:
        self._file.close()


class _Arrow:
    """A filesystem of pyarrow.fs."""

    def __init__(self, url: str, scheme: str, options: dict[str, Any]) -> None:
        from pyarrow import fs  # type: ignore[import-untyped]

        self._types = fs.FileType
        self._selector = fs.FileSelector
        self.endpoint = _endpoint_outside(scheme)
        if scheme in _S3:
            given = _arrow_s3_options(options)
            if "endpoint_override" in given:
                self.endpoint = f"{given.get('scheme', 'https')}://{given['endpoint_override']}"
            elif not self.endpoint and not {"region"} & set(given) and not _region_outside():
                given |= _region_of_bucket(fs, url)
            self._fs = fs.S3FileSystem(**given)
            self._root = url.partition("://")[0] + "://"
        elif scheme in ("gs", "gcs"):
            # by itself it would try for a quarter of an hour to find credentials
            self._fs = fs.GcsFileSystem(**{"retry_time_limit": timedelta(seconds=20), **options})
            self._root = f"{scheme}://"
        elif options:
            raise RemoteError(
                f"{shown(url)}: pyarrow takes no storage_options for {scheme}://; install fsspec and its package", url
            )
        else:
            self._fs, path = fs.FileSystem.from_uri(url)
            self._root = url[: url.rindex(path)] if path and path in url else f"{scheme}://"

    def info(self, url: str) -> Entry | None:
        found = self._fs.get_file_info(self._path(url))
        if found.type == self._types.NotFound:
            return None
        return Entry(found.base_name, found.size or 0, found.type == self._types.Directory)

    def entries(self, url: str) -> list[Entry]:
        listed = self._fs.get_file_info(self._selector(self._path(url).rstrip("/")))
        return [Entry(one.base_name, one.size or 0, one.type == self._types.Directory) for one in listed]

    def opened(self, url: str, size: int | None) -> _Object:
        return _ArrowObject(self._fs.open_input_file(self._path(url)))

    def _path(self, url: str) -> str:
        return url[len(self._root) :]


class _ArrowObject:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size = int(file.size())

    def read(self, start: int, stop: int) -> bytes:
        return bytes(self._file.read_at(stop - start, start))

    def close(self) -> None:
        self._file.close()


def _entry(found: Mapping[str, Any]) -> Entry:
    name = str(found["name"]).rstrip("/").rpartition("/")[2]
    return Entry(name, int(found.get("size") or 0), found["type"] == "directory")


def _endpoint_outside(scheme: str) -> str | None:
    if scheme not in _S3:
        return None
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _region_outside() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _region_of_bucket(fs: Any, url: str) -> dict[str, Any]:
    """S3FileSystem takes us-east-1 for granted where nothing is said; fsspec follows the server's redirection."""
    try:
        return {"region": fs.resolve_s3_region(url.partition("://")[2].split("/", 1)[0])}
    except Exception:
        return {}  # what is wrong with the bucket is told by the first request


_ARROW_NAMES = {"key": "access_key", "secret": "secret_key", "token": "session_token", "anon": "anonymous"}


def _arrow_s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """fsspec's words for s3 in pyarrow's; pyarrow's own pass as they are."""
    inner = dict(options.get("client_kwargs") or {})
    given = {_ARROW_NAMES.get(name, name): value for name, value in options.items() if name != "client_kwargs"}
    endpoint = given.pop("endpoint_url", None) or inner.pop("endpoint_url", None) or _endpoint_outside("s3")
    if endpoint:
        parts = urlsplit(endpoint)
        given |= {"endpoint_override": parts.netloc or endpoint, "scheme": parts.scheme or "https"}
    if "region_name" in inner:
        given["region"] = inner["region_name"]
    return given
