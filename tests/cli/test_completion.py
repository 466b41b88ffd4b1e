"""Shell completion: what argcomplete, which the extra `cli` installs, answers a shell."""

from __future__ import annotations

import argparse
import sys
from types import SimpleNamespace

import pytest

from kafkarec.cli import main
from kafkarec.cli.verb_parsers import VERBS


class Answered(Exception):
    """Raised in place of argcomplete's exit of the process after its answer."""


def completed_parser(monkeypatch: pytest.MonkeyPatch, line: str) -> argparse.ArgumentParser:
    """Return the parser that argcomplete receives for a command line."""
    given: list[argparse.ArgumentParser] = []

    def autocomplete(parser: argparse.ArgumentParser) -> None:
        given.append(parser)
        raise Answered

    monkeypatch.setitem(sys.modules, "argcomplete", SimpleNamespace(autocomplete=autocomplete))
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    monkeypatch.setenv("COMP_LINE", line)
    with pytest.raises(Answered):
        main([])
    return given[0]


def test_verbs_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    text = completed_parser(monkeypatch, "kafkarec c").format_help()
    assert all(verb in text for verb in VERBS)


@pytest.mark.parametrize(("verb", "option"), [("cat", "--follow"), ("scan", "--columns"), ("salvage", "--dry-run")])
def test_a_verb_has_its_options(monkeypatch: pytest.MonkeyPatch, verb: str, option: str) -> None:
    parser = completed_parser(monkeypatch, f"kafkarec {verb} {option[:4]}")
    (verbs,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    assert option in verbs.choices[verb]._option_string_actions


def test_without_argcomplete_a_shell_gets_no_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    monkeypatch.setenv("_ARGCOMPLETE", "1")
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr() == ("", "")
