"""One URL in a filesystem of fsspec: what it is, its listing, range reads, without caches and read-ahead.

The filesystem is that of the scheme's own package (s3fs, gcsfs, ...); where it is missing, fsspec's wrapper of
pyarrow.fs. `kafkarec.sources.remote` counts the bytes transferred.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from .files import FolderEntry
from .remote_errors import S3, RemoteError, display_url, remote_error

_ARROW_SCHEMES = (*S3, "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")


class RemoteObject(NamedTuple):
    """One open object. read(start, stop): may be called by several threads at once; raises the library's own errors."""

    size: int
    read: Callable[[int, int], bytes]
    close: Callable[[], object] = lambda: None


class RemotePath:
    """The object or folder at `url`. Every failure is a RemoteError."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.url = url
        self._endpoint: str | None = None
        scheme = re.split(r"://|::", url, maxsplit=1)[0].lower()
        self._on_s3, self._of_web, self._of_arrow = scheme in S3, scheme in ("http", "https"), False
        if self._on_s3 and "@" in urlsplit(url).netloc:
            raise RemoteError(
                f"{display_url(url)}: a URL must not contain keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                f"pass storage_options",
                display_url(url),
            )
        try:
            self._find_filesystem(scheme, options)
        except Exception as error:
            raise self.error(error) from error

    def _find_filesystem(self, scheme: str, options: Mapping[str, Any]) -> None:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]

        try:
            given = dict(options)
            if self._on_s3:
                from botocore.config import Config  # type: ignore[import-untyped]
                from fsspec import get_filesystem_class  # type: ignore[import-untyped]

                given = _s3_options(options)
                self._endpoint = given.get("endpoint_url") or _endpoint_of_environment()
                # No checksum of the whole object is requested: ranges have none, and servers other than Amazon's may
                # refuse such requests.
                checksums = "response_checksum_validation"
                if checksums in Config.OPTION_DEFAULTS:
                    given["config_kwargs"] = {checksums: "when_required", **given.get("config_kwargs", {})}
                # fsspec caches filesystems by options alone
                settings = sorted(one for one in os.environ.items() if one[0].startswith("AWS_"))
                if settings != _settings:
                    get_filesystem_class("s3").clear_instance_cache()
                    _settings[:] = settings
            self._fs, self._path = url_to_fs(self.url, use_listings_cache=False, **given)
            return
        except (ImportError, ValueError) as error:
            no_package = isinstance(error, ImportError) or "Protocol not known" in str(error)
            if not no_package or scheme not in _ARROW_SCHEMES:
                raise
        # outside of the handler, so that errors raised here have no __context__
        from fsspec.implementations.arrow import ArrowFSWrapper  # type: ignore[import-untyped]

        filesystem, self._path, self._endpoint = arrow_filesystem(self.url, options)
        self._fs, self._of_arrow = ArrowFSWrapper(filesystem, skip_instance_cache=True), True

    def error(self, error: Exception) -> RemoteError:
        return remote_error(error, self.url, self._endpoint)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Converts exceptions. Responses to HEAD have no error text, so on S3 the folder is listed too, and the error
        of that request is raised if it is more specific."""
        try:
            yield
        except Exception as error:
            failure = self.error(error)
            if self._on_s3 and failure.kind in ("denied", "not_found", "other", "region"):
                try:
                    self.entries()
                except RemoteError as reason:
                    failure = reason if reason.kind not in ("not_found", "other") else failure
            raise failure from error

    def info(self) -> FolderEntry:
        with self.errors():
            return _entry(self._fs.info(self._path))

    def entries(self) -> list[FolderEntry]:
        path = self._path.rstrip("/")
        try:
            if self._of_web:  # the links of a web page to addresses below its own; their sizes need one request each
                own = path + "/"
                links = [one for one in self._fs.ls(own, detail=True) if "?" not in one["name"] and one["name"] != own]
                files = [one for one in links if one["type"] != "directory"]
                for one, size in zip(files, self._fs.sizes([one["name"] for one in files]), strict=True):
                    one["size"] = size
                return [_entry(one) for one in links]
            listed = self._fs.ls(path, detail=True)
        except Exception as error:
            raise self.error(error) from error
        # A bucket may have an empty object with the name of the folder itself, which is not in the folder.
        return [_entry(one) for one in listed if one["name"].rstrip("/") != path]

    def opened(self, size: int | None) -> RemoteObject:
        """size: from a listing, if known, which saves a request except with pyarrow."""
        with self.errors():
            if self._of_web or self._of_arrow:
                file = self._fs.open(self._path, "rb", cache_type="none")
                if self._of_arrow:
                    # the wrapper's cat_file opens the object for each range, which is a request more
                    size = file.stream.size()  # file.size is a method before fsspec 2026.2
                    return RemoteObject(
                        size, lambda start, stop: bytes(file.stream.read_at(stop - start, start)), file.close
                    )
                # fsspec's HTTP file stops early if a server sends the whole object instead of a range
                if not hasattr(file, "async_fetch_range"):
                    raise ValueError("RangeNotSupported")
                return RemoteObject(file.size, lambda start, stop: bytes(file._fetch_range(start, stop)), file.close)
            if size is None:
                _, size, is_dir = _entry(self._fs.info(self._path))
                if is_dir:
                    raise IsADirectoryError("a folder, not an object")
        # A filesystem that is not asynchronous reads through an open file, which would read ahead.
        plain = {} if getattr(self._fs, "async_impl", False) else {"cache_type": "none"}
        return RemoteObject(
            size, lambda start, stop: bytes(self._fs.cat_file(self._path, start=start, end=stop, **plain))
        )


