"""Stand-ins that a page's blocks run with: commands, an object store, a Spark session.

| name | what it is |
|---|---|
| (always) | `kafkarec` and `python` of this checkout; a `pip` and a `make` that only check their arguments |
| s3 | an S3 API server on loopback; the bucket `backup` holds the partitions of tests/vectors/segments |
| producer | librdkafka's mock cluster, which pages call localhost:9092 |
| spark | a local Spark session `spark`; a `spark-submit` that checks the wheel's version |
| avro | the same with Spark's from_avro, which pyspark does not contain |
| kafka | the same with Spark's Kafka source and sink, and a real broker that pages call localhost:9092 |

That broker serves the partitions of TOPICS as topics, some groups have committed offsets, and the first records of
topic `txn` are deleted, as by retention.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import doc_spark
from commands import CACHE_OF_TESTS, ROOT, write_command

# S3 server, broker and jars are those of the tests, imported where used: the Python of an older Spark has no pytest.
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "support" / "spark")]

ADDRESS = "localhost:9092"
SEGMENTS = ROOT / "tests" / "vectors" / "segments"
TOPICS = ("txn", "all-codecs")
GROUPS = (
    ("commit", "billing", "txn:0=100", "all-codecs:0=865"),
    ("commit", "billing", "txn:0=260"),
    ("commit", "audit", "txn:0=170", "all-codecs:0=400"),
    ("forget", "audit", "all-codecs:0=400"),
    ("transact", "loader", "commit", "all-codecs:0=845"),
    ("transact", "loader", "abort", "all-codecs:0=865"),
    ("commit", "retired", "txn:0=20"),
    ("disband", "retired"),
    ("cut", "txn:0=150"),
)
# Blocks take seconds, of which a JVM spends most compiling.
_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}

_PIP = """\
import re, sys, tomllib
project = tomllib.loads(open("pyproject.toml").read())["project"]
words = [word for word in sys.argv[1:] if not word.startswith("-")]
assert words[0] == "install", words
for word in words[1:]:
    name, extras = re.fullmatch(r"([\\w.-]+?)(?:\\[([\\w,]+)\\])?", word).groups()
    if name not in (project["name"], "."):
        __import__(name)
        continue
    missing = set((extras or "").split(",")) - {"", *project["optional-dependencies"]}
    if missing:
        sys.exit(f"no such extra: {', '.join(missing)}")
