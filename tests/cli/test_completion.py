"""Shell completion: what the program answers when a shell asks it (the extra `cli` brings argcomplete)."""

from __future__ import annotations

import argparse
import sys
from types import SimpleNamespace

import pytest

from kafkarec.cli import main
from kafkarec.cli.app import VERBS


class Answered(Exception):
    """argcomplete ends the process with its answer."""


def asked(monkeypatch: pytest.MonkeyPatch, line: str) -> argparse.ArgumentParser:
    """The parser that argcomplete is given for a command line."""
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
    text = asked(monkeypatch, "kafkarec c").format_help()
    assert all(verb in text for verb in VERBS)


@pytest.mark.parametrize(("verb", "option"), [("cat", "--follow"), ("scan", "--columns"), ("salvage", "--dry-run")])
def test_a_verb_brings_its_options(monkeypatch: pytest.MonkeyPatch, verb: str, option: str) -> None:
    parser = asked(monkeypatch, f"kafkarec {verb} {option[:4]}")
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
