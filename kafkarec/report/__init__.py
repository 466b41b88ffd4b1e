"""Reports: one Document, as lines of text and as an HTML page; results as JSON values

document   Document and its blocks: lines, tables, bars, commands, sections
values     jsonable(): a result as JSON values
"""

from .document import Bar, Block, Columns, Commands, Document, ReportSection, ReportTable, html, text
from .values import jsonable

__all__ = [
    "Bar",
    "Block",
    "Columns",
    "Commands",
    "Document",
    "ReportSection",
    "ReportTable",
    "html",
    "jsonable",
    "text",
]
