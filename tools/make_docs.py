"""Writes the generated pages of docs/; a test checks that they are current.

usage: make_docs.py [--check]

docs/damage.md comes from `kafkarec.errors.REASONS`, the one table of reasons; that file is loaded alone, so
this needs no compiled core. The file map in CONTRIBUTING.md comes from the first sentence of each file.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent

DAMAGE = """\
# Damage: the reasons

<!-- written by tools/make_docs.py from kafkarec/errors.py: do not edit -->

One word says why bytes were refused. It is the same in the exception (`error.reason`), in `.damage` under
`errors="skip"`, in the JSON of the command line and in Spark's `_corrupt_record`. The list is closed: a
word is only ever added, and that is a feature in the changelog.

```python
columns = kafkarec.decode(data, errors="skip")
for damage in columns.damage:
    print(damage.position, damage.length, damage.lost_from, damage.lost_to, damage.reason)
```

| field | meaning |
|---|---|
| `file` | the file, when one was read |
| `position`, `length` | the bytes that are not a good batch, in the input |
| `lost_from` | the first offset that may be lost: next offset of the good batch before; null without one |
| `lost_to` | the last one: the base offset of the good batch behind - 1; on compacted logs an upper bound |
| `next_position` | where reading went on |
| `reason` | a word from the table below |
| `detail` | the message, with both sides of the comparison that failed |

Always: the bytes of all good batches + the bytes of all damage + what remains at the end = the bytes of
the input. Messages never hold key, value or header bytes, so they can be pasted into a ticket.

| reason | exception | meaning | `expected` | `found` |
|---|---|---|---|---|
"""

FAMILY = """
## The exceptions

All are `ValueError`s of one family; bytes never raise anything else. Each carries `position`, `base_offset`,
`next_position`, `reason`, `expected`, `found`, `file`, and survives pickling with them.

| exception | is a | meaning |
|---|---|---|
"""


def load_errors() -> ModuleType:
    """kafkarec/errors.py by its path."""
    spec = importlib.util.spec_from_file_location("kafkarec_errors_alone", ROOT / "kafkarec" / "errors.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and named tuples look their module up
    spec.loader.exec_module(module)
    return module


def first_sentence(doc: str | None) -> str:
    return " ".join((doc or "").split("\n\n")[0].split())


def damage_page() -> str:
    errors = load_errors()
    rows = [
        f"| `{word}` | {reason.error.__name__} | {reason.sentence} | {reason.expected} | {reason.found} |"
        for word, reason in errors.REASONS.items()
    ]
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    # a class may stand there under a short alias as well
    family = dict.fromkeys(cls for cls in classes if issubclass(cls, errors.KafkaRecordError))
    kin = [f"| `{cls.__name__}` | `{cls.__bases__[0].__name__}` | {first_sentence(cls.__doc__)} |" for cls in family]
    return DAMAGE + "\n".join(rows) + "\n" + FAMILY + "\n".join(kin) + "\n"


# the rooms of the map, in the order of the page
ROOMS = (
    "kafkarec/*.py",
    "kafkarec/*.pyx",
    "kafkarec/_desk/*.pxd",
    "kafkarec/_c/*.pxd",
    "kafkarec/codecs/*.py",
    "kafkarec/cli/*.py",
    "spark_udfs/*.py",
    "spark_udfs/bootstrap/*.py",
    "tools/*",
    "examples/*.py",
    "benchmarks/*.py",
)
MAP_BEGIN, MAP_END = "<!-- map, written by make docs -->\n", "<!-- end of the map -->\n"


def told_by(path: Path) -> str:
    """The first sentence of a file's docstring, or of the comment at its head."""
    text = path.read_text(encoding="utf-8", errors="replace")
    found = re.search(r'^(?:#!.*\n)?"""(.+?)(?:"""|\n\n)', text, re.DOTALL)
    words = found[1] if found else " ".join(line.lstrip("# ") for line in text.splitlines()[1:5] if line[:2] == "# ")
    return re.split(r"(?<=[a-z0-9`)])\. ", " ".join(words.split()) + " ")[0].rstrip(".: ")


def contributing() -> str:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    before, rest = page.split(MAP_BEGIN)
    after = rest.split(MAP_END)[1]
    rows = ["| file | what it is |", "|---|---|"]
    for room in ROOMS:
        for path in sorted(ROOT.glob(room)):
            if path.is_file() and path.stat().st_size and path.suffix != ".pyc":
                rows.append(f"| `{path.relative_to(ROOT)}` | {told_by(path)} |")
    return before + MAP_BEGIN + "\n" + "\n".join(rows) + "\n\n" + MAP_END + after


PAGES = {"docs/damage.md": damage_page, "CONTRIBUTING.md": contributing}


def main(arguments: list[str]) -> int:
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text)
            print(f"written: {name}")
    if "--check" in arguments and stale:
        print(f"not current, run make docs: {', '.join(stale)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
