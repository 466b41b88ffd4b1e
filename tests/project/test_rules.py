"""Rules for source files: permitted imports and forbidden words."""

import ast
import re
import sys

from paths import ROOT
from source_files import files, imports, is_type_checking

FOLDERS = ("kafkarec", "spark_udfs", "pyspark_kafkarec", "tests", "tools")
CODEC_LIBRARIES = {"lz4", "zstandard", "snappy", "cramjam", "isal", "gzip", "zlib", "bz2", "lzma"}
TABLE_LIBRARIES = {"pyarrow", "pandas", "polars", "duckdb", "numpy", "fsspec"}


def package_of(module):
    return module.lstrip(".").split(".")[0] if not module.startswith(".") else ""


def offenders(paths, forbidden, *, top_level_only=False):
    return [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in paths
        for module, at_import, _ in imports(path)
        if package_of(module) in forbidden and (at_import or not top_level_only)
    ]


def test_forbidden_imports_of_every_form_are_found(tmp_path):
    """The check of the imports must itself be able to find something."""
    python = tmp_path / "a.py"
    python.write_text("import lz4.frame\nfrom isal import igzip\ndef f():\n    import pyarrow\n")
    assert [one[:2] for one in imports(python)] == [("lz4.frame", True), ("isal", True), ("pyarrow", False)]
    cython = tmp_path / "a.pyx"
    cython.write_text("from ._c.batch cimport x\ncimport cython\n    import zstandard\n")
    assert [one[:2] for one in imports(cython)] == [("._c.batch", True), ("cython", True), ("zstandard", False)]
    assert offenders([cython], {"zstandard"}, top_level_only=True) == []


def test_compression_libraries_only_in_codecs():
    outside = [path for path in files("kafkarec") if "codecs" not in path.parts]
    offending = offenders(outside, CODEC_LIBRARIES)
    offending += offenders(files("spark_udfs"), CODEC_LIBRARIES - set(sys.stdlib_module_names))
    # zlib.crc32 is the checksum of magic 0 and 1; only the checksum module may import it
    assert [line for line in offending if "checksum" not in line or "zlib" not in line] == []
    assert offenders([p for p in files("kafkarec") if "codecs" in p.parts], CODEC_LIBRARIES) != []


def test_table_libraries_only_in_these_modules_and_cli_inside_functions():
    allowed = ("remote_path.py", "partitioned_files.py")
    outside = [p for p in files("kafkarec") if "cli" not in p.parts and p.name not in allowed]
    assert offenders(outside, TABLE_LIBRARIES) == []
    assert offenders(files("kafkarec"), TABLE_LIBRARIES, top_level_only=True) == []


def test_pyspark_only_in_spark_udfs():
    # the stand-ins for the documentation's blocks start a Spark session where pyspark is installed
    paths = [path for path in files("kafkarec", "tools") if path.name != "doc_standins.py"]
    assert offenders(paths, {"pyspark", "py4j"}) == []
    assert offenders(files("kafkarec"), {"spark_udfs", "tests", "tools"}) == []


def test_spark_udfs_uses_public_names_only():
    """The modules that it may import are in a contract of pyproject.toml."""
    offending = []
    for path in files("spark_udfs"):
        ours = [one for one in imports(path) if package_of(one.module) == "kafkarec"]
        names = [name for one in ours for name in (*one.module.split("."), *one.names)]
        names += re.findall(r"\bkafkarec(?:\.\w+)*\.(_[a-z]\w*)", path.read_text(encoding="utf-8"))
        offending += [f"{path.name}: {name}" for name in names if re.match(r"_[^_]", name)]
    assert offending == []


def test_c_modules_use_no_python():
    allowed = {"libc", "posix", "cpython", "cython"}
    for path in files("kafkarec/_c"):
        for module, _, _ in imports(path):
            package = package_of(module)
            assert package in allowed | {"", "kafkarec"}, f"{path.name} imports {module}"
            assert not module.startswith(".."), f"{path.name} imports {module}"
        assert not re.search(r"^\s*def ", path.read_text(encoding="utf-8"), re.MULTILINE), path.name


def test_compiled_modules_import_only_c_modules_and_basic_modules():
    allowed = {"", "kafkarec", "libc", "cpython", "cython"} | set(sys.stdlib_module_names)
    compiled = sorted((ROOT / "kafkarec").glob("_*.pyx"))
    assert len(compiled) > 1
    for source in compiled:
        assert {package_of(module) for module, _, _ in imports(source)} <= allowed - CODEC_LIBRARIES, source.name


def test_init_modules_have_imports_and_no_code():
    tree = ast.parse((ROOT / "kafkarec" / "__init__.py").read_text(encoding="utf-8"))
    allowed = ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Expr
    code = [node for node in tree.body if not isinstance(node, allowed) and not is_type_checking(node)]
    assert [ast.dump(node) for node in code] == []


FORBIDDEN = ["TO" + "DO", "FIX" + "ME", "X" * 3, "NotImplemented" + "Error", "assert " + "True"]


def test_no_leftovers_in_the_code():
    pattern = re.compile(r"\b(" + "|".join(FORBIDDEN) + r")\b")
    offending = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files(*FOLDERS, "benchmarks", "examples")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line) and "except" not in line
    ]
    assert offending == []


def test_no_test_is_skipped_without_a_reason_and_none_is_expected_to_fail():
    bare = re.compile(r"pytest\.skip\(\s*\)|mark\.skip\b(?!\()|mark\.skip\(\s*\)|mark\.xfail")
    offending = [
        p.name for p in files("tests", suffixes={".py"}) if bare.search(p.read_text()) and p.name != "test_rules.py"
    ]
    assert offending == []
