"""Every byte of one batch, annotated: its field, its meaning, and at which byte something is wrong.

`explain` returns spans that cover the bytes without a gap; `kafkarec explain` prints them.
"""

from .run import explain
from .spans import Explanation, Section, Span, SpanFault

__all__ = ["Explanation", "Section", "Span", "SpanFault", "explain"]
