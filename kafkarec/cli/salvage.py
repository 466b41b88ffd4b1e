"""`kafkarec salvage`: copies every good batch to a new log and reports the rest."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence

from kafkarec.errors import KafkaRecordError
from kafkarec.ops.salvage import NotEnoughSpace, SalvageReport, salvage
from kafkarec.ops.salvage.plan_writing import DamagedCopy
from kafkarec.ops.salvage.planned_changes import UNDECIDED_AS
from kafkarec.ops.salvage.salvage_report import document
from kafkarec.ops.salvage.unfinished_run import UNFINISHED
from kafkarec.storage.output_rules import STANDARD_INPUT

from . import input_logs, output_files, progress, shared_options
from .input_logs import standard_input_segment
from .shared_options import FOLDER, CouldNot, InputPath, WrongUse, add_option, output_path_parser

DESCRIPTION = """Copies every good batch of a damaged log to a new one, byte for byte, with new indexes, and reports
what is lost. Reads any file (a disk image, lost+found/#12345, - for standard input), partition folders and data
folders; several sources of one partition are merged. Nothing is written to a source. A run that was killed
continues when the same command is run again."""
EXAMPLES = """examples:
  kafkarec salvage /mnt/dead/orders-0 -o rescued              one partition
  kafkarec salvage /mnt/dead -o rescued --dry-run             a whole broker: what could be saved?
  kafkarec salvage a/orders-0 b/orders-0 -o new --as-partition     two replicas into a folder that a broker can start on
  kafkarec salvage 'lost+found/#12345' -o rescued --topic orders --partition 0

exit status: 0 everything is saved, 1 something is damaged, set aside, or missing by what files beside the log say (the
rest is saved), 2 wrong usage, 3 failed, or a file could not be read (the rest is saved)"""

_ON_ANOTHER_DISK = "; salvage to a folder on another disk (on this one, the same command writes this partition again)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(parser, "a file, a partition folder, a data folder, or -")
    add_option(parser, "-o DIR", "a new or empty folder", output_path_parser("-o", FOLDER), dest="output")
    shared_options.add_flags(
        parser,
        {
            "--dry-run": "read everything, write nothing, say what would be saved",
            "--as-partition": "write folders that a broker of the same cluster can start on, with epochs, snapshots, "
            "topic id",
            "--new-cluster": "write folders for another cluster: without producer ids, which mean other producers "
            "there, aborted data and markers; offsets and records stay",
            "--keep-end": "if snapshots, indexes or checkpoints show that the log was longer, it gets the same end, "
            "by a batch without records: a broker does not use these offsets again, and consumers reach the end",
            "--merge-different": "merge sources of one partition that have different topic ids, which is refused "
            "otherwise: the path named first is the log, the others fill what it lacks",
            "--no-repair": "a batch of which only length, magic, base offset or leader epoch is damaged is left out, "
            "as damage; otherwise it is written with the values that the checksum or its neighbours prove",
            "--read-once": "for a failing disk: copy batches while the sources are read, which takes their size twice "
            "for a while; otherwise it is done from the first read error on",
            "--ignore-space": "start even if the disk may become full",
        },
    )
    add_option(
        parser,
        f"--undecided {'|'.join(UNDECIDED_AS)}",
        (
            "what to do about a transaction whose marker is lost in damage, if nothing proves how it ended: write a "
            "marker, leave it open, or set its batches aside (default: abort)"
        ),
    )
    add_option(
        parser, "--use PATH", "also read this file, as .deleted or .cleaned", InputPath, action="append", default=[]
    )
    shared_options.add_threads(parser)
    shared_options.add_decompressed_limit(parser, "a batch that decompresses to more is set aside (default: 128m)")
    add_option(parser, "--format text|json", "default: text")


def run(args: argparse.Namespace) -> int:
    if args.output is None and not args.dry_run:
        raise WrongUse("no output: name a new or empty folder with -o DIR, or use --dry-run")
    if (args.topic is None) != (args.partition is None):
        raise WrongUse("--topic and --partition must be given together")
    out = args.output or os.path.join(tempfile.gettempdir(), "kafkarec-dry-run")
    if STANDARD_INPUT in args.paths and (resumption := _resumption(args.paths, out)):
        raise WrongUse(f"{out} contains an unfinished salvage; {resumption}")
    try:
        sources = [
            standard_input_segment(None, None, any_file=True) if path == STANDARD_INPUT else path for path in args.paths
        ]
        with progress.show_bytes_read(lambda: progress.bytes_in(args.paths)) as tick:
            report = salvage(
                sources,
                out,
                check_free_space=not args.ignore_space,
                restore=not args.no_repair,
                progress=tick,
                **shared_options.arguments_for(salvage, args),
            )
    except KafkaRecordError:
        raise
    except NotEnoughSpace as error:
        raise CouldNot(str(error)) from error
    except ValueError as error:  # Refused, or the name of a file without batches
        raise WrongUse(str(error)) from error
    except DamagedCopy as error:
        raise CouldNot(f"{input_logs.error_line(error, out)}{_ON_ANOTHER_DISK}") from error
    except OSError as error:
        line, then = input_logs.error_line(error, out), _resumption(args.paths, out)
        raise CouldNot(f"{line}; {then}" if then else line) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_resumption(args.paths, out) or "nothing is written") from None
    with output_files.standard_output() as sink:
        output_files.write_rendered(sink, args.format, document(report), map(SalvageReport.to_dict, [report]))
    return report.exit_status()


def _resumption(sources: Sequence[str], out: str) -> str:
    """Return what to do after a run that did not end; empty if it had not begun to write."""
    if not os.path.exists(os.path.join(out, UNFINISHED)):
        return ""
    if STANDARD_INPUT in sources:
        return "a run that reads standard input cannot continue: remove the output and begin again"
    return "what was copied so far is kept, and the same command continues from there"
