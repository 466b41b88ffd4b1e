"""`kafkarec doctor`: what is installed, which routines are used, what is missing and how to install it."""

from __future__ import annotations

import argparse
import platform
import sys
from typing import Any

import kafkarec
from kafkarec.build_info import version_of
from kafkarec.format.checksum import crc32, crc32c
from kafkarec.report import Document
from kafkarec.support.text_table import or_nothing

from . import COULD_NOT, FINE, output_files, shared_options

DESCRIPTION = """Prints versions, codecs with their libraries, the routines that compute CRC-32C and CRC-32, the build,
and what is missing. The exit status is 3 if something that decoding needs is missing or wrong."""
EXAMPLES = """examples:
  kafkarec doctor                 paste this into a bug report
  kafkarec doctor --format json"""

# extra -> its packages, and what each is for.
EXTRAS = {
    "arrow": ("pyarrow", "cat --format arrow, to_arrow()"),
    "remote": ("s3fs", "s3:// URLs (pyarrow reads them, too), and other URLs with the packages of their schemes"),
    "cli": ("rich", "progress as a bar, not as a line"),
}
# The checksums of b"123456789", and the check values of the CRC catalogue.
_CHECK_TEXT = b"123456789"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_format_and_output(parser)


def run(args: argparse.Namespace) -> int:
    found = examine()
    output_files.write_report(args, Document("doctor", _lines(found)), [found], indent=2)
    return COULD_NOT if found["problems"] else FINE


def examine() -> dict[str, Any]:
    """Return all results as JSON values: kafkarec, python, platform, engine, codecs, extras, problems."""
    build = dict(kafkarec.build_info())
    for duplicate in ("kafkarec", "python"):
        build.pop(duplicate, None)
    codecs, wrong = build.pop("codecs"), build.pop("wrong_checksums")
    checks = (("CRC-32C", crc32c(_CHECK_TEXT), 0xE3069283), ("CRC-32", crc32(_CHECK_TEXT), 0xCBF43926))
    return {
        "kafkarec": kafkarec.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "platform": f"{platform.system()} {platform.machine()}, {sys.byteorder}-endian",
        "location": kafkarec.__path__[0],
        "engine": build,
        "codecs": codecs,
        "extras": {
            extra: {"package": package, "version": version_of(package), "for": use}
            for extra, (package, use) in EXTRAS.items()
        },
        "problems": [
            *(
                f"{name} payloads cannot be read: pip install {info['library']}"
                for name, info in codecs.items()
                if info["how"] is None
            ),
            *(f"{routine} computes wrong checksums and is not used: please report it" for routine in wrong),
            *(
                f"{name} of the check text is 0x{is_:08x} and should be 0x{should:08x}: please report it"
                for name, is_, should in checks
                if is_ != should
            ),
        ],
    }


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{name:<12}{found[name]}" for name in ("kafkarec", "python", "executable", "platform", "location")]
    lines += ["", "engine", *(f"  {name:<18}{_value_text(value)}" for name, value in found["engine"].items())]
    lines += ["", "codecs", *(f"  {name:<18}{_codec_support(info)}" for name, info in found["codecs"].items())]
    lines += ["", "extras"]
    for extra, info in found["extras"].items():
        state = info["version"] or f"missing (for {info['for']}): pip install 'kafkarec[{extra}]'"
        lines.append(f"  {extra:<18}{info['package']} {state}")
    lines.append("")
    lines += found["problems"] or [
        "all codecs can be read, the checksums are right: nothing that decoding needs is missing"
    ]
    return lines


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return or_nothing(value)


def _codec_support(info: dict[str, Any]) -> str:
    if info["how"] is None:
        return f"missing: pip install {info['library']}"
    if info["version"] is None:
        return f"{info['how']}, which is slower: pip install {info['library']}"
    return f"{info['library']} {info['version']} ({info['how']})"