def arrow_filesystem(url: str, storage_options: Mapping[str, Any]) -> tuple[Any, str, str | None]:
    """For code that writes: the filesystem of pyarrow.fs for a URL, the URL's path in it, and the endpoint if one is
    set. Errors of the filesystem are pyarrow's: see `remote_error`."""
    from pyarrow import fs  # type: ignore[import-untyped]

    scheme, _, path = url.partition("://")
    scheme = scheme.lower()
    if scheme in S3:
        given = _s3_options(storage_options)
        inner = given.pop("client_kwargs", {})
        given = {_ARROW_NAMES.get(name, name): value for name, value in given.items()}
        endpoint = given.pop("endpoint_url", None) or _endpoint_of_environment()
        if endpoint:
            parts = urlsplit(endpoint)
            given |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
        if "region_name" in inner:
            given["region"] = inner["region_name"]
        elif not (endpoint or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            # pyarrow's default is us-east-1; fsspec follows the server's redirect instead
            with suppress(Exception):  # the first request reports the error
                given["region"] = fs.resolve_s3_region(path.split("/", 1)[0])
        return fs.S3FileSystem(**given), path, endpoint
    if scheme in ("gs", "gcs"):
        # the default is to look for credentials for 15 minutes
        return fs.GcsFileSystem(**{"retry_time_limit": timedelta(seconds=20), **storage_options}), path, None
    if storage_options:
        raise TypeError(f"pyarrow has no storage_options for {scheme}://; install fsspec's package for it")
    return *fs.FileSystem.from_uri(url), None


def _entry(info: Mapping[str, Any]) -> FolderEntry:
    name = str(info["name"]).rstrip("/").rpartition("/")[2]
    return FolderEntry(name, int(info.get("size") or 0), info["type"] == "directory")


_settings: list[tuple[str, str]] = []  # the AWS_ variables of the filesystems that fsspec has cached


_ARROW_NAMES = {"key": "access_key", "secret": "secret_key", "token": "session_token", "anon": "anonymous"}
_FSSPEC_NAMES = {arrow_name: name for name, arrow_name in _ARROW_NAMES.items()}


def _s3_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for s3 with fsspec's names instead of pyarrow's; client_kwargs has the endpoint and the region."""
    given = {_FSSPEC_NAMES.get(name, name): value for name, value in options.items()}
    inner = dict(given.pop("client_kwargs", None) or {})
    address = given.pop("endpoint_override", None) or given.pop("endpoint_url", None) or inner.get("endpoint_url")
    scheme = given.pop("scheme", "https")
    if address:
        given["endpoint_url"] = inner["endpoint_url"] = address if "://" in address else f"{scheme}://{address}"
    if region := given.pop("region", None):
        inner["region_name"] = region
    return {**given, "client_kwargs": inner} if inner else given  # an empty one would hide that of fsspec's config


def _endpoint_of_environment() -> str | None:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
