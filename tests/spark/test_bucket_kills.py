"""A stream into a bucket whose driver is killed inside a micro-batch that is not the first, and started again."""

import json
import re
import time

import pytest
from copied_streams import check, make_source
from long_run import MINUTES
from s3server import BUCKET, Refusal, running
from spark_submit import Application

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]


def test_a_stream_into_a_bucket_stores_every_record_once_in_order(bare_python, fat, tmp_path):
    """Killed when the server gets the request that publishes the second of a micro-batch's partitions."""
    batches, batch, out = 4, 2, f"s3://{BUCKET}/out"
    make_source(tmp_path / "source", batches)
    begun, done = (tmp_path / "checkpoint" / name / str(batch) for name in ("offsets", "commits"))
    with running("pyarrow") as server:
        storage = {"storage_options": server.options()}
        published = []

        def kill(method, path):
            if not (method == "PUT" and re.fullmatch(rf"/{BUCKET}/out/t-\d/\d+\.log", path) and begun.exists()):
                return
            published.append(path.removeprefix(f"/{BUCKET}/"))
            if len(published) == 2:
                while not server.names(published[0]):  # it is copied by another thread
                    time.sleep(0.01)
                server.refusal = Refusal("503 Slow Down", "SlowDown", "its client is being killed")
                application.kill()

        def started():
            environ = {"KAFKAREC_CACHE": str(tmp_path / "cache"), **server.environment()}
            words = ("killed_writing.py", fat, bare_python, tmp_path, str(tmp_path), out)
            return Application(*words, environ=environ, master="local[2]")

        server.before = kill
        application = started()
        application.killed()
        server.reset()
        assert begun.exists() and not done.exists()
        check(out, batch, "some", **storage)
        assert started().result()["batches"] == [*range(batch, batches)]
        check(out, batches, "none", **storage)
        assert all(log.verify().ok for log in kafkarec.open(out, **storage))
        assert [name for name in server.names("out/") if "_temporary" in name] == []
        (entry,) = json.loads(server.get("out/_streams.json")).values()
        assert entry["batch"] == batches - 1
    files = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert files and not [path for path in files if server.options()["secret"].encode() in path.read_bytes()]