"""


@dataclass
class StandIns:
    """environment: for commands; settings: for commands and this process; names: for Python blocks.

    sql: runs SQL; words: words of the page, and their replacements in what is run.
    """

    environment: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)
    names: dict[str, object] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    sql: Callable[[str], str] = lambda text: _no_session(text)


def _no_session(text: str) -> str:
    raise LookupError("a page with SQL needs <!-- with spark -->, <!-- with avro --> or <!-- with kafka -->")


def missing(needs: Sequence[str]) -> str | None:
    """Why a page with these needs cannot be run on this machine; None: it can, or the S3 server itself skips it."""
    import importlib.util

    java = shutil.which("java") or os.environ.get("JAVA_HOME")
    if {"spark", "avro", "kafka"} & set(needs) and not (importlib.util.find_spec("pyspark") and java):
        return "pyspark or Java is not installed"
    if "avro" in needs and not _avro():
        return "no from_avro for this Spark; run tools/kafka_jars"
    if "kafka" not in needs:
        return None
    from jvm_oracle import missing as without
    from kafka_session import CONNECTOR

    if not (os.environ.get("CI") or os.environ.get("KAFKAREC_LONG") == "1"):
        return "a broker and another Spark session, left out of `make test`; CI=1 or KAFKAREC_LONG=1"
    if not (CONNECTOR / "complete").exists():
        return f"no Kafka source and sink of Spark in {CONNECTOR.name}; run tools/kafka_jars"
    return without()


@contextlib.contextmanager
def standing_in(needs: Sequence[str], folder: Path) -> Iterator[StandIns]:
    """Starts the stand-ins for a page with these needs; yields what its blocks use."""
    commands = folder / ".commands"
    commands.mkdir()
    python = shlex.quote(sys.executable)
    write_command(commands / "kafkarec", f'exec {python} -m kafkarec "$@"')
    write_command(commands / "python", f'exec {python} "$@"')
    write_command(commands / "pip", f'exec {python} -c {shlex.quote(_PIP)} "$@"')
    write_command(commands / "make", 'PATH=${PATH#*:} exec make -n "$@" >/dev/null')
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("KAFKAREC_", "AWS_", "SPARK_"))
    } | {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "120",
        "TERM": "dumb",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
    }
    found = StandIns(environment)
    with contextlib.ExitStack() as stack:
        for need in needs:
            stack.enter_context(_KNOWN[need](found, commands))
        yield found


@contextlib.contextmanager
def _s3(found: StandIns, commands: Path) -> Iterator[None]:
    import s3server

    with s3server.running("s3fs", bucket="backup") as server:
        server.put_folder(SEGMENTS, "kafka", (*s3server.WITH_INDEXES, ".snapshot", ".checkpoint", ".metadata"))
        found.settings.update(server.environment())
        yield


@contextlib.contextmanager
def _spark(found: StandIns, commands: Path) -> Iterator[None]:
    """Pages share the application, with its workers, and have sessions of their own: functions, views, settings."""
    from pyspark.sql import SparkSession

    write_command(commands / "spark-submit", _SUBMIT.format(python=shlex.quote(sys.executable)))
    with mock.patch.dict(os.environ, PYTHONPATH=str(ROOT), PYSPARK_PYTHON=sys.executable):  # for the workers
        conf = _CONF | {"spark.jars": ",".join(map(str, _jars()))}
        application = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
    spark = application.newSession()
    spark._jvm.SparkSession.setActiveSession(spark._jsparkSession)  # the one of which Column functions are made

    def sql(text: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            spark.sql(text.rstrip().rstrip(";")).show(5, truncate=40)
        return out.getvalue()

    found.names["spark"] = spark
    found.sql = sql
    with mock.patch.object(SparkSession, "_instantiatedSession", spark):  # what a page's builder.getOrCreate() gives
        yield
    for query in spark.streams.active:
        query.stop()


def _avro() -> list[Path]:
    """The jar with from_avro for the Scala of this pyspark, if tools/kafka_jars has fetched it."""
    import pyspark

    kafka = os.environ.get("KAFKAREC_KAFKA_JARS")
    scala = next(Path(pyspark.__file__).parent.glob("jars/scala-library-2.*")).stem.split("-")[-1].rpartition(".")[0]
    folder = Path(kafka).parent if kafka else CACHE_OF_TESTS
    found = sorted(folder.glob(f"spark-avro-*/spark-avro_{scala}-*.jar"))
    return [jar for jar in found if (jar.parent / "complete").exists()][-1:]


def _jars() -> list[Path]:
    """What tools/kafka_jars has fetched for this pyspark: only a JVM that is started with jars has them."""
    import pyspark

    if pyspark.__version__ != list(doc_spark.RELEASES.values())[-1]:  # the Kafka source is one for the newest
        return _avro()
    from kafka_session import CONNECTOR

    return [*_avro(), *CONNECTOR.glob("*.jar")]


@contextlib.contextmanager
def _kafka(found: StandIns, commands: Path) -> Iterator[None]:
    from broker import serving
    from golden import copied
    from jvm_oracle import Oracle
    from kafka_session import CONNECTOR, SETTINGS, Groups

    (commands.parent / "jars").symlink_to(CONNECTOR)
    with tempfile.TemporaryDirectory(prefix="broker-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "classes").mkdir()
        kafka = Oracle(folder / "classes")
        stack.callback(kafka.close)
        served = {}
        for topic in TOPICS:
            served[topic] = copied(SEGMENTS / f"{topic}-0", folder / "served" / topic)
        settings = SETTINGS | {"num_partitions": "1"}
        started = stack.enter_context(serving(kafka, folder / "broker", served, **settings))
        ask = Groups(kafka, started)
        for words in GROUPS:
            ask(*words)
        found.words[ADDRESS] = started.address
        with _spark(found, commands):
            yield


@contextlib.contextmanager
def _producer(found: StandIns, commands: Path) -> Iterator[None]:
    from confluent_kafka import Producer

    # A cluster of librdkafka's own, in this process, as long as the client is there that asks for it.
    owner = Producer({"bootstrap.servers": ADDRESS, "test.mock.num.brokers": 1, "log_level": 3})
    (broker,) = owner.list_topics(timeout=60).brokers.values()
    found.words[ADDRESS] = f"{broker.host}:{broker.port}"
    yield


# Checks that the wheel on the command line has this version; tests/spark runs real applications.
_SUBMIT = """\
exec {python} -c 'import re, sys; from kafkarec import __version__ as wanted
found = re.search(r"spark_udfs-([0-9.]+)-py3-none-any.whl", " ".join(sys.argv))[1]
sys.exit(found != wanted and "that wheel is " + found)' "$@"
"""

_KNOWN: dict[str, Callable[[StandIns, Path], contextlib.AbstractContextManager[None]]] = {
    "s3": _s3,
    "producer": _producer,
    "spark": _spark,
    "avro": _spark,
    "kafka": _kafka,
}
