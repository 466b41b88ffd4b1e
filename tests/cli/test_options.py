"""The texts of options and their values."""

import argparse
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkarec.cli import shared_options
from kafkarec.cli.problems import rerun_command
from kafkarec.cli.verb_parsers import module_of, parser_of


@pytest.mark.parametrize(
    "text, ms",
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
def test_times_are_parsed(text, ms):
    assert shared_options.time_ms(text) == ms


@pytest.mark.parametrize(
    "text, seconds",
    [("-500ms", 0.5), ("-90s", 90), ("-5m", 300), ("-1h", 3600), ("-2d", 172800), ("-1w", 604800)],
)
def test_relative_times_are_parsed(text, seconds):
    assert abs(shared_options.time_ms(text) - (time.time() - seconds) * 1000) < 5000


@pytest.mark.parametrize("text, size", [("0", 0), ("10", 10), ("64k", 65536), ("128M", 128 << 20), ("2g", 2 << 30)])
def test_sizes_are_parsed(text, size):
    assert shared_options.size(text) == size


@given(text=st.text(max_size=8))
def test_any_text_is_a_value_or_an_argument_error(text):
    for parse in (
        shared_options.time_ms,
        shared_options.size,
        shared_options.count,
        shared_options.names_parser(["offset"]),
    ):
        try:
            parse(text)
        except argparse.ArgumentTypeError as refusal:
            assert str(refusal)


def test_a_relative_time_is_a_value_and_no_option():
    args = parser_of("cat").parse_args(["cat", "x", "--from-time", "-1h", "-n", "3", "--to-time", "-5m"])
    assert args.to_time - args.from_time in range(55 * 60_000, 56 * 60_000) and args.first == 3


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["cat", "a b"], "kafkarec cat --errors skip 'a b'"),
        (["cat", "--errors", "raise", "x"], "kafkarec cat --errors skip x"),
        (["cat", "x", "--errors=raise", "-n", "3"], "kafkarec cat --errors skip x -n 3"),
    ],
)
def test_the_next_command_is_quoted(arguments, line):
    assert rerun_command(arguments, {"--errors": "skip"}) == line


@pytest.mark.parametrize(
    "arguments, operation, given",
    [
        ("compact x", "cleaned", "delete_retention_ms max_decompressed_message_bytes now producer_expiration_ms"),
        ("convert x", "converted_batches", "batch_size compression errors level magic on_loss threads"),
        ("diff x y", "compare", "a b"),
        (
            "dump x",
            "DumpOptions",
            "deep_iteration index_sanity_check max_bytes max_message_size skip_record_metadata verify_index_only",
        ),
        ("explain x", "explain", "records"),
        (
            "salvage x",
            "salvage",
            "as_partition dry_run keep_end merge_different new_cluster partition read_once threads topic undecided use",
        ),
        ("study x", "study", "batch_sizes codecs formats sample threads"),
    ],
)
def test_an_operation_gets_the_options_of_its_verb(arguments, operation, given):
    """By the names of its parameters: one that is renamed would be left out without a word."""
    args = parser_of(arguments.split()[0]).parse_args(arguments.split())
    found = shared_options.arguments_for(getattr(module_of(args.verb), operation), args)
    assert set(found) == {*given.split(), "max_decompressed_bytes"}
    assert found.get("threads", 1) >= 1, "a number, of processors if there is no option"
