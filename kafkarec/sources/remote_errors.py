"""Errors of remote storage: translates exceptions of fsspec and pyarrow into one line with the cause and a remedy.

The libraries report the same error with different classes, texts and chains of causes. All texts of the chain are
searched for the patterns in the table below.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import NamedTuple

S3 = ("s3", "s3a", "s3n")


class RemoteError(OSError):
    """A URL that cannot be read. `str(error)` is one line: the URL, the cause, a remedy.

    kind: "other", "missing" (a library), or a kind of ERROR_PATTERNS.
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


class _ErrorPattern(NamedTuple):
    """pattern: a regular expression for the texts of an error; on_s3, elsewhere: the message on s3:// and for other
    schemes (None: the same), with {bucket}, {region} and {where} (the endpoint)."""

    kind: str
    pattern: str
    on_s3: str
    elsewhere: str | None = None


_LOGIN = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"

# The first row whose pattern matches is used, so more specific patterns are first.
ERROR_PATTERNS: tuple[_ErrorPattern, ...] = (
    _ErrorPattern(
        "no_hadoop",
        r"libhdfs|libjvm",
        "this machine has no Hadoop client (libhdfs); copy the files to a folder first: hdfs dfs -get",
    ),
    _ErrorPattern(
        "region",
        r"PermanentRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|IncorrectEndpoint"
        r"|located in '|region '[^']*' is wrong|HTTP 301|Moved Permanently",
        "wrong region: bucket {bucket} is in {region}; set AWS_DEFAULT_REGION={region}",
        "the server sends elsewhere (wrong region or address)",
    ),
    _ErrorPattern(
        "no_credentials",
        r"Unable to locate credentials|NoCredentials|Partial credentials|CredentialRetrieval|NoAuthToken"
        r"|DefaultCredentialsError|OAuth2 access token|Anonymous caller|could not be found.*profile|config profile",
        f"no credentials found; {_LOGIN} (for a public bucket: FSSPEC_S3_ANON=true)",
        "no credentials found; log in with the tool of this storage first, or pass storage_options",
    ),
    _ErrorPattern(
        "expired",
        r"ExpiredToken|token included in the request is expired|TokenRefreshRequired|EXPIRED_TOKEN|SSO.*expired",
        "403: these credentials have expired; get new ones (aws sso login, or a new AWS_SESSION_TOKEN)",
        "403: these credentials have expired; log in again",
    ),
    _ErrorPattern(
        "clock",
        r"RequestTimeTooSkewed|REQUEST_TIME_TOO_SKEWED|RequestExpired|REQUEST_EXPIRED",
        "403: the clock of this machine differs too much from the server's; correct it",
    ),
    _ErrorPattern(
        "bad_credentials",
        r"InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|SignatureDoesNotMatch|SIGNATURE_DOES_NOT_MATCH|InvalidToken"
        r"|INVALID_CLIENT_TOKEN|UnrecognizedClient|InvalidSecurity|Access Key Id you provided|HTTP 401|Unauthorized",
        f"403: the server does not accept these credentials; {_LOGIN}, and check AWS_SESSION_TOKEN, AWS_ENDPOINT_URL",
        "the server refuses these credentials (401 or 403); check them",
    ),
    _ErrorPattern(
        "archived",
        r"InvalidObjectState|INVALID_OBJECT_STATE|storage class.*(GLACIER|ARCHIVE)",
        "the object is archived (Glacier); restore it first: aws s3api restore-object",
        "the object is archived; restore it first",
    ),
    _ErrorPattern(
        "no_bucket",
        r"NoSuchBucket|NO_SUCH_BUCKET|specified bucket (does not exist|is not valid)|InvalidBucketName",
        "there is no bucket {bucket} (on {where}); check the name and AWS_ENDPOINT_URL",
        "there is no bucket {bucket}",
    ),
    _ErrorPattern(
        "not_found",
        r"NoSuchKey|NO_SUCH_KEY|RESOURCE_NOT_FOUND|HTTP 404|Not ?Found|does not exist|No such file|key does not exist",
        "there is no such object or folder in bucket {bucket}; kafkarec ls s3://{bucket}/ lists its content",
        "there is no such object or folder",
    ),
    _ErrorPattern(
        "denied",
        r"AccessDenied|ACCESS_DENIED|AllAccessDisabled|Forbidden|HTTP 403|PermissionError|Permission denied",
        "403: access denied; these credentials need s3:GetObject and s3:ListBucket on {bucket} (without the latter a "
        "missing object is a 403, too), and kms:Decrypt for KMS; if there are no credentials yet: " + _LOGIN,
        "403: access denied; the credentials lack the right to read or to list here",
    ),
    _ErrorPattern(
        "no_ranges",
        r"Got more bytes|does not support range|RangeNotSupported|doesn't appear to support range",
        "the server does not serve pieces of a file; download it and read the file",
    ),
    _ErrorPattern(
        "not_implemented",
        r"NotImplemented|functionality that is not implemented|Failed to flush response stream",
        "the server refuses this kind of request; AWS_RESPONSE_CHECKSUM_VALIDATION=when_required may help with a "
        "server that is not Amazon's",
        "the server does not implement this kind of request",
    ),
    _ErrorPattern(
        "tls",
        r"CERTIFICATE_VERIFY_FAILED|SSLError|certificate verify|curlCode: 60|SSL peer certificate",
        "the server's certificate is not trusted; set AWS_CA_BUNDLE=<file of your CA>",
        "the server's certificate is not trusted; set SSL_CERT_FILE=<file of your CA>",
    ),
    _ErrorPattern(
        "unreachable",
        r"EndpointConnection|Could not connect|ConnectTimeout|ConnectionRefused|NETWORK_CONNECTION|curlCode"
        r"|Cannot connect|Name or service not known|getaddrinfo|ConnectionError|Connection (refused|reset)|Timeout",
        "cannot reach {where}; check the network, the proxy, AWS_ENDPOINT_URL and AWS_DEFAULT_REGION",
        "cannot reach {where}; check the address, the network and the proxy",
    ),
    _ErrorPattern(
        "busy",
        r"SlowDown|SLOW_DOWN|ServiceUnavailable|SERVICE_UNAVAILABLE|Throttl|HTTP 503|HTTP 429|reduce your request rate",
        "the server asks for fewer requests (503); try again later",
        "the server asks for fewer requests; try again later",
    ),
)

