"""What users see, compared with the snapshot row by row (tests/fence/README.md). `make fence` writes it again."""

import os
from functools import cache

import pytest
from fence import rows, scenarios
from fence.calls import Recorder

SCENARIOS = scenarios.scenarios()
CHOSEN = list(SCENARIOS) if os.environ.get("CI") else scenarios.of_make_test()


@cache
def snapshot():
    return rows.read()


@pytest.mark.parametrize("name", CHOSEN)
def test_users_see_what_they_saw(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = Recorder(name)
    SCENARIOS[name](here)
    difference = rows.difference(snapshot().get(name, ()), here.rows)
    if difference:
        pytest.fail(f"{difference}\nIf this is meant: make fence, and a line in CHANGELOG.md", pytrace=False)


def test_the_snapshot_has_these_scenarios_and_no_others():
    assert sorted(snapshot()) == sorted(SCENARIOS)


def test_the_changelog_names_the_snapshot():
    """So a change of what users see is in the same commit as its line, without a look at the history."""
    assert rows.recorded_digests() == rows.digests()


def test_the_snapshot_is_small():
    assert rows.SNAPSHOT.stat().st_size < 1_000_000
