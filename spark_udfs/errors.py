"""The error of a Spark that is too old for what was asked."""

from __future__ import annotations


class NeedsNewerSpark(RuntimeError):
    """This Spark cannot do it; the message says which one can, and what does the same here."""
