"""Errors of remote storage: translates exceptions of fsspec and pyarrow into one line with the cause and a remedy.

The libraries report the same error with different classes, texts and chains of causes. All texts of the chain are
searched for the patterns in the table below.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

S3 = ("s3", "s3a", "s3n")


class RemoteError(OSError):
    """A URL that cannot be read. `str(error)` is one line: the URL, the cause, a remedy.

    kind: a kind of ERROR_PATTERNS, or "other".
    """

    _number = errno.EIO

    def __init__(self, message: str, url: str = "", kind: str = "other") -> None:
        super().__init__(self._number, message, url or None)
        self.kind = kind

    def __str__(self) -> str:
        return str(self.strerror)

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return type(self), (str(self.strerror), str(self.filename or ""), self.kind)


class RemoteNotFoundError(RemoteError, FileNotFoundError):
    """No such bucket, object or folder."""

    _number = errno.ENOENT


class RemotePermissionError(RemoteError, PermissionError):
    """Missing, wrong, expired or insufficient credentials, or an archived object."""

    _number = errno.EACCES


_CLASSES: dict[str, type[RemoteError]] = {
    **dict.fromkeys(("no_bucket", "not_found"), RemoteNotFoundError),
    **dict.fromkeys(("no_credentials", "bad_credentials", "expired", "denied", "archived"), RemotePermissionError),
}


_LOGIN = (
    "log in to this storage, or pass storage_options (S3: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY)"
)

# Kind, regular expression for the texts of an error without "_", message: with {scheme}, {bucket}, {region}, {where}
# (the endpoint) and {packages} (of pip). The first row that matches is used, so more specific ones are first.
ERROR_PATTERNS: tuple[tuple[str, str, str], ...] = (
    (
        "missing",
        r"^(Import|ModuleNotFound)Error",
        "a library for {scheme}:// is not installed: pip install {packages}",
    ),
    ("missing", r"Protocol not known", "no library here reads {scheme}:// URLs"),
    (
        "no_hadoop",
        r"libhdfs|libjvm",
        "this machine has no Hadoop client (libhdfs); copy the files to a folder first: hdfs dfs -get",
    ),
    (
        "region",
        r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|IncorrectEndpoint"
        r"|located in '|region '[^']*' is wrong|HTTP 301|Moved Permanently",
        "wrong region: bucket {bucket} is in {region}; set AWS_DEFAULT_REGION={region}",
    ),
    (
        "no_credentials",
        r"Unable to locate credentials|NoCredentials|Partial credentials|CredentialRetrieval|NoAuthToken"
        r"|DefaultCredentialsError|OAuth2 access token|Anonymous caller|could not be found.*profile|config profile",
        f"no credentials found; {_LOGIN}; for a public bucket: FSSPEC_S3_ANON=true",
    ),
    (
        "expired",
        r"ExpiredToken|token included in the request is expired|TokenRefreshRequired|SSO.*expired",
        "these credentials have expired; log in again (S3: aws sso login, or a new AWS_SESSION_TOKEN)",
    ),
    (
        "clock",
        r"RequestTimeTooSkewed|RequestExpired",
        "the clock of this machine differs too much from the server's; correct it",
    ),
    (
        "bad_credentials",
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|InvalidClientToken|UnrecognizedClient|InvalidSecurity"
        r"|Access Key Id you provided|HTTP 401|Unauthorized",
        f"the server does not accept these credentials; {_LOGIN}, and check AWS_SESSION_TOKEN, AWS_ENDPOINT_URL",
    ),
    (
        "archived",
        r"InvalidObjectState|storage class.*(GLACIER|ARCHIVE)",
        "the object is archived; restore it first (S3 Glacier: aws s3api restore-object)",
    ),
    (
        "no_bucket",
        r"NoSuchBucket|specified bucket (does not exist|is not valid)|InvalidBucketName",
        "there is no bucket {bucket} (on {where}); check the name and AWS_ENDPOINT_URL",
    ),
    (
        "denied",
        r"AccessDenied|AllAccessDisabled|Forbidden|HTTP 403|PermissionError|Permission denied",
        "403: access denied; these credentials need the rights to read and to list (S3: s3:GetObject and s3:ListBucket "
        "on {bucket}, without the latter a missing object is a 403, too, and kms:Decrypt for KMS); if there are no "
        f"credentials yet: {_LOGIN}",
    ),
    (
        "no_ranges",
        r"Got more bytes|support range|RangeNotSupported",
        "the server does not serve pieces of a file; download it and read the file",
    ),
    (
        "not_implemented",
        r"NotImplemented|functionality that is not implemented|Failed to flush response stream",
        "the server refuses this kind of request; AWS_RESPONSE_CHECKSUM_VALIDATION=when_required may help with an S3 "
        "server that is not Amazon's",
    ),
    (
        "tls",
        r"certificate ?verify|SSLError|curlCode: 60|SSL peer certificate",
        "the server's certificate is not trusted; set AWS_CA_BUNDLE (S3) or SSL_CERT_FILE to the file of your CA",
    ),
    (
        "unreachable",
        r"EndpointConnection|Could not connect|NetworkConnection|curlCode|Cannot connect|Name or service not known"
        r"|getaddrinfo|Connection ?(error|refused|reset)|Timeout",
        "cannot reach {where}; check the network, the proxy, the address (S3: AWS_ENDPOINT_URL, AWS_DEFAULT_REGION)",
    ),
    (
        "busy",
        r"SlowDown|ServiceUnavailable|Throttl|HTTP 503|HTTP 429|reduce your request rate",
        "the server asks for fewer requests; try again later",
    ),
    # the last: fsspec raises FileNotFoundError for every error of http
    (
        "not_found",
        r"NoSuchKey|HTTP 404|Not ?Found|does not exist|No such file",
        "there is no such object or folder; kafkarec ls {scheme}://{bucket}/ lists what there is",
    ),
)
_PACKAGES = {
    **dict.fromkeys(("gs", "gcs"), "fsspec gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "fsspec adlfs"),
    **dict.fromkeys(("http", "https"), "fsspec aiohttp"),
}

_REGION = re.compile(r"(?:located in|expecting) '([a-z0-9-]+)'")
_LONGEST_QUOTE = 200


def display_url(url: str) -> str:
    """The URL for messages: without user and password, and without the query of an http URL, which may be a
    signature. A path as it is."""
    if "://" not in url:
        return url
    if "::" in url:  # a chain of fsspec, such as simplecache::https://...
        return "::".join(map(display_url, url.split("::")))
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        url = url.split("?", 1)[0].split("#", 1)[0]
    if "@" in parts.netloc and parts.scheme not in ("abfs", "abfss"):  # there it is the container
        url = url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
    return url


def remote_error(error: BaseException, url: str, endpoint: str | None = None) -> RemoteError:
    """An exception of fsspec or pyarrow as a RemoteError of one line. endpoint: of the server; None: not known."""
    if isinstance(error, RemoteError):
        return error
    scheme, _, rest = url.partition("://")
    text, path = " | ".join(_texts(error)), rest.split("?", 1)[0].strip("/")
    # without parts of the URL, as a bucket's name may be NoSuchKey and a topic's timeout-404
    for name in sorted({path, path.partition("/")[2], *path.split("/")} - {""}, key=len, reverse=True):
        text = re.sub(rf"(?<![a-zA-Z0-9]){re.escape(name)}(?![a-zA-Z0-9])", "", text)
    shown = display_url(url)
    plain = text.replace("_", "")  # pyarrow: ACCESS_DENIED, botocore: AccessDenied
    kind, _, message = next((row for row in ERROR_PATTERNS if re.search(row[1], plain, re.IGNORECASE)), ("", "", ""))
    if not kind:
        original = (isinstance(error, OSError) and error.strerror) or str(error)
        original = re.sub(r"https?://[^\s'\"]+", lambda address: display_url(address[0]), original)
        first_line = (original.strip().splitlines() or [""])[0][:_LONGEST_QUOTE] or type(error).__name__
        return RemoteError(f"{shown}: {first_line}", shown)
    region, address = _REGION.search(text), re.search(r"https?://[^/\s\"'?]+", text)
    bucket = shown.partition("://")[2].split("/", 1)[0]
    if kind == "region" and not region:
        message = "wrong region for bucket {bucket}; set AWS_DEFAULT_REGION to the one it is in"
    message = message.format(
        scheme=scheme,
        bucket=bucket,
        region=region and region[1],
        where=endpoint or (address and display_url(address[0])) or f"{scheme}://{bucket}",
        packages=_PACKAGES.get(scheme, "'kafkarec[remote]'"),
    )
    return _CLASSES.get(kind, RemoteError)(f"{shown}: {message}", shown, kind)


def _texts(error: BaseException) -> Iterator[str]:
    """Class and text of an exception and of its causes, with the HTTP status and headers that botocore stores."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        seen.append(one)
        yield f"{type(one).__name__}: {one}".replace("HTTP status ", "HTTP ")
        response = getattr(one, "response", None)
        metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
        yield f"HTTP {metadata.get('HTTPStatusCode') or getattr(one, 'status', None)}"
        if "x-amz-bucket-region" in metadata.get("HTTPHeaders", {}):
            yield f"located in '{metadata['HTTPHeaders']['x-amz-bucket-region']}'"
        one = one.__cause__ or one.__context__
