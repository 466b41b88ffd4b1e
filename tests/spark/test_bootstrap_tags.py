"""Wheel tags: ours equal those of `packaging`; the cases that matter for our wheels."""

from __future__ import annotations

import pytest
from packaging import tags as oracle

from spark_udfs.bootstrap import tags, wheels
from spark_udfs.bootstrap.errors import BootstrapError

GLIBC = ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "linux_x86_64"]


def python(minor: int, flags: str = "", platforms: list[str] = GLIBC) -> tags.Interpreter:
    return tags.Interpreter((3, minor), flags, platforms, "glibc-2.28")


def fits(file_name: str, interpreter: tags.Interpreter) -> bool:
    return bool(set(tags.wheel_tags(file_name)) & set(tags.compatible_tags(interpreter)))


def test_same_tags_as_packaging_for_this_interpreter() -> None:
    ours = tags.compatible_tags(tags.this_interpreter())
    theirs = [str(tag) for tag in oracle.sys_tags()]
    assert set(ours) == set(theirs)
    # best first, in the same order (the position of the plain linux tag depends on the version of packaging)
    native = [tag for tag in theirs if ("-cp" in tag or "-abi3-" in tag) and "-linux_" not in tag]
    assert [tag for tag in ours if tag in native] == native


@pytest.mark.parametrize(
    ("file_name", "minor", "expected"),
    [
        ("kafkarec-0.2.0-cp311-abi3-manylinux_2_17_x86_64.whl", 11, True),
        ("kafkarec-0.2.0-cp311-abi3-manylinux_2_17_x86_64.whl", 14, True),
        ("kafkarec-0.2.0-cp312-abi3-manylinux_2_17_x86_64.whl", 11, False),
        ("isal-1.9.1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", 11, True),
        ("isal-1.9.1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", 12, False),
        ("cramjam-2.14.0-cp311-cp311-manylinux_2_34_x86_64.whl", 11, False),
        ("cramjam-2.14.0-cp311-cp311-manylinux_2_28_aarch64.whl", 11, False),
        ("cramjam-2.14.0-cp311-cp311-musllinux_1_1_x86_64.whl", 11, False),
        ("python_snappy-0.7.3-py3-none-any.whl", 13, True),
    ],
)
def test_wheel_fits(file_name: str, minor: int, expected: bool) -> None:
    assert fits(file_name, python(minor)) is expected


def test_a_free_threaded_interpreter_accepts_no_abi3_wheel() -> None:
    assert not fits("kafkarec-0.2.0-cp311-abi3-manylinux_2_17_x86_64.whl", python(14, "t"))
    assert fits("kafkarec-0.2.0-cp314-cp314t-manylinux_2_17_x86_64.whl", python(14, "t"))


def test_musl_accepts_its_own_wheels_only() -> None:
    platforms = list(tags.platform_tags("musl-1.2"))
    assert any(each.startswith("musllinux_1_2_") for each in platforms)
    assert not any(each.startswith("manylinux") for each in platforms)


def test_an_older_glibc_accepts_no_newer_wheel() -> None:
    platforms = list(tags.platform_tags("glibc-2.17"))
    assert not any(each.startswith("manylinux_2_28") for each in platforms)
    assert any(each.startswith("manylinux2014") for each in platforms)


def test_an_unknown_libc_has_the_plain_tag_only() -> None:
    assert len(list(tags.platform_tags("unknown"))) == 1


@pytest.mark.parametrize("name", ["kafkarec.zip", "kafkarec-0.2.0.whl", "a-b-c-d-e-f-g.whl"])
def test_other_names_are_no_wheels(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a wheel"):
        tags.wheel_tags(name)


def manifest(*files: str) -> dict[str, object]:
    lines = [
        {"file": file, "project": file.split("-")[0], "version": file.split("-")[1], "sha256": "", "size": 1}
        for file in files
    ]
    return {"format": 1, "version": "0.2.0", "wheels": lines}


def test_the_best_wheel_is_chosen() -> None:
    chosen = wheels.choose(
        manifest(
            "kafkarec-0.2.0-py3-none-any.whl",
            "kafkarec-0.2.0-cp311-abi3-manylinux_2_17_x86_64.whl",
            "kafkarec-0.2.0-cp312-cp312-manylinux_2_17_x86_64.whl",
        ),
        python(12),
    )
    assert [wheel.file for wheel in chosen] == ["kafkarec-0.2.0-cp312-cp312-manylinux_2_17_x86_64.whl"]


def test_wheels_of_another_platform_are_listed_in_the_error() -> None:
    foreign = "kafkarec-0.2.0-cp311-abi3-macosx_11_0_arm64.whl"
    with pytest.raises(BootstrapError) as caught:
        wheels.choose(manifest(foreign, "python_snappy-0.7.3-py3-none-any.whl"), python(12))
    message = str(caught.value)
    assert message.startswith("no wheel of kafkarec fits this interpreter (cp312, glibc-2.28, manylinux_2_28")
    assert foreign in message
    assert "python_snappy" not in message
    assert "--archives" in message


def test_the_error_says_which_interpreters_the_wheel_serves_and_how_to_make_it_for_others() -> None:
    """That of `make demo` has its name from the one for all."""
    small = manifest(
        "kafkarec-0.2.0-cp311-abi3-manylinux_2_17_x86_64.whl",
        "isal-1.9.1-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "python_snappy-0.7.3-py3-none-any.whl",
    )
    with pytest.raises(BootstrapError) as caught:
        wheels.choose(small, python(12))
    first = str(caught.value).splitlines()[0]
    assert "this spark_udfs wheel serves CPython 3.11 on x86_64 with glibc. `make wheelhouse` in" in first


@pytest.mark.parametrize(
    ("files", "text"),
    [
        (["kafkarec-1-cp311-abi3-manylinux_2_39_aarch64.whl"], "CPython 3.11 to 3.14 on aarch64 with glibc"),
        (
            ["kafkarec-1-cp311-abi3-manylinux_2_17_x86_64.whl", "kafkarec-1-cp313-cp313-musllinux_1_2_x86_64.whl"],
            "CPython 3.11 to 3.14 on x86_64 with glibc and CPython 3.13 on x86_64 with musl",
        ),
        (["kafkarec-1-cp310-cp310-manylinux_2_17_x86_64.whl"], "none"),
    ],
)
def test_what_wheels_serve(files: list[str], text: str) -> None:
    assert wheels.served(manifest(*files)) == text
