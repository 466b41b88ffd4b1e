"""Errors that are about no record: of a Spark that is too old for what was asked, and of jobs that meet."""

from __future__ import annotations


class NeedsNewerSpark(RuntimeError):
    """This Spark cannot do it; the message says which one can, and what does the same here."""


class Conflict(RuntimeError):
    """Another job has changed the table since this one planned what to write. Nothing of this one is there."""
