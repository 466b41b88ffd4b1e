"""The code blocks of the documentation: found, run, and compared with the output that the page shows.

usage: doc_blocks.py [--write] [PAGE...]

A page is run from top to bottom in a separate folder with the files of a checkout. `sh` and `python` blocks are run,
`sql` ones in the page's Spark session. A `text` block directly after one of them is what it prints, standard error
included; a line of `...` there matches any lines, `...` within a line for any text. --write replaces it
by the actual output.

Comments before a block, or at the top of a page:

    <!-- exit 1 -->         the block ends with this status
    <!-- with s3 -->        top of the page: stand-ins for the network or the cluster (`doc_standins.py`)
    <!-- not run: why -->   it cannot be run; the tests print why
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import doc_standins
from commands import ROOT

DOCS = ROOT / "docs"
LANGUAGES = {"sh", "python", "sql", "text"}
SECONDS = 60
HOME = "/home/you"
_FENCE = re.compile(
    r"(?P<marks>(?:^<!--[^\n]*-->\n)*)^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_SECONDS_IT_TOOK = re.compile(r"read in [\d.]+ s.*")
_MARK = re.compile(r"<!-- (exit|with|not run)[: ]+(.*?) -->")


class BlockError(Exception):
    """A block whose output or exit status is not the one in its page."""


@dataclass
class Block:
    """A fenced block: its position, its content, and its expected output (None: any)."""

    page: Path
    line: int
    language: str
    code: str
    exit: int = 0
    why_not: str | None = None
    expected: str | None = None
    shown: tuple[int, int] = (0, 0)  # the span of the expected text in the page

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass
class Page:
    """A page's blocks in order, and the stand-ins that it needs."""

    path: Path
    needs: tuple[str, ...]
    blocks: list[Block] = field(default_factory=list)


def pages() -> list[Path]:
    """Every page that may have a block, including generated pages."""
    return [path for path in sorted(DOCS.rglob("*.md")) if _FENCE.search(path.read_text(encoding="utf-8"))]


def read(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    head = text.partition("```")[0][:300]
    page = Page(path, tuple(value for name, value in _MARK.findall(head) if name == "with"))
    end = -1
    for match in _FENCE.finditer(text):
        language = match["language"].strip()
        if language.startswith("{"):  # a directive of the site: a picture, a signature
            continue
        line = text.count("\n", 0, match.start("fence")) + 1
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise BlockError(f"{path.name}:{line}: a block of {language or 'no language'}; one of {known}")
        last = page.blocks[-1] if page.blocks else None
        if language != "text":
            marks = dict(_MARK.findall(match["marks"]))
            block = Block(path, line, language, match["code"], int(marks.get("exit", 0)), marks.get("not run"))
            page.blocks.append(block)
            end = match.end()
        elif last and last.expected is None and not text[end : match.start()].strip():
            last.expected, last.shown = match["code"], match.span("code")
    return page


def agrees(expected: str, printed: str) -> bool:
    """Whether the output is what the page shows; `...` matches anything."""
    pattern = ""
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*".join(map(re.escape, line.rstrip().split("..."))) + r"\n"
    message = "".join(f"{line.rstrip()}\n" for line in printed.rstrip("\n").split("\n"))
    return re.fullmatch(pattern, message) is not None


class Runner:
    """Runs the blocks of one page in order. Python blocks share their names; all blocks share a folder."""

    def __init__(self, folder: Path, standins: doc_standins.StandIns) -> None:
        self.folder, self.standins = folder, standins
        self.scope: dict[str, object] = {"__name__": "__main__", **standins.names}
        self.rewritten: list[tuple[tuple[int, int], str]] = []  # span of the page, its new text

    def check(self, block: Block, write: bool = False) -> None:
        """BlockError if its output or its exit status is another; write: outputs go to `rewritten` instead."""
        if block.why_not is not None:
            print(f"{block.place}: not run: {block.why_not}")
            return
        code = block.code
        for word, run in self.standins.words.items():
            code = code.replace(word, run)
        status, printed = self._run(block, code)
        for word, run in self.standins.words.items():
            printed = printed.replace(run, word)
        if status != block.exit:
            wrong = f"ended with status {status}, expected {block.exit}"
            raise BlockError(f"{block.place}: {wrong}\n{block.code}\n{printed}")
        if block.expected is None or agrees(block.expected, printed):
            return
        self.rewritten.append((block.shown, _shown(printed, block.expected)))
        if not write:
            message = f"{block.place}: expected output\n{block.expected}\nactual output\n{printed}"
            page = block.page.relative_to(ROOT)
            raise BlockError(f"{message}\nIf the actual output is right: tools/doc_blocks.py --write {page}")

    def _run(self, block: Block, code: str) -> tuple[int, str]:
        """(exit status, output)."""
        if block.language == "sql":
            return 0, self.standins.sql(code)
        if block.language == "python":
            compiled = compile("\n" * block.line + code, str(block.page), "exec")
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compiled, self.scope)
            return 0, out.getvalue()
        done = subprocess.run(
            ["bash", "-c", code],
            cwd=self.folder,
            env=self.standins.environment | self.standins.settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        # some messages contain absolute paths
        return done.returncode, done.stdout.decode().replace(str(self.folder), HOME)


@contextlib.contextmanager
def runner(page: Page) -> Iterator[Runner]:
    """A folder with the files of a checkout, and the stand-ins that the page needs."""
    with tempfile.TemporaryDirectory(prefix="page-") as name:
        folder = Path(name).resolve()
        (folder / "tests").mkdir()
        for shown in ("examples", "tests/vectors", "pyproject.toml", "Makefile", "benchmarks"):
            (folder / shown).symlink_to(ROOT / shown)
        with doc_standins.standing_in(page.needs, folder) as standins, mock.patch.dict(os.environ, standins.settings):
            running = Runner(folder, standins)
            yield running
            running.scope.clear()  # what a page has opened ends before what it is connected to


def _shown(printed: str, before: str) -> str:
    """The output for the page: a line that still agrees with a previous one keeps that one's `...`."""
    wild = [line for line in before.splitlines() if "..." in line and line.strip() != "..."]
    lines = [_SECONDS_IT_TOOK.sub("read in ...", line.rstrip()) for line in printed.rstrip("\n").split("\n")]
    return "".join(next((one for one in wild if agrees(one, line)), line) + "\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Runs the pages; with --write, what they print replaces outputs that differ."""
    write, status = "--write" in arguments, 0
    wanted = [Path(each).resolve() for each in arguments if not each.startswith("-")]
    for page in map(read, wanted or pages()):
        with runner(page) as running:
            for block in page.blocks:
                try:
                    running.check(block, write)
                except Exception as error:
                    print(error if isinstance(error, BlockError) else f"{block.place}: {type(error).__name__}: {error}")
                    status = 1
        print(f"{page.path.relative_to(ROOT)}: {len(page.blocks)} blocks, {len(running.rewritten)} outputs differ")
        if running.rewritten and write:
            text = page.path.read_text(encoding="utf-8")
            for (start, end), message in reversed(running.rewritten):
                text = text[:start] + message + text[end:]
            page.path.write_text(text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
