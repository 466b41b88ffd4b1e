"""Findings about the files and folders that are not read as logs."""

from __future__ import annotations

import os
from typing import Any

from kafkarec.storage import names, unnamed_files
from kafkarec.storage.partition_folder import LeftOut

from .findings import Findings


def check(folder: Any, findings: Findings) -> None:
    """Adds findings for what a folder's reading left out: an error if a folder cannot be listed. A file with batches
    but without Kafka's name, as in fsck's lost+found, may be a segment that is missing elsewhere."""
    for one in folder.left_out:
        name = os.path.basename(one.name)
        path = os.path.join("" if folder.folder is None else folder.folder.path, one.name)
        if one.kind == names.PACKED or (one.cause and names.is_segment(name)):
            continue  # verified as a segment, and reported there
        found = []
        if one.kind == names.FOREIGN:
            found = list(unnamed_files.files_with_batches(path))
        for file, base in found:
            detail = f"not verified: its name is not a segment's; it contains record batches starting at offset {base}"
            findings.add("batches_left_out", detail, offset=base, file=file)
        if one.is_folder and names.folder(name) is not None and not one.cause:
            findings.add("file_left_out", one.why, file=path)
        elif not found:
            findings.add(_kind(one), f"{one.name}: {one.why}", cause=one.cause or None)


def _kind(one: LeftOut) -> str:
    if one.kind == names.UNREADABLE:
        return "unreadable_folder"
    if one.kind == names.REMOVED:
        return "removed_meanwhile"
    parsed = names.segment(os.path.basename(one.name))
    return "other_log_file" if parsed is not None and parsed.suffix == ".log" else "file_left_out"