_REGION = (
    re.compile(r"located in '([a-z0-9-]+)'"),
    re.compile(r"expecting '([a-z0-9-]+)'"),
    re.compile(r"x-amz-bucket-region['\"]?: ?['\"]?([a-z0-9-]+)"),
)
_LONGEST_QUOTE = 200


def display_url(url: str) -> str:
    """The URL for messages: without user and password, and without the query of an http URL, which may be a
    signature. A path as it is."""
    if "://" not in url:
        return url
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        url = url.split("?", 1)[0].split("#", 1)[0]
    if "@" in parts.netloc:
        url = url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
    return url


def remote_error(error: BaseException, url: str, endpoint: str | None = None) -> RemoteError:
    """An exception of fsspec or pyarrow as a RemoteError of one line. endpoint: of the server; None: not known."""
    if isinstance(error, RemoteError):
        return error
    scheme, _, rest = url.partition("://")
    text = _without_names(" | ".join(_texts(error)), rest)
    shown = display_url(url)
    row = next((one for one in ERROR_PATTERNS if re.search(one.pattern, text, re.IGNORECASE)), None)
    if row is None:
        original = (isinstance(error, OSError) and error.strerror) or str(error)
        first_line = (original.strip().splitlines() or [""])[0][:_LONGEST_QUOTE] or type(error).__name__
        return RemoteError(f"{shown}: {first_line}", shown)
    on_s3 = scheme in S3
    region = next((match[1] for pattern in _REGION if (match := pattern.search(text))), None)
    bucket = shown.partition("://")[2].split("/", 1)[0]
    where = endpoint or _quoted_address(text) or ("the S3 of AWS" if on_s3 else bucket)
    sentence = row.on_s3 if on_s3 or row.elsewhere is None else row.elsewhere
    if row.kind == "region" and not region:
        sentence = "wrong region for bucket {bucket}; set AWS_DEFAULT_REGION to the one it is in"
    message = sentence.format(bucket=bucket, region=region, where=where)
    return _CLASSES.get(row.kind, RemoteError)(f"{shown}: {message}", shown, row.kind)


def _texts(error: BaseException) -> Iterator[str]:
    """Class and text of an exception and of its causes, with the HTTP status and headers that botocore stores."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in chain:
        chain.append(one)
        one = one.__cause__ or one.__context__
    others = [one for one in chain if not isinstance(one, FileNotFoundError)]
    refused = any(isinstance(one, OSError) or getattr(one, "status", None) in (401, 403) for one in others)
    for one in chain:
        if refused and isinstance(one, FileNotFoundError):
            continue  # fsspec raises it for every error of http
        yield f"{type(one).__name__}: {one}".replace("HTTP status ", "HTTP ")
        response = getattr(one, "response", None)
        if isinstance(response, dict):
            metadata = response.get("ResponseMetadata", {})
            yield f"HTTP {metadata.get('HTTPStatusCode')}"
            if "x-amz-bucket-region" in metadata.get("HTTPHeaders", {}):
                yield f"x-amz-bucket-region: {metadata['HTTPHeaders']['x-amz-bucket-region']}"
        if isinstance(status := getattr(one, "status", None), int):
            yield f"HTTP {status}"


def _without_names(text: str, rest: str) -> str:
    """The text without parts of the URL, as a bucket's name may be NoSuchKey and a topic's timeout-404."""
    path = rest.split("?", 1)[0].strip("/")
    names = [path, path.partition("/")[2], *path.split("/")]
    for name in sorted(set(names) - {""}, key=len, reverse=True):
        text = re.sub(rf"(?<![a-zA-Z0-9]){re.escape(name)}(?![a-zA-Z0-9])", "", text)
    return text


def _quoted_address(text: str) -> str | None:
    match = re.search(r"https?://[^/\s\"'?]+", text)
    return display_url(match[0]) if match else None
