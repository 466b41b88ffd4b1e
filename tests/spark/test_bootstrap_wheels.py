"""A spoiled wheel is refused with a message for each kind of damage, and nothing of it remains on disk."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import fat_wheels
import pytest

Members = list[tuple[zipfile.ZipInfo, bytes]]


def refused(tmp_path: Path, edit: Callable[[Members], None], message: str) -> None:
    """The edited wheel is refused with this message, and its new cache stays empty."""
    fat = fat_wheels.fat_wheel(tmp_path / "wheels", spoil=lambda raw: fat_wheels.rewritten(raw, edit))
    root = tmp_path / "root"
    outcome = fat_wheels.activate(fat, root)
    assert "refused" in outcome["error"]
    assert message in outcome["error"]
    left = [path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert left == []


def contents(members: Members) -> dict[str, bytes]:
    return {info.filename: content for info, content in members}


def add(members: Members, name: str, content: bytes = b"", mode: int = 0o100644, listed: bool = True) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    members.append((info, content))
    if listed:
        for index, (info, text) in enumerate(members):
            if info.filename.endswith("/RECORD"):
                members[index] = (info, text + fat_wheels.record_line(name, content))


def replace(members: Members, name: str, content: bytes) -> None:
    index = next(i for i, (info, _) in enumerate(members) if info.filename == name)
    members[index] = (members[index][0], content)


@pytest.mark.parametrize(
    "name",
    [
        "../outside.py",
        "kafkarec/../../outside.py",
        "/etc/outside.py",
        "C:/outside.py",
        "a\\..\\b.py",
        "~/x.py",
        "./x.py",
    ],
)
def test_a_name_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, lambda members: add(members, name), "has a file with the name")
    assert not (tmp_path / "outside.py").exists()


def test_a_symlink_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, lambda m: add(m, "kafkarec/link", b"/etc/passwd", stat.S_IFLNK | 0o777), "symlink")


def test_a_file_missing_from_record_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, lambda m: add(m, "kafkarec/extra.py", listed=False), "not listed: ['kafkarec/extra.py']")


def test_a_missing_listed_file_is_refused(tmp_path: Path) -> None:
    def drop(members: Members) -> None:
        members[:] = [each for each in members if each[0].filename != "kafkarec/_version.py"]

    refused(tmp_path, drop, "missing: ['kafkarec/_version.py']")


def test_a_changed_library_is_refused(tmp_path: Path) -> None:
    refused(
        tmp_path,
        lambda m: replace(m, "kafkarec/_library.so", b"\x7fELF, but not the one that was built"),
        "_library.so in kafkarec-9.8.7-py3-none-any.whl does not have the hash that RECORD lists",
    )


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        refused(tmp_path, lambda m: add(m, "kafkarec/_version.py", b"evil"), "two files of one name")


def test_a_weak_hash_in_record_is_refused(tmp_path: Path) -> None:
    def weaken(members: Members) -> None:
        replace(members, record, contents(members)[record].replace(b"sha256=", b"md5="))

    record = f"kafkarec-{fat_wheels.VERSION}.dist-info/RECORD"
    refused(tmp_path, weaken, "does not have the hash")


def test_a_wheel_without_record_is_refused(tmp_path: Path) -> None:
    def drop(members: Members) -> None:
        members[:] = [each for each in members if not each[0].filename.endswith("/RECORD")]

    refused(tmp_path, drop, "has 0 RECORD files")


def test_a_wheel_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    fat = fat_wheels.fat_wheel(tmp_path / "wheels")
    broken = edited_fat(fat, tmp_path / "broken.zip", ".whl", lambda raw: b"not a zip", fix_manifest=True)
    assert "is not a zip file" in fat_wheels.activate(broken, tmp_path / "root")["error"]


def test_a_wheel_that_differs_from_the_manifest_is_refused(tmp_path: Path) -> None:
    fat = fat_wheels.fat_wheel(tmp_path / "wheels")
    broken = edited_fat(fat, tmp_path / "broken.zip", ".whl", lambda raw: raw + b"\0")
    assert "is not the wheel the manifest lists" in fat_wheels.activate(broken, tmp_path / "root")["error"]


def test_a_manifest_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    fat = fat_wheels.fat_wheel(tmp_path / "wheels")
    newer_format = edited_fat(
        fat, tmp_path / "later.zip", "manifest.json", lambda raw: raw.replace(b'"format": 1', b'"format": 2')
    )
    assert "manifest of format 2; this bootstrap reads format 1" in fat_wheels.activate(newer_format, None)["error"]


def edited_fat(
    fat: Path, target: Path, suffix: str, edit: Callable[[bytes], bytes], fix_manifest: bool = False
) -> Path:
    """A copy of the fat wheel with one edited member; with `fix_manifest` the manifest has the new hash."""
    import hashlib

    def apply(members: Members) -> None:
        name = next(i.filename for i, _ in members if i.filename.endswith(suffix))
        content = edit(contents(members)[name])
        replace(members, name, content)
        if fix_manifest:
            listing = next(i.filename for i, _ in members if i.filename.endswith("manifest.json"))
            manifest = json.loads(contents(members)[listing])
            manifest["wheels"][0]["sha256"] = hashlib.sha256(content).hexdigest()
            replace(members, listing, json.dumps(manifest).encode())

    target.write_bytes(fat_wheels.rewritten(fat.read_bytes(), apply))
    return target


def test_a_good_wheel_in_a_zip_on_a_relative_path_is_unpacked(tmp_path: Path) -> None:
    """On executors sys.path holds `./x.zip`, and the process may change its working directory later."""
    fat = fat_wheels.fat_wheel(tmp_path / "wheels").rename(tmp_path / "spark_udfs.zip")
    program = "import os, sys; sys.argv[1] = './spark_udfs.zip'\n" + fat_wheels.PROGRAM.replace(
        "try:\n", "os.chdir('/')\ntry:\n", 1
    )
    outcome = fat_wheels.activate(fat, tmp_path / "root", program, cwd=tmp_path)
    assert outcome["source"] == "unpacked"
    assert outcome["path"].startswith(str(tmp_path / "root" / f"kafkarec-cache-{os.geteuid()}"))


def test_an_unpacked_folder_works_as_an_archive_does(tmp_path: Path) -> None:
    fat = fat_wheels.fat_wheel(tmp_path / "wheels")
    with zipfile.ZipFile(fat) as archive:
        archive.extractall(tmp_path / "site")
    assert fat_wheels.activate(tmp_path / "site", tmp_path / "root")["source"] == "unpacked"
