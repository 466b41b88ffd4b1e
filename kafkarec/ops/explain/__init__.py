"""Every byte of one batch, annotated: its field, its meaning, and at which byte something is wrong.

`explain` returns spans that cover the bytes without a gap; `kafkarec explain` prints them. Who draws them has with
`group_of` the group of each field, with a colour in `GROUPS`.
"""

from .field_groups import GROUPS, FieldGroup, group_of
from .run import explain
from .spans import Explanation, Section, Span, SpanFault

__all__ = ["GROUPS", "Explanation", "FieldGroup", "Section", "Span", "SpanFault", "explain", "group_of"]
