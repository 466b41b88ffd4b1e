"""One interface to the two libraries that read URLs, fsspec and pyarrow.fs: stat, listings, range reads.

Caches and read-ahead are off: `kafkarec.sources.remote` counts the bytes transferred. The libraries' own errors are
raised.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from .remote_errors import S3, RemoteError, display_url
from .remote_object import WINDOW, FolderEntry, RemoteObject

_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


class Fsspec:
    """An fsspec filesystem, without its caches of listings and bytes. Its methods, as those of Arrow, accept whole URLs
    and raise the library's own errors."""

    def __init__(self, url: str, scheme: str, options: dict[str, Any]) -> None:
        import fsspec  # type: ignore[import-untyped]

        if scheme in S3:
            options = _fsspec_s3_options(options)
            options["config_kwargs"] = {**_plain_requests(), **options.get("config_kwargs", {})}
            _clear_cache_of_old_settings(fsspec)
        self._fs, _ = fsspec.core.url_to_fs(url, use_listings_cache=False, **options)
        settings = {**getattr(self._fs, "client_kwargs", {}), **options}
        self.endpoint = settings.get("endpoint_url") or _endpoint_of_environment(scheme)
        self._scheme = scheme

    def info(self, url: str) -> FolderEntry:
        return _entry(self._fs.info(self._path(url)))

    def entries(self, url: str) -> list[FolderEntry]:
        path = self._path(url).rstrip("/")
        if self._scheme in ("http", "https"):
            return self._linked(path + "/")
        # A bucket may have an empty object with the name of the folder itself, which is not in the folder.
        return [_entry(one) for one in self._fs.ls(path, detail=True) if one["name"].rstrip("/") != path]

    def _linked(self, url: str) -> list[FolderEntry]:
        """The links of a web page to addresses below its own. Their sizes need one request each."""
        listed = [one for one in self._fs.ls(url, detail=True) if "?" not in one["name"] and one["name"] != url]
        files = [one for one in listed if one["type"] != "directory"]
        for one, size in zip(files, self._fs.sizes([one["name"] for one in files]), strict=True):
            one["size"] = size
        return [_entry(one) for one in listed]

    def opened(self, url: str, size: int | None) -> RemoteObject:
        path = self._path(url)
        if self._scheme in ("http", "https"):
            # fsspec's HTTP file stops early if a server sends the whole object instead of a range
            file = self._fs.open(path, "rb", cache_type="none", block_size=WINDOW)
            if not isinstance(getattr(file, "size", None), int) or not hasattr(file, "async_fetch_range"):
                raise ValueError("RangeNotSupported")
            return RemoteObject(file.size, lambda start, stop: bytes(file._fetch_range(start, stop)), file.close)
        if size is None:
            info = self._fs.info(path)
            if info["type"] == "directory":
                raise IsADirectoryError("a folder, not an object")
            size = int(info["size"])
        # A filesystem that is not asynchronous reads through an open file, which would read ahead.
        plain = {} if getattr(self._fs, "async_impl", False) else {"cache_type": "none"}
        return RemoteObject(size, lambda start, stop: bytes(self._fs.cat_file(path, start=start, end=stop, **plain)))

    def _path(self, url: str) -> str:
        return str(self._fs._strip_protocol(url))


_settings: dict[str, str] = {}


def _clear_cache_of_old_settings(fsspec: Any) -> None:
    """Clears fsspec's cache of filesystems if an AWS_ variable has changed: fsspec caches them by options alone."""
    now = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    if now != _settings:
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        _settings.clear()
        _settings.update(now)


def _plain_requests() -> dict[str, Any]:
    """botocore settings by which no checksum of the whole object is requested: ranges have none, and servers other than
    Amazon's may refuse such requests."""
    from botocore.config import Config  # type: ignore[import-untyped]

    name = "response_checksum_validation"
    return {name: "when_required"} if name in Config.OPTION_DEFAULTS else {}


