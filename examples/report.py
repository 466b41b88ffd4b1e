"""The demo's output: a title, the source of the step, then what the step printed. Driver only."""

import inspect
import re
import textwrap
from collections.abc import Callable

WIDTH = 100


def show(number: int, title: str, step: Callable[[], None]) -> None:
    """Prints the step's own source, then runs it."""
    head = f"-- {number}. {title} "
    print(f"\n{head}{'-' * (WIDTH - len(head))}\n")
    body = inspect.getsource(step).partition("\n")[2]
    print(textwrap.indent(textwrap.dedent(body).rstrip(), "  | "), end="\n\n", flush=True)
    step()


def hexdump(data: bytes, start: int = 0) -> str:
    """16 bytes a line: position, hex, text."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start + at:08x}  {part.hex(' '):47}  {text}")
    return "\n".join(lines)


def first_line(error: Exception) -> str:
    """The type and first line of the message of a Python worker's exception, without the stack."""
    found = re.search(r"^(?:[\w.]*\.)?(\w+Error: .*)$", str(error), re.MULTILINE)
    return found[1] if found else f"{type(error).__name__}: {str(error).splitlines()[0]}"
