"""The commands to run next, for the findings of a report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kafkarec.sidecars import leader_epochs
from kafkarec.sources import remote
from kafkarec.sources.read_failures import REMEDIES
from kafkarec.storage import names
from kafkarec.storage.output_rules import STANDARD_INPUT, suggested_output
from kafkarec.support.command_line import command

from .finding_kinds import ANOMALY, ERROR, INDEX_FILE, KINDS, REINDEX, REPLICA, SALVAGE, TXN
from .report_data import PartitionReport, ReportData

_MOST_FILES = 3  # in one command
_REBUILT_BY_REINDEX = ("index", ".snapshot", leader_epochs.NAME)


def next_steps(report: ReportData) -> list[str]:
    """The commands, the most urgent first, one of each kind for all partitions that need it, each alone in its line.
    Remarks on the command before are in parentheses."""
    causes = set(report.unread.values())
    remedies = [f"({remedy})" for cause, remedy in REMEDIES.items() if cause in causes]
    if STANDARD_INPUT in {report.path, *(one.path for one in report.partitions)}:
        fine = report.state == "ok"
        return remedies + ([] if fine else ["(save the input to a file: the commands of a repair need one)"])
    # the verified path, or those of the logs if several paths were verified together
    single = remote.is_url(report.path) or os.path.exists(report.path)
    inputs = [report.path] if single else [_path_of(one) for one in report.partitions]
    output = suggested_output("rescued", inputs)
    steps = [*remedies, *_repair_lines(report, inputs, output)]
    if steps:
        return steps
    slow = [one for one in report.partitions if _has_finding_for(one, REINDEX, ANOMALY)]
    if slow:
        return [_reindex_command(report, slow, output)]
    for found in report.findings:
        if found.severity == ANOMALY and found.file and found.position is not None:
            return [command("explain", [found.file], ("--at", found.position)), f"({found.kind})"]
    return []


def _repair_lines(report: ReportData, inputs: Sequence[str], output: str) -> Iterator[str]:
    if any(one.reason == "limit_exceeded" for one in report.damage):
        yield command("verify", inputs, ("--max-decompressed-bytes", "1g"))
        yield "(payloads above the limit were not read)"
    replicas: dict[str, list[PartitionReport]] = {}
    for one in report.partitions:
        replicas.setdefault(one.name, []).append(one)
    damaged, gone, rest = list[PartitionReport](), list[str](), list[PartitionReport]()
    for name, logs in replicas.items():
        differ = len(logs) > 1 and any(_has_finding_for(one, REPLICA, ERROR) for one in logs)
        if not (differ or any(map(_needs_salvage, logs))):
            rest += logs
        elif any(one.total("batches") for one in logs):
            damaged += sorted(logs, key=lambda one: one.path)
        else:
            gone.append(name)
    paths = _paths_of(report, damaged)
    is_whole_folder = len(paths) < len(damaged)
    if damaged:
        yield command("salvage", paths, ("-o", output))
    if is_whole_folder:
        what = "damaged" if all(one.places for one in damaged) else "damaged or incomplete"
        yield f"({len(damaged)} partitions are {what}; the others are copied unchanged)"
    gone += [os.path.basename(str(one.file)) for one in report.own_findings if one.kind == "folder_lost"]
    if gone:
        yield f"({_first_of(gone)}: no batch is left to save; look for a backup or a replica)"
    yield from _for_files_left_out(report, inputs)
    wrong_indexes = [one for one in rest if _has_finding_for(one, REINDEX, ERROR)]
    if wrong_indexes and not is_whole_folder:  # of which salvage writes all indexes
        yield _reindex_command(report, wrong_indexes, output)
    compared = [one.name for one in rest if _has_finding_for(one, REPLICA, ERROR)]
    if compared:
        where = _first_of(compared)
        yield f"({where}: salvage takes what is missing from a replica, if both folders are named)"
    open_ones = [one for one in rest if _has_finding_for(one, TXN, ERROR, ANOMALY)]
    if open_ones:
        yield command("txn", _paths_of(report, open_ones))


def _path_of(one: PartitionReport) -> str:
    """The path by which a command names a log: that of a file which its folder leaves out, as its name is no segment's,
    else the folder's."""
    return next((file.path for file in one.files if not names.is_segment(os.path.basename(file.path))), one.path)


def _paths_of(report: ReportData, logs: Sequence[PartitionReport]) -> list[str]:
    """The paths by which a command names some logs: the verified folder, if several of them are in it."""
    paths, folder = [_path_of(one) for one in logs], report.path.rstrip("/")
    is_around = len(paths) > 1 and all(os.path.dirname(path.rstrip("/")) == folder for path in paths)
    return [report.path] if is_around else paths


def _reindex_command(report: ReportData, logs: Sequence[PartitionReport], output: str) -> str:
    """The command for some logs, of replicas for one: each has its folder in the output by its name."""
    by_name = {one.name: one for one in logs}
    return command("reindex", _paths_of(report, [*by_name.values()]), ("-o", f"{output}-indexes"))


def _first_of(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _for_files_left_out(report: ReportData, inputs: Sequence[str]) -> Iterator[str]:
    """The commands for files with batches outside of the logs: salvage if a log lacks their offsets; else verify,
    unless nothing is wrong with the logs."""
    left_out = {str(one.file): one.offset or 0 for one in report.findings if one.kind == "batches_left_out"}
    rest = [*left_out]
    for one in report.partitions if left_out else ():
        folder, files = one.path.rstrip("/"), []
        for path, base in left_out.items():
            is_own = os.path.dirname(path) == folder  # of any other its first offset tells
            if any(first == base or (is_own and first <= base <= last) for first, last in one.missing):
                files.append(path)
        if files and one.topic and one.partition is not None:
            place = ("--topic", one.topic), ("--partition", one.partition)
            output = suggested_output(f"rescued-{one.name}", inputs)
            yield command("salvage", [one.path, *files], *place, ("-o", output))
            yield f"({one.name} lacks the offsets from {', '.join(str(left_out[path]) for path in files)} on)"
            rest = [path for path in rest if path not in files]
    if not report.files:  # folders of deleted partitions
        rest += [one.file for one in report.findings if one.kind == "file_left_out" and one.file]
    if rest and (report.state in ("damaged", ERROR) or not report.files):
        yield command("verify", rest[:_MOST_FILES])
        if len(rest) > _MOST_FILES:
            yield f"(and {len(rest) - _MOST_FILES} more files)"


def _needs_salvage(one: PartitionReport) -> bool:
    """Whether a log is damaged or was longer, header fields or names of segments are wrong, files of other names may
    have offsets that it lacks, or a side file that disagrees may be all that is left of a gap, such as the entries of
    ABORT markers, which `reindex` would forget."""
    kinds = {found.kind for found in one.findings}
    in_other_file = {"segment_gap", "other_log_file"} <= kinds
    in_side_file = bool(one.missing) and _has_finding_for(one, REINDEX, ERROR)
    return one.state == "damaged" or in_other_file or in_side_file or _has_finding_for(one, SALVAGE, ERROR)


def _has_finding_for(one: PartitionReport, step: str, *severities: str) -> bool:
    """Whether there is a finding of these severities that this command repairs. Reindex does not write all side
    files."""
    return any(
        KINDS[found.kind].step == step
        and (KINDS[found.kind].subject != INDEX_FILE or str(found.file).endswith(_REBUILT_BY_REINDEX))
        for found in one.findings
        if found.severity in severities
    )
