"""The commands to run next, for the findings of a report."""

from __future__ import annotations

import os
from collections.abc import Callable

from kafkarec.damage import is_unchecked
from kafkarec.sidecars import leader_epochs
from kafkarec.sources import remote
from kafkarec.sources.read_failures import REMEDIES
from kafkarec.storage.output_rules import STANDARD_INPUT, suggested_output
from kafkarec.support.command_line import command

from .finding_kinds import ANOMALY, ERROR, INDEX_FILE, KINDS, REINDEX, REPLICA, SALVAGE, TXN
from .report_data import PartitionReport, ReportData

_MAX_COMMANDS = 3
_REBUILT_BY_REINDEX = ("index", ".snapshot", leader_epochs.NAME)


def next_steps(report: ReportData) -> list[str]:
    """The commands, the most urgent first, a few of each kind, each alone in its line. Remarks on the command before
    are in parentheses."""
    causes = set(report.unread.values())
    remedies = [f"({remedy})" for cause, remedy in REMEDIES.items() if cause in causes]
    if STANDARD_INPUT in {report.path, *(one.path for one in report.partitions)}:
        fine = report.state == "ok"
        return remedies + ([] if fine else ["(save the input to a file: the commands of a repair need one)"])
    return remedies + _Commands(report).steps(bool(remedies))


class _Commands:
    """The commands for a report whose inputs can be read again."""

    def __init__(self, report: ReportData) -> None:
        self._report = report
        # the verified path, or those of the logs if several paths were verified together
        single = remote.is_url(report.path) or os.path.exists(report.path)
        self._inputs = [report.path] if single else [one.path for one in report.partitions]
        self._folder: str | None = None
        self._targets: dict[str, str] = {}  # name of an output -> path of its log
        self._by_name: dict[str, list[PartitionReport]] = {}
        for one in sorted(report.partitions, key=lambda one: one.path):
            self._by_name.setdefault(one.name, []).append(one)

    def steps(self, has_remedies: bool) -> list[str]:
        report, steps = self._report, list[str]()
        if any(one.reason == "limit_exceeded" for one in report.damage):
            steps.append(command("verify", self._inputs, ("--max-decompressed-bytes", "1g")))
            steps.append("(payloads above the limit were not read)")
        damaged, empty, rest = list[PartitionReport](), list[PartitionReport](), list[PartitionReport]()
        for one in report.partitions:
            replicas = self._replicas(one)
            differ = len(replicas) > 1 and any(
                _needs_salvage(each) or _has_finding_for(each, REPLICA, ERROR) for each in replicas
            )
            if not (_needs_salvage(one) or differ):
                rest.append(one)
            else:
                (damaged if any(each.total("batches") for each in replicas) else empty).append(one)
        steps += self._salvage_commands(damaged)
        gone = [one.name for one in empty]
        gone += [os.path.basename(str(one.file)) for one in report.own_findings if one.kind == "folder_lost"]
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            steps.append(f"({gone[0]}{more}: no batch is left to save; look for a backup or a replica)")
        steps += self._for_files_left_out(alone=not damaged)
        reindexed_by_salvage = self._is_whole_folder(damaged)  # all partitions are copied, with new indexes
        steps += _lines_for_each(
            [] if reindexed_by_salvage else [one for one in rest if _has_finding_for(one, REINDEX, ERROR)],
            self._reindex_command,
        )
        compared = [one for one in rest if _has_finding_for(one, REPLICA, ERROR)]
        if compared:
            where = compared[0].name + (f" and {len(compared) - 1} more" if len(compared) > 1 else "")
            steps.append(f"({where}: salvage takes what is missing from a replica, if both folders are named)")
        steps += _lines_for_each(
            [one for one in rest if _has_finding_for(one, TXN, ERROR, ANOMALY)],
            lambda one: command("txn", [one.path]),
        )
        return steps if steps or has_remedies else self._for_anomalies()

    def _salvage_commands(self, damaged: list[PartitionReport]) -> list[str]:
        """The salvage commands: one for all partitions if they are in one data folder."""
        if self._is_whole_folder(damaged):
            what = "damaged" if all(one.places for one in damaged) else "damaged or incomplete"
            remark = f"({len(damaged)} partitions are {what}; the others are copied unchanged)"
            return [command("salvage", [self._report.path], ("-o", self._output_folder())), remark]
        by_name: dict[str, PartitionReport] = {}
        for one in damaged:
            by_name.setdefault(one.name, one)
        alone = len(by_name) == 1
        return _lines_for_each(
            list(by_name.values()),
            lambda one: command(
                "salvage", [each.path for each in self._replicas(one)], ("-o", self._output_path(one, alone))
            ),
        )

    def _replicas(self, one: PartitionReport) -> list[PartitionReport]:
        """The logs of the same partition, in the order of their paths; only this one if its topic is not known."""
        return [one] if one.topic is None else self._by_name[one.name]

    def _is_whole_folder(self, damaged: list[PartitionReport]) -> bool:
        """Whether several partitions of one data folder are damaged: the whole folder is salvaged then."""
        folder = self._report.path.rstrip("/")
        return len(damaged) > 1 and all(os.path.dirname(one.path.rstrip("/")) == folder for one in damaged)

    def _for_files_left_out(self, alone: bool) -> list[str]:
        """The commands for files with batches outside of the logs: salvage if a log lacks their offsets; else verify,
        unless nothing is wrong with the logs. alone: there is no other salvage command."""
        report = self._report
        left_out = [(str(one.file), one.offset) for one in report.findings if one.kind == "batches_left_out"]
        wanted = dict[str, tuple[PartitionReport, list[tuple[str, int | None]]]]()
        for path, base in left_out:
            for one in report.partitions:
                is_own = os.path.dirname(path) == one.path.rstrip("/")  # of any other its first offset tells
                fits = any(first == base or (is_own and first <= (base or 0) <= last) for first, last in one.missing)
                if one.topic and one.partition is not None and fits:
                    wanted.setdefault(one.path, (one, []))[1].append((path, base))
        alone = alone and len(wanted) == 1
        steps = list[str]()
        for one, files in list(wanted.values())[:_MAX_COMMANDS]:
            paths, bases = [path for path, _ in files], [str(base) for _, base in files]
            place = ("--topic", one.topic), ("--partition", one.partition)
            steps.append(command("salvage", [one.path, *paths], *place, ("-o", self._output_path(one, alone))))
            where = "offset {}, where the file begins" if len(files) == 1 else "offsets {}, where the files begin"
            steps.append(f"({one.name} lacks {where.format(', '.join(bases))})")
        included = {path for _, files in wanted.values() for path, _ in files}
        rest = [path for path, _ in left_out if path not in included]
        if not report.files:  # folders of deleted partitions
            rest += [one.file for one in report.findings if one.kind == "file_left_out" and one.file]
        if rest and (report.state in ("damaged", ERROR) or not report.files):
            steps.append(command("verify", rest[:_MAX_COMMANDS]))
            steps += [f"(and {len(rest) - _MAX_COMMANDS} more files)"] if len(rest) > _MAX_COMMANDS else []
        return steps

    def _for_anomalies(self) -> list[str]:
        """The commands if nothing must be repaired: reindex for an index, else explain for the first anomaly."""
        slow = [one for one in self._report.partitions if _has_finding_for(one, REINDEX, ANOMALY)]
        if slow:
            return _lines_for_each(slow, self._reindex_command)
        for one in self._report.findings:
            if one.severity == ANOMALY and one.file and one.position is not None:
                return [command("explain", [one.file], ("--at", one.position)), f"({one.kind})"]
        return []

    def _reindex_command(self, one: PartitionReport) -> str:
        return command("reindex", [one.path], ("-o", self._output_path(one)))

    def _output_folder(self) -> str:
        """The folder of all outputs."""
        if self._folder is None:
            self._folder = suggested_output("rescued", self._inputs)
        return self._folder

    def _output_path(self, one: PartitionReport, alone: bool = False) -> str:
        """The output of a command. alone: the only salvage, which makes a folder for the partition in its output;
        several of them cannot share one."""
        if alone:
            return self._output_folder()
        name = os.path.basename(os.path.abspath(one.path) if one.topic is None else one.name) or "log"
        while self._targets.setdefault(name, one.path) != one.path:
            name += "-copy"
        return os.path.join(self._output_folder(), name)


