"""The commands to run next, for the findings of a report."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable

from .finding_kinds import ANOMALY, ERROR, kind_of
from .report_data import PartitionReport, ReportData
from .side_file_finding import CHECKS

_MOST = 3
_INDEXES = {kind_of(check) for check in CHECKS if check.startswith(("index_", "time_", "transaction_"))}
_REBUILT_BY_REINDEX = ("index", ".snapshot")
_COMPARE = {"epoch_goes_back", "base_offset_wrong", "segment_gap", "offset_gap", "offset_overlap"}
_TRANSACTIONS = {"transaction_hanging", "control_record_unreadable"}


def next_steps(report: ReportData) -> list[str]:
    """Commands, the most urgent first, at most a few of a kind; some with a remark in brackets."""
    steps: list[str] = []
    if any(one.reason == "unreadable" for one in report.damage) or any(
        one.kind == "unreadable_file" for one in report.findings
    ):
        steps.append("(the disk fails: copy it with ddrescue first, then work on the copy)")
    if any(one.reason == "limit_exceeded" for one in report.damage):
        again = f"kafkarec verify --max-decompressed-bytes 1g {_quoted(report.path)}"
        steps.append(f"{again}   (payloads above the limit were not read)")
    damaged = [one for one in report.partitions if one.places and one.total("batches")]
    salvage = _salvage(report, damaged)
    steps += salvage
    steps += _found_elsewhere(report)
    rest = [one for one in report.partitions if one not in damaged]
    anew = len(salvage) == 1 < len(damaged)  # all partitions are copied, with new indexes
    steps += _several([] if anew else [one for one in rest if _is_of_indexes(one, ERROR)], _reindex)
    steps += _several(
        [one for one in rest if _kinds(one) & _COMPARE],
        lambda one: f"kafkarec diff {_quoted(one.path)} REPLICA   (the same partition from another broker)",
    )
    steps += _several(
        [one for one in report.partitions if _kinds(one) & _TRANSACTIONS],
        lambda one: f"kafkarec txn {_quoted(one.path)}",
    )
    if not steps:
        steps += _explained(report)
    return steps


def _salvage(report: ReportData, damaged: list[PartitionReport]) -> list[str]:
    """The salvage commands: one for all partitions if they are in one data folder."""
    folder = report.path.rstrip("/")
    if len(damaged) > 1 and all(os.path.dirname(one.path.rstrip("/")) == folder for one in damaged):
        remark = f"{len(damaged)} partitions are damaged; the others are copied as they are"
        return [f"kafkarec salvage {_quoted(folder)} -o rescued   ({remark})"]
    return _several(damaged, lambda one: f"kafkarec salvage {_quoted(one.path)} -o {_quoted(_target(one))}")


def _found_elsewhere(report: ReportData) -> list[str]:
    """Commands for files outside of the logs that have batches: to salvage what a log misses, or to inspect them."""
    if report.state not in ("damaged", ERROR) and report.files:
        return []
    strays = [(str(one.file), one.offset) for one in report.findings if one.kind == "batches_left_out"]
    steps, included = [], set()
    for path, base in strays[:_MOST]:
        for one in report.partitions:
            if one.topic and one.partition is not None and any(first == base for first, _ in one.missing):
                target = _quoted(os.path.join("merged", os.path.basename(one.name)))
                steps.append(
                    f"kafkarec salvage {_quoted(one.path)} {_quoted(path)} --topic {_quoted(one.topic)} "
                    f"--partition {one.partition} -o {target}   ({one.name} lacks offset {base}, where this begins)"
                )
                included.add(path)
    rest = [path for path, _ in strays if path not in included]
    if rest:
        more = f"   (and {len(rest) - _MOST} more)" if len(rest) > _MOST else ""
        steps.append(f"kafkarec verify {' '.join(map(_quoted, rest[:_MOST]))}{more}")
    return steps


def _explained(report: ReportData) -> list[str]:
    """Commands if nothing must be repaired: reindex for an index, else explain for the first anomaly."""
    slow = [one for one in report.partitions if _is_of_indexes(one, ANOMALY)]
    if slow:
        return _several(slow, _reindex)
    odd = [one for one in report.findings if one.severity == ANOMALY and one.file and one.position is not None]
    return [f"kafkarec explain {_quoted(str(one.file))} --at {one.position}   ({one.kind})" for one in odd[:1]]


def _is_of_indexes(one: PartitionReport, severity: str) -> bool:
    """Whether there is a finding of this severity that new indexes correct."""
    return any(
        found.kind in _INDEXES
        or (found.kind == kind_of("unreadable") and str(found.file).endswith(_REBUILT_BY_REINDEX))
        for found in one.findings
        if found.severity == severity
    )


def _reindex(one: PartitionReport) -> str:
    return f"kafkarec reindex {_quoted(one.path)} -o {_quoted(_target(one))}"


def _several(partitions: list[PartitionReport], command: Callable[[PartitionReport], str]) -> list[str]:
    made = [command(one) for one in partitions[:_MOST]]
    if len(partitions) > _MOST:
        made[-1] += f"   (and the same for {len(partitions) - _MOST} more)"
    return made


def _kinds(one: PartitionReport) -> set[str]:
    return {one.kind for one in one.findings if one.severity == ERROR or one.kind in _TRANSACTIONS}


def _target(one: PartitionReport) -> str:
    """An output folder that is not within a source, which salvage refuses."""
    return os.path.join("rescued", os.path.basename(one.name.rstrip("/")) or "log")


def _quoted(path: str) -> str:
    return shlex.quote(path)
