"""An S3 API server on loopback (moto's), which counts the bytes that it serves and can refuse all requests.

`refusal`: its answer to every request, in S3's form: a status and an XML body for GET, the status alone for HEAD.
`before`: called with the method and the path of each request, before anything is done.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

BUCKET = "my-bucket"
WITH_INDEXES = (".log", ".index", ".timeindex", ".txnindex")
KEYS = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret", "AWS_DEFAULT_REGION": "us-east-1"}


class Refusal(NamedTuple):
    """An S3 error. region: for the header and the XML element that name the bucket's region."""

    status: str
    code: str
    message: str
    region: str | None = None


class Server:
    """The server. `served`: bytes of objects sent; `requests`: (method, path, range); the others: see above."""

    def __init__(self, application, bucket: str):
        self._application, self.bucket = application, bucket
        self._lock = threading.Lock()
        self.url = ""
        self.served = 0
        self.requests = []
        self.refusal = None
        self.before = None

    def __call__(self, environ: dict[str, Any], start_response) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._lock:
            self.requests.append((method, path, environ.get("HTTP_RANGE")))
        if self.before is not None:
            self.before(method, path)
        if self.refusal is not None:
            return self._refuse(self.refusal, method, start_response)
        body = b"".join(self._application(environ, start_response))
        if method == "GET" and path.count("/") > 1 and "list-type" not in environ.get("QUERY_STRING", ""):
            with self._lock:
                self.served += len(body)
        return [body]

    def _refuse(self, refusal: Refusal, method: str, start_response) -> Iterable[bytes]:
        region = f"<Region>{refusal.region}</Region>" if refusal.region else ""
        text = f"<Code>{refusal.code}</Code><Message>{refusal.message}</Message>{region}<RequestId>1</RequestId>"
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{text}</Error>'.encode()
        headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
        if refusal.region:
            headers.append(("x-amz-bucket-region", refusal.region))
        start_response(refusal.status, headers)
        return [] if method == "HEAD" else [body]

    def put(self, key: str, body: bytes):
        _client(self.url).put_object(Bucket=self.bucket, Key=key, Body=body)

    def remove(self, key: str):
        _client(self.url).delete_object(Bucket=self.bucket, Key=key)

    def get(self, key: str) -> bytes:
        return bytes(self._objects()[key].value)

    def names(self, prefix: str) -> list[str]:
        """Return the names of all objects except pyarrow's folder markers."""
        return sorted(key for key in list(self._objects()) if key.startswith(prefix) and not key.endswith("/"))

    def _objects(self):
        """moto's objects by name, which are in this process: a request costs a thousand times as much."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.bucket].keys

    def put_folder(self, folder: Path, key: str, suffixes: tuple[str, ...]):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and (path.name.endswith(suffixes) or "." not in path.name):
                self.put(f"{key}/{path.relative_to(folder)}", path.read_bytes())

    def presigned(self, key: str) -> str:
        params = {"Bucket": self.bucket, "Key": key}
        return str(_client(self.url).generate_presigned_url("get_object", Params=params))

    def reset(self):
        self.served, self.refusal, self.before = 0, None, None
        self.requests.clear()

    def options(self, **more) -> dict[str, Any]:
        """Return storage_options with credentials."""
        inner = {"endpoint_url": self.url, "region_name": "us-east-1"}
        return {"key": "an-id", "secret": "a-secret", "client_kwargs": inner, **more}

    def environment(self) -> dict[str, str]:
        """Return the environment variables that a user sets."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.url, "AWS_EC2_METADATA_DISABLED": "true"}


@functools.cache
def _client(url: str):
    import boto3

    names = {"aws_access_key_id": "an-id", "aws_secret_access_key": "a-secret", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=url, **names)


@contextmanager
def running(*clients: str, bucket: str = BUCKET) -> Iterator[Server]:
    """Run the server, with an empty bucket. Skip the test, with the module's name, if the server or one of the modules
    `clients` is not installed."""
    for module in ("moto", "flask", "flask_cors", *clients):
        pytest.importorskip(module, reason=f"{module} is not installed: no S3 server on loopback")
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = Server(DomainDispatcherApplication(create_backend_app), bucket)
    listening = make_server("127.0.0.1", 0, server, threaded=True)
    server.url = f"http://127.0.0.1:{listening.port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        # moto keeps buckets for the whole process: remove the previous server's
        urllib.request.urlopen(urllib.request.Request(f"{server.url}/moto-api/reset", method="POST")).close()
        _client(server.url).create_bucket(Bucket=bucket)
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def without_aws() -> dict[str, str]:
    """Return this environment without all that lets a library find credentials."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **kept,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def without_s3fs(patch: pytest.MonkeyPatch):
    """Lets fsspec find no package for s3://, as on executors, where pyarrow reads it. To hide the module s3fs would not
    do: fsspec keeps the class."""

    def url_to_fs(url, **options):
        raise ImportError("Install s3fs to access S3")

    patch.setattr("fsspec.core.url_to_fs", url_to_fs)
