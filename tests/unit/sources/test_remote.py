"""Files at URLs: an S3 API server on loopback, through both libraries, with the bytes it serves counted."""

import functools
import http.server
import os
import sys
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from paths import SEGMENTS
from s3server import BUCKET, Refusal, running, without_aws, without_s3fs

import kafkarec
from kafkarec import RemoteError
from kafkarec.sources import remote
from kafkarec.sources.files import FolderEntry
from kafkarec.sources.remote_errors import RemoteNotFoundError, RemotePermissionError, display_url, remote_error

NAMES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint")
SEGMENT = "txn-0/00000000000000000030.log"
KEY = f"kafka-backup/{SEGMENT}"
URL = f"s3://{BUCKET}/{KEY}"
CONTENT = (SEGMENTS / SEGMENT).read_bytes()


@pytest.fixture(scope="module")
def bucket():
    with running("s3fs", "pyarrow") as server:
        server.put_folder(SEGMENTS, "kafka-backup", NAMES)
        server.put("odd/NoSuchKey/403 #1?é.log", CONTENT)
        server.put("odd/", b"")
        yield server


@pytest.fixture
def server(bucket):
    bucket.reset()
    return bucket


@pytest.fixture(params=["s3fs", "pyarrow"])
def library(request, monkeypatch):
    """The library below fsspec that reads s3:// in this test."""
    if request.param == "pyarrow":
        without_s3fs(monkeypatch)
    return request.param


def test_only_the_requested_bytes_are_served(server, library):
    with closing(remote.open_source(URL, server.options())) as source:
        assert source.size == len(CONTENT)
        assert server.served == 0
        assert source.read_at(0, 61) == CONTENT[:61]
        assert source.read_at(5, 40) == CONTENT[5:45]  # the first 64 bytes are kept
        assert source.read_at(len(CONTENT) - 10, 100) == CONTENT[-10:]
        assert source.read_at(len(CONTENT), 10) == source.read_at(10**12, 1) == b""
        assert source.fetched == server.served == 71
        assert [method for method, _, _ in server.requests].count("GET") == 2
        assert f"{len(CONTENT)} bytes, 71 fetched" in repr(source)
    with pytest.raises(ValueError, match="is closed"):
        source.read_at(0, 1)


def test_listings(server, library):
    options = server.options()
    folders = remote.listing(f"s3://{BUCKET}/kafka-backup/", options)
    assert FolderEntry("txn-0", 0, True) in folders and len(folders) == len(list(SEGMENTS.iterdir()))
    inside = remote.listing(f"s3://{BUCKET}/kafka-backup/txn-0", options)
    assert FolderEntry("00000000000000000030.log", len(CONTENT), False) in inside
    assert remote.listing(f"s3://{BUCKET}", options) == [
        FolderEntry("kafka-backup", 0, True),
        FolderEntry("odd", 0, True),
    ]
    assert remote.listing(f"s3://{BUCKET}/odd/", options) == [FolderEntry("NoSuchKey", 0, True)]
    assert remote.stat(URL, options) == FolderEntry("00000000000000000030.log", len(CONTENT), False)
    assert remote.stat(f"s3://{BUCKET}/kafka-backup", options) == FolderEntry("kafka-backup", 0, True)
    assert remote.stat(f"s3://{BUCKET}/kafka-backup/", options) == FolderEntry("kafka-backup", 0, True)


def test_a_new_object_is_seen_at_once(server, library):
    """A reader that follows a growing bucket must not get a library's cached listing."""
    folder = f"s3://{BUCKET}/growing-{library}/"
    server.put(f"growing-{library}/a", b"1")
    assert [entry.name for entry in remote.listing(folder, server.options())] == ["a"]
    server.put(f"growing-{library}/b", b"1")
    assert [entry.name for entry in remote.listing(folder, server.options())] == ["a", "b"]


