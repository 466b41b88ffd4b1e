"""What each package costs to read, as a table: `make size`, or `python tools/size.py FOLDER ...`.

tokens     names, numbers, texts and operators of the code, without comments and docstrings: dense lines do not lower it
functions  all, and those with a private name that are named once only (a reader must look each one up)
kinds      classes: all, Protocols, NamedTuples and dataclasses
names      different names of modules, classes, functions and methods: what an owner must know
small      files of less than 60 lines
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

SKIP = {getattr(tokenize, name) for name in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENCODING", "ENDMARKER")}
WORD = re.compile(r"[A-Za-z_]\w*")


def files(*roots):
    out = subprocess.run(["git", "ls-files", *roots], capture_output=True, text=True, check=True).stdout.split()
    return [f for f in out if f.endswith((".py", ".pyx", ".pxd"))]


def python(text):
    tree = ast.parse(text)
    docs = {
        (n.body[0].lineno, n.body[0].col_offset)
        for n in ast.walk(tree)
        if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef)
        and n.body
        and isinstance(n.body[0], ast.Expr)
        and isinstance(getattr(n.body[0], "value", None), ast.Constant)
    }
    tokens = sum(
        1
        for t in tokenize.generate_tokens(io.StringIO(text).readline)
        if t.type not in SKIP and not (t.type == tokenize.STRING and t.start in docs)
    )
    functions = [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    bases = Counter(getattr(b, "id", getattr(b, "attr", "")) for c in classes for b in c.bases)
    records = bases["NamedTuple"] + sum("dataclass" in ast.dump(d) for c in classes for d in c.decorator_list)
    return tokens, functions, [c.name for c in classes], bases["Protocol"], records


def cython(text):
    bare = re.sub(r'("""|\'\'\')[\s\S]*?\1|#.*', "", text)
    functions = re.findall(r"^\s*(?:cdef|cpdef|def)\s[^=\n]*?(\w+)\s*\([^)]*\)[^=\n]*:\s*$", bare, re.M)
    classes = re.findall(r"^\s*(?:cdef\s+)?(?:class|struct)\s+(\w+)", bare, re.M)
    quoted = re.findall(r'extern from \*[^:\n]*:\s*("""|\'\'\')([\s\S]*?)\1', text)  # C in quoted blocks counts as well
    embedded = re.sub(r"/\*[\s\S]*?\*/|//.*", "", "\n".join(block for _, block in quoted))
    return len(re.findall(r"\w+|[^\w\s]", bare + embedded)), functions, classes, 0, 0


def main(roots):
    texts = {name: Path(name).read_text(encoding="utf-8") for name in files(*roots)}
    words = Counter(w for t in texts.values() for w in WORD.findall(t))
    rows, names = defaultdict(Counter), defaultdict(set)
    for f, text in texts.items():
        parts = f.split("/")
        deep = parts[1] if len(parts) > 2 else "."
        if deep == "ops" and len(parts) > 3:
            deep += "/" + parts[2]
        key = f"{parts[0]}/{deep}"
        tokens, functions, classes, protocols, records = (python if f.endswith(".py") else cython)(text)
        once = [n for n in functions if n.startswith("_") and not n.startswith("__") and words[n] <= 2]
        lines = text.count("\n")
        for k in (key, parts[0], "all"):
            rows[k].update(
                files=1,
                lines=lines,
                tokens=tokens,
                functions=len(functions),
                once=len(once),
                classes=len(classes),
                protocols=protocols,
                records=records,
                small=int(f.endswith(".py") and lines < 60),
            )
            names[k] |= {*functions, *classes, f.rsplit("/", 1)[1]}
    head = ("files", "lines", "tokens", "functions", "once", "classes", "protocols", "records", "names", "small")
    print(f"{'':28}" + "".join(f"{h:>10}" for h in head))
    for k in sorted(rows):
        rows[k]["names"] = len(names[k])
        print(f"{k:28}" + "".join(f"{rows[k][h]:>10}" for h in head))


main(sys.argv[1:] or ["kafkarec", "spark_udfs"])
