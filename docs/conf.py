"""Sphinx's settings for this site; `make docs` builds it, with every warning an error.

The pages in reference/ (command line, Python API) are written here, from the code: they are not in the repository.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import make_docs  # noqa: E402

import kafkarec  # noqa: E402

make_docs.write_built()

project = "kafkarec"
author = "the kafkarec contributors"
copyright = author
release = version = kafkarec.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "doc_api"]
autodoc_default_options = {"members": True, "inherited-members": "tuple, dict, int, str, bytes, BaseException"}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
nitpick_ignore_regex = [("py:.*", ".*")]  # types of signatures: most are others' or are not on a page
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_static"]
nitpicky = True
suppress_warnings: list[str] = []
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"kafkarec {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "sidebar_hide_name": False,
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#4fc08d", "color-brand-content": "#4fc08d"},
}
smartquotes = False  # the texts of docstrings contain code
pygments_style = "friendly"
pygments_dark_style = "github-dark"
highlight_language = "text"