AWS = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
REFUSALS = {
    "denied": (
        Refusal("403 Forbidden", "AccessDenied", "Access Denied"),
        "s3:GetObject and s3:ListBucket on my-bucket",
    ),
    "bad_credentials": (
        Refusal("403 Forbidden", "SignatureDoesNotMatch", "The request signature we calculated does not match"),
        AWS,
    ),
    "expired": (Refusal("400 Bad Request", "ExpiredToken", "The provided token has expired."), "aws sso login"),
    "region": (
        Refusal(
            "400 Bad Request",
            "AuthorizationHeaderMalformed",
            "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'",
            "eu-west-1",
        ),
        "is in eu-west-1; set AWS_DEFAULT_REGION=eu-west-1",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_each_refusal_is_one_line_with_advice(server, library, kind):
    server.refusal, words = REFUSALS[kind]
    for ask in (remote.open_source, remote.stat, remote.listing):
        with pytest.raises(RemoteError) as caught:
            ask(URL, server.options())
        line = str(caught.value)
        assert caught.value.kind == kind, line
        assert words in line and line.startswith(f"{URL}: ") and "\n" not in line
        assert "a-secret" not in line
        assert isinstance(caught.value, PermissionError) == (kind != "region")


def test_a_refusal_while_reading_raises(server, library):
    options = server.options()
    segment = kafkarec.open(URL, storage_options=options)
    server.refusal = REFUSALS["denied"][0]
    with pytest.raises(RemotePermissionError):
        segment.read(errors="skip")
    server.refusal = None
    with closing(remote.open_source(URL, options)) as source:
        server.refusal = REFUSALS["expired"][0]
        with pytest.raises(RemotePermissionError) as caught:
            source.read_at(0, 1)
    assert not source.is_damage(caught.value)


def test_no_bucket_no_object(server, library):
    options = server.options()
    with pytest.raises(RemoteNotFoundError, match=r"there is no bucket no-such-bucket \(on http://127"):
        remote.stat("s3://no-such-bucket/x/y.log", options)
    with pytest.raises(RemoteNotFoundError, match=f"kafkarec ls s3://{BUCKET}/ lists what there is"):
        remote.open_source(f"s3://{BUCKET}/nothing.log", options)
    with pytest.raises(FileNotFoundError):
        remote.listing(f"s3://{BUCKET}/nothing/", options)
    with pytest.raises(RemoteError):
        remote.open_source(f"s3://{BUCKET}/kafka-backup", options)


def test_without_credentials_the_error_says_how_to_give_them(server, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in without_aws().items():
        monkeypatch.setenv(name, value)
    options = server.options()
    del options["key"], options["secret"]
    with pytest.raises(RemotePermissionError) as caught:
        remote.stat(URL, {**options, "skip_instance_cache": True})
    for words in ("no credentials found; ", AWS, "FSSPEC_S3_ANON=true"):
        assert words in str(caught.value)


@pytest.mark.parametrize("missing", [("fsspec",), ("fsspec", "pyarrow")])
def test_a_missing_library_is_reported_with_one_pip_command(missing, monkeypatch):
    for module in (*missing, "fsspec.core"):
        monkeypatch.setitem(sys.modules, module, None)
    for url, command in {"s3://b/k": "pip install 'kafkarec[remote]'", "gs://b/k": "pip install fsspec gcsfs"}.items():
        with pytest.raises(RemoteError) as caught:
            kafkarec.open(url)
        assert str(caught.value).endswith(command) and caught.value.kind == "missing"


def test_the_configuration_of_fsspec_counts(server, monkeypatch):
    """Settings that are given come first; without any, those of FSSPEC_S3_... and of ~/.config/fsspec."""
    config = pytest.importorskip("fsspec").config.conf
    monkeypatch.setitem(config, "s3", {"client_kwargs": {"endpoint_url": server.url}})
    keys = {name: server.options()[name] for name in ("key", "secret")}
    assert remote.stat(URL, keys).size == len(CONTENT)
    monkeypatch.setitem(config, "s3", {"endpoint_url": "http://127.0.0.1:1"})
    assert remote.stat(URL, {**keys, "endpoint_url": server.url}).size == len(CONTENT)


def test_what_is_a_url():
    assert remote.is_url("s3://b/k") and remote.is_url("https://h/x") and remote.is_url("file:///x")
    assert not any(map(remote.is_url, ("/a/b", "a:b", "orders-0", "-", "C:/x", "")))
    assert remote.local_path("file:///a%20b/c") == "/a b/c"
    assert remote.local_path("file://elsewhere/x") is None and remote.local_path("s3://b/k") is None


def test_secrets_in_urls_are_not_shown():
    assert display_url("https://u:p@host/x.log?X-Amz-Signature=5#y") == "https://host/x.log"
    assert display_url("s3://b/what?#.log") == "s3://b/what?#.log"
    assert display_url("simplecache::https://u:p@host/x.log?sig=5") == "simplecache::https://host/x.log"
    assert display_url("abfs://container@account/x.log") == "abfs://container@account/x.log"
    told = remote_error(ValueError("500, url='https://host/x.log?X-Amz-Signature=5'"), "https://host/x.log")
    assert str(told) == "https://host/x.log: 500, url='https://host/x.log'"
    assert "X-Amz" not in str(remote_error(OSError("boom"), "https://host/x?X-Amz-Signature=5"))


class _NoRanges(http.server.BaseHTTPRequestHandler):
    """A server that sends the whole file, whatever range is requested."""

    def do_HEAD(self):
        self.send_response(200 if self.path == "/x.log" else 404)
        self.send_header("Content-Length", str(1 << 30))
        self.end_headers()

    def do_GET(self):
        self.do_HEAD()
        if self.path == "/x.log":
            for _ in range(64):
                self.wfile.write(bytes(1 << 16))

    def log_message(self, *words):
        return None


class _Folder(http.server.SimpleHTTPRequestHandler):
    """Serves a folder with its listing, and ranges of its files."""

    def do_GET(self):
        wanted = self.headers.get("Range")
        if wanted is None:
            return super().do_GET()
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        data = Path(self.translate_path(self.path)).read_bytes()[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        return None


def test_a_folder_on_a_web_server():
    pytest.importorskip("aiohttp")
    with serving(functools.partial(_Folder, directory=str(SEGMENTS))) as port:
        log = kafkarec.open(f"http://127.0.0.1:{port}/txn-0/")
        assert [segment.size for segment in log.segments] == [1646, len(CONTENT)]
        assert list(log.read()) == list(kafkarec.open(SEGMENTS / "txn-0").read())


@contextmanager
def serving(handler):
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield listening.server_port
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def test_http(server, tmp_path):
    pytest.importorskip("aiohttp")
    with closing(remote.open_source(server.presigned(KEY))) as source:
        assert source.size == len(CONTENT) and source.read_at(100, 50) == CONTENT[100:150]
        assert source.fetched == 50 and source.name == f"{server.url}/{BUCKET}/{KEY}"
    with pytest.raises(RemoteNotFoundError, match="no such object or folder"):
        remote.open_source(server.presigned("nothing"))
    with pytest.raises(RemotePermissionError, match="403: access denied"):
        remote.open_source(f"{server.url}/{BUCKET}/{KEY}")
    with pytest.raises(RemoteError, match=r"cannot reach .*127\.0\.0\.1:9"):
        remote.open_source("http://127.0.0.1:9/x.log")
    with (
        serving(_NoRanges) as port,
        closing(remote.open_source(f"http://127.0.0.1:{port}/x.log")) as source,
        pytest.raises(RemoteError, match="does not serve pieces of a file; download it"),
    ):
        source.read_at(10, 10)


def test_segments_that_are_too_old_need_few_bytes(server):
    """cat --from-time -1h on a bucket: of older segments only the ends are read, whatever the indexes say."""
    copies, one = 40, (SEGMENTS / "logappend-0" / "00000000000000000000.log").read_bytes()
    index = (SEGMENTS / "logappend-0" / "00000000000000000000.index").read_bytes()
    latest = 1795227913359
    last_entry = latest.to_bytes(8, "big") + (149).to_bytes(4, "big")
    grown = {".log": one * copies, ".timeindex": bytes(7) + b"\x01" * 600_005 + last_entry}
    grown[".index"] = b"\x01" * 400_000 + index[-8:-4] + (len(one) * copies - 205).to_bytes(4, "big")
    for suffix, content in grown.items():
        server.put(f"old-0/00000000000000000000{suffix}", content)
    log = kafkarec.open(f"s3://{BUCKET}/old-0/", storage_options=server.options())
    server.reset()
    assert len(log.read(start_timestamp=latest + 1)) == 0
    assert server.served == log.fetched < 2000
    records = log.read(start_timestamp=latest)
    assert len(records) == 10 * copies and set(records.column("timestamp")) == {latest}


def test_a_wrong_time_index_hides_no_record(server):
    path = SEGMENTS / "logappend-0" / "00000000000000000000.log"
    latest = 1795227913359
    for number, entry in enumerate((latest - 50, latest - 500_000, 1)):
        folder = f"lying-{number}"
        for suffix in (".log", ".index"):
            server.put(f"{folder}/{path.stem}{suffix}", path.with_suffix(suffix).read_bytes())
        server.put(f"{folder}/{path.stem}.timeindex", entry.to_bytes(8, "big") + (149).to_bytes(4, "big"))
        log = kafkarec.open(f"s3://{BUCKET}/{folder}/", storage_options=server.options())
        for start in (latest - 300, latest, latest + 1):
            expected = [one for one in kafkarec.open(path).read() if one.timestamp >= start]
            assert list(log.read(start_timestamp=start)) == expected, (entry, start)
