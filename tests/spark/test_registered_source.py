"""`register` where Spark has found our data source in the driver's Python, and does not let a session replace it (4.0;
tests/spark/test_payloads.py runs there)."""

from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException

from spark_udfs import registration
from spark_udfs.source import KafkarecDataSource


class Session:
    """What `register` uses of a session to register a data source."""

    def __init__(self, overwrites, refusal):
        self.registered = []
        self.overwrites, self.refusal = overwrites, refusal
        self.sparkContext = SimpleNamespace(defaultParallelism=6)
        self.conf = SimpleNamespace(get=lambda name, default: self.overwrites)
        self.dataSource = SimpleNamespace(register=self._register)

    def _register(self, source):
        if self.refusal is not None:
            error = AnalysisException(self.refusal)
            error.getCondition = lambda: self.refusal
            raise error
        self.registered.append(source)


def test_the_source_is_registered_again_only_if_the_sessions_setting_has_changed():
    session = Session("static", None)
    for session.overwrites in ("static", "static", "dynamic", "dynamic"):
        assert registration._register_source(session, "one") is None
    assert all(issubclass(source, KafkarecDataSource) for source in session.registered)
    assert [(source.overwrites, source.cores) for source in session.registered] == [("static", 6), ("dynamic", 6)]


def test_an_installed_source_that_stays_is_used():
    assert registration._register_source(Session("static", "DATA_SOURCE_ALREADY_EXISTS"), "two") is None
    with pytest.warns(UserWarning, match="dynamic has no effect"):
        problem = registration._register_source(Session("dynamic", "DATA_SOURCE_ALREADY_EXISTS"), "two")
    assert problem is not None and 'option("partitionOverwriteMode", "dynamic")' in problem


def test_other_errors_are_raised():
    with pytest.raises(AnalysisException):
        registration._register_source(Session("static", "SOMETHING_ELSE"), "three")
