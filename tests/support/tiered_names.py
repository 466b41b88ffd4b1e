"""Ids in the names of objects of tiered storage."""

from __future__ import annotations

TOPIC_ID, SEGMENT_ID = "MWJ6FHTfRYy67jzwZdeqSQ", "tqimKeZwStOEOwRzT3L5oQ"
