"""The command line, `kafkarec` and `python -m kafkarec`."""

from .app import main

__all__ = ["main"]