class Arrow:
    """A filesystem of pyarrow.fs. Code that writes uses `filesystem` itself, and `path` for its path of a URL."""

    def __init__(self, url: str, scheme: str, options: dict[str, Any]) -> None:
        from pyarrow import fs  # type: ignore[import-untyped]

        self._types, self._selector = fs.FileType, fs.FileSelector
        self.endpoint = _endpoint_of_environment(scheme)
        if scheme in S3:
            given = _arrow_s3_options(options)
            if "endpoint_override" in given:
                self.endpoint = f"{given.get('scheme', 'https')}://{given['endpoint_override']}"
            elif not (self.endpoint or given.get("region") or any(map(os.environ.get, _REGION_VARIABLES))):
                given |= _region_of_bucket(fs, url)
            self.filesystem = fs.S3FileSystem(**given)
            self._root = url.partition("://")[0] + "://"
        elif scheme in ("gs", "gcs"):
            # the default is to look for credentials for 15 minutes
            self.filesystem = fs.GcsFileSystem(**{"retry_time_limit": timedelta(seconds=20), **options})
            self._root = f"{scheme}://"
        elif options:
            raise RemoteError(
                f"{display_url(url)}: pyarrow has no storage_options for {scheme}://; install fsspec and its package",
                url,
            )
        else:
            self.filesystem, path = fs.FileSystem.from_uri(url)
            self._root = url[: url.rindex(path)] if path and path in url else f"{scheme}://"

    def info(self, url: str) -> FolderEntry:
        info = self.filesystem.get_file_info(self.path(url))
        if info.type == self._types.NotFound:
            raise FileNotFoundError("Not Found")
        return self._entry(info)

    def entries(self, url: str) -> list[FolderEntry]:
        folder = self._selector(self.path(url).rstrip("/"))
        return [self._entry(one) for one in self.filesystem.get_file_info(folder)]

    def _entry(self, info: Any) -> FolderEntry:
        return FolderEntry(info.base_name, info.size or 0, info.type == self._types.Directory)

    def opened(self, url: str, size: int | None) -> RemoteObject:
        file = self.filesystem.open_input_file(self.path(url))
        return RemoteObject(file.size(), lambda start, stop: bytes(file.read_at(stop - start, start)), file.close)

    def path(self, url: str) -> str:
        return url[len(self._root) :]


Library = Fsspec | Arrow


def _entry(info: Mapping[str, Any]) -> FolderEntry:
    name = str(info["name"]).rstrip("/").rpartition("/")[2]
    return FolderEntry(name, int(info.get("size") or 0), info["type"] == "directory")


def _endpoint_of_environment(scheme: str) -> str | None:
    if scheme not in S3:
        return None
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _region_of_bucket(fs: Any, url: str) -> dict[str, Any]:
    """The region option for S3FileSystem, whose default is us-east-1; fsspec follows the server's redirect instead."""
    try:
        return {"region": fs.resolve_s3_region(url.partition("://")[2].split("/", 1)[0])}
    except Exception:
        return {}  # the first request reports the error


_ARROW_NAMES = {"key": "access_key", "secret": "secret_key", "token": "session_token", "anon": "anonymous"}
_FSSPEC_NAMES = {arrow_name: name for name, arrow_name in _ARROW_NAMES.items()}


def _fsspec_s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for s3 with pyarrow's names replaced by fsspec's."""
    given = {_FSSPEC_NAMES.get(name, name): value for name, value in options.items()}
    endpoint, scheme = given.pop("endpoint_override", None), given.pop("scheme", "https")
    if endpoint:
        given["endpoint_url"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    region = given.pop("region", None)
    if region:
        given["client_kwargs"] = {**given.get("client_kwargs", {}), "region_name": region}
    return given


def _arrow_s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for s3 with fsspec's names replaced by pyarrow's."""
    inner = dict(options.get("client_kwargs") or {})
    given = {_ARROW_NAMES.get(name, name): value for name, value in options.items() if name != "client_kwargs"}
    endpoint = given.pop("endpoint_url", None) or inner.pop("endpoint_url", None)
    if "://" in given.get("endpoint_override", ""):
        endpoint = given.pop("endpoint_override")
    elif "endpoint_override" not in given:
        endpoint = endpoint or _endpoint_of_environment("s3")
    if endpoint:
        parts = urlsplit(endpoint)
        given |= {"endpoint_override": parts.netloc or endpoint, "scheme": parts.scheme or "https"}
    if "region_name" in inner:
        given["region"] = inner["region_name"]
    return given
