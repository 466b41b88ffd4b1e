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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import doc_standins

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LANGUAGES = {"sh", "python", "sql", "text"}
SECONDS = 60
HOME = "/home/you"
REWRITE = "tools/doc_blocks.py --write"
_FENCE = re.compile(
    r"(?P<marks>(?:^<!--[^\n]*-->\n)*)^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"<!-- (exit|with|not run)[: ]+(.*?) -->")
# Output that differs from run to run, and how a page shows it.
_CHANGING = ((re.compile(r"read in [\d.]+ s.*"), "read in ..."),)


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
    shown: tuple[int, int] | None = None  # the span of the expected text in the page

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
    head = text[: 300 if "```" not in text else text.index("```")]
    page = Page(path, tuple(value for name, value in _MARK.findall(head) if name == "with"))
    end = -1
    for match in _FENCE.finditer(text):
        language = match["language"].strip()
        if language.startswith("{"):  # a directive of the site: a picture, a signature
            continue
        line = text.count("\n", 0, match.start("fence")) + 1
        if language not in LANGUAGES:
            raise BlockError(
                f"{path.name}:{line}: a block of {language or 'no language'}; one of {', '.join(LANGUAGES)}"
            )
        last = page.blocks[-1] if page.blocks else None
        if language == "text":
            if last and last.expected is None and not text[end : match.start()].strip():
                last.expected, last.shown = match["code"], match.span("code")
            continue
        marks = dict(_MARK.findall(match["marks"]))
        block = Block(path, line, language, match["code"], int(marks.get("exit", 0)), marks.get("not run"))
        page.blocks.append(block)
        end = match.end()
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
        self.folder = folder
        self.scope: dict[str, object] = {"__name__": "__main__", **standins.names}
        self.environment = standins.environment
        self.sql = standins.sql
        self.words = standins.words

    def run(self, block: Block) -> str:
        """What the block printed; BlockError if its exit status is not the expected one."""
        ways: dict[str, Callable[[Block], tuple[int, str]]] = {"sh": self._sh, "python": self._python, "sql": self._sql}
        code = block.code
        for word, run in self.words.items():
            code = code.replace(word, run)
        status, printed = ways[block.language](replace(block, code=code))
        for word, run in self.words.items():
            printed = printed.replace(run, word)
        if status != block.exit:
            raise BlockError(
                f"{block.place}: ended with status {status}, expected {block.exit}\n{block.code}\n{printed}"
            )
        return printed

    def check(self, block: Block) -> None:
        printed = self.run(block)
        if block.expected is not None and not agrees(block.expected, printed):
            raise BlockError(_differing(block, printed))

    def _sh(self, block: Block) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", block.code],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        # some messages contain absolute paths
        return done.returncode, done.stdout.decode().replace(str(self.folder), HOME)

    def _python(self, block: Block) -> tuple[int, str]:
        code = compile("\n" * block.line + block.code, str(block.page), "exec")
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, self.scope)
        return 0, out.getvalue()

    def _sql(self, block: Block) -> tuple[int, str]:
        return 0, self.sql(block.code)


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


def _differing(block: Block, printed: str) -> str:
    message = f"{block.place}: expected output\n{block.expected}\nactual output\n{printed}"
    return f"{message}\nIf the actual output is right: {REWRITE} {block.page.relative_to(ROOT)}"


def _shown(printed: str, before: str) -> str:
    """The output for the page: a line that still agrees with a previous one keeps that one's `...`."""
    wild = [line for line in before.splitlines() if "..." in line and line.strip() != "..."]
    lines = []
    for line in printed.rstrip("\n").split("\n"):
        for changing, shown in _CHANGING:
            line = changing.sub(shown, line.rstrip())
        lines.append(next((one for one in wild if agrees(one, line)), line))
    return "".join(f"{line}\n" for line in lines)


def main(arguments: list[str]) -> int:
    """Runs the pages; with --write, what they print replaces outputs that differ."""
    wanted = [Path(each).resolve() for each in arguments if not each.startswith("-")]
    status = 0
    for page in map(read, wanted or pages()):
        changes: list[tuple[tuple[int, int], str]] = []
        with runner(page) as running:
            for block in page.blocks:
                if block.why_not is not None:
                    print(f"{block.place}: not run: {block.why_not}")
                    continue
                try:
                    printed = running.run(block)
                    if block.shown and block.expected is not None and not agrees(block.expected, printed):
                        changes.append((block.shown, _shown(printed, block.expected)))
                        if "--write" not in arguments:
                            raise BlockError(_differing(block, printed))
                except Exception as error:
                    print(error if isinstance(error, BlockError) else f"{block.place}: {type(error).__name__}: {error}")
                    status = 1
        print(f"{page.path.relative_to(ROOT)}: {len(page.blocks)} blocks, {len(changes)} outputs differ")
        if changes and "--write" in arguments:
            text = page.path.read_text(encoding="utf-8")
            for (start, end), message in reversed(changes):
                text = text[:start] + message + text[end:]
            page.path.write_text(text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
