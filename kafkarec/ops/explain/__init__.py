"""Every byte of one batch, annotated: what it is, what it means, and at which byte something is wrong.

`explain` gives data (spans that tile the bytes); `kafkarec explain` prints it.
"""

from .run import explain
from .spans import Explanation, Section, Span, SpanFault, tiles

__all__ = ["Explanation", "Section", "Span", "SpanFault", "explain", "tiles"]