def _needs_salvage(one: PartitionReport) -> bool:
    """Whether a log is damaged or was longer, header fields or names of segments are wrong, files of other names may
    have offsets that it lacks, or a side file that disagrees may be all that is left of a gap, such as the entries of
    ABORT markers, which `reindex` would forget."""
    kinds = {found.kind for found in one.findings}
    in_other_file = {"segment_gap", "other_log_file"} <= kinds
    in_side_file = bool(one.missing) and _has_finding_for(one, REINDEX, ERROR)
    damaged = any(not is_unchecked(each.reason) for each in one.damage)
    return damaged or one.damage_left_out > 0 or in_other_file or in_side_file or _has_finding_for(one, SALVAGE, ERROR)


def _has_finding_for(one: PartitionReport, step: str, *severities: str) -> bool:
    """Whether there is a finding of these severities that this command repairs. Reindex does not write all side
    files."""
    return any(
        KINDS[found.kind].step == step
        and (KINDS[found.kind].subject != INDEX_FILE or str(found.file).endswith(_REBUILT_BY_REINDEX))
        for found in one.findings
        if found.severity in severities
    )


def _lines_for_each(partitions: list[PartitionReport], line: Callable[[PartitionReport], str]) -> list[str]:
    lines = [line(one) for one in partitions[:_MAX_COMMANDS]]
    if len(partitions) > _MAX_COMMANDS:
        lines.append(f"(and the same for {len(partitions) - _MAX_COMMANDS} more partitions)")
    return lines
