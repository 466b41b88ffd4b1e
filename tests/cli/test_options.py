"""The texts of options and their values."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pytest
from command import Here
from hypothesis import given
from hypothesis import strategies as st

from kafkarec.cli import shared_options
from kafkarec.cli.problems import repeated


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("-5", -5),
        ("1700000000000", 1700000000000),
        ("2023-11-14", 1699920000000),
        ("2023-11-14T22:13:20", 1700000000000),
        ("2023-11-14 22:13:20.123", 1700000000123),
        ("2023-11-14T22:13:20Z", 1700000000000),
        ("2023-11-14T23:13:20+01:00", 1700000000000),
        ("2023-11-14T22:13:20.0006Z", 1700000000001),
    ],
)
def test_times_are_parsed(text: str, ms: int) -> None:
    assert shared_options.time_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("-500ms", 0.5), ("-90s", 90), ("-5m", 300), ("-1h", 3600), ("-2d", 172800), ("-1w", 604800)],
)
def test_relative_times_are_parsed(text: str, seconds: float) -> None:
    assert abs(shared_options.time_ms(text) - (time.time() - seconds) * 1000) < 5000


@pytest.mark.parametrize("text", ["", "yesterday", "1h", "-1y", "2023-13-01", "12:00", "1e12", "99999999999999999999"])
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time; write"):
        shared_options.time_ms(text)


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("10", 10), ("64k", 65536), ("128M", 128 << 20), ("2g", 2 << 30)])
def test_sizes_are_parsed(text: str, size: int) -> None:
    assert shared_options.size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5g", "1t", "g"])
def test_other_texts_are_no_sizes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size; write"):
        shared_options.size(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cat", "x", "--from-offset", 2**63], "argument --from-offset: '9223372036854775808' is not an offset of 64"),
        (["scan", "x", "--to-offset", -(2**63) - 1], "argument --to-offset: '-9223372036854775809' is not an offset"),
        (["cat", "x", "--from-offset", "x"], "argument --from-offset: 'x' is not an offset of 64 bits"),
        (["cat", "x", "--to-time", 2**63], "argument --to-time: '9223372036854775808' is not a time of 64 bits"),
        (["cat", "x", f"--from-time=-{10**18}w"], "is not a time of 64 bits"),
        (["cat", "x", "--partition", 2**31], "'2147483648' is not a number of a partition, 0 to 2147483647"),
        (
            ["salvage", "x", "-o", "a.log", "--topic", "a", "--partition=-1"],
            "'-1' is not a number of a partition",
        ),
        (["convert", "x", "-o", "a.log", "--batch-size", 0], "--batch-size must be 1 or more"),
        (["compact", "x", "-o", "a.log", "--now", -1], "--now must be in 1970 or later"),
    ],
)
def test_numbers_out_of_range_are_wrong_usage(
    run: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_bytes(b"")
    ran = run(*arguments)
    assert ran.status == 2 and message in ran.complaint and not (tmp_path / "a.log").exists()


@given(text=st.text(max_size=8))
def test_any_text_is_a_value_or_an_argument_error(text: str) -> None:
    for parse in (shared_options.time_ms, shared_options.size, shared_options.count, shared_options.names(["offset"])):
        try:
            parse(text)
        except argparse.ArgumentTypeError as refusal:
            assert str(refusal)


def test_only_relative_times_are_joined_to_their_option() -> None:
    arguments = ["cat", "x", "--from-time", "-1h", "--to-time", "-5m", "-n", "3", "--to-time", "-x"]
    joined = ["cat", "x", "--from-time=-1h", "--to-time=-5m", "-n", "3", "--to-time", "-x"]
    assert shared_options.join_relative_times(arguments) == joined


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["cat", "a b"], "kafkarec cat --errors skip 'a b'"),
        (["cat", "--errors", "raise", "x"], "kafkarec cat --errors skip x"),
        (["cat", "x", "--errors=raise", "-n", "3"], "kafkarec cat --errors skip x -n 3"),
    ],
)
def test_the_next_command_is_quoted(arguments: list[str], line: str) -> None:
    assert repeated(arguments, {"--errors": "skip"}) == line
