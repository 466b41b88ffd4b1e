"""`kafkarec verify`: reports damage, its position, what is lost, and what to do."""

from __future__ import annotations

import argparse
import os

from kafkarec.logs import Log, LogDir, Segment, logs_of
from kafkarec.ops import verify
from kafkarec.ops.verify.report import document
from kafkarec.sources.folders import LocalFolder
from kafkarec.sources.remote import is_url
from kafkarec.storage.log_folders import LeftOut
from kafkarec.storage.output_rules import STANDARD_INPUT

from . import COULD_NOT, input_logs, output_files, progress, shared_options

DESCRIPTION = """Reads every byte of segments, partition folders or a broker's whole data folder: checksums, structure,
decompression, offsets, indexes, leader epochs, and errors that Kafka ignores. Reports what is damaged, which offsets
are lost, and the next command to run. Nothing is written or changed."""
EXAMPLES = """examples:
  kafkarec verify /kafka-logs                        one line per partition, the worst first
  kafkarec verify /kafka-logs/orders-0 --sequences   also duplicates and gaps in producers' sequences
  kafkarec verify /kafka-logs --html damage.html     a page with a map of each file
  kafkarec verify /kafka-logs --format json | jq '.partitions[] | select(.state != "ok") | .path'

Exit status: 0 fine, 1 damage or an error found (--strict: or an anomaly), 2 wrong usage, 3 failed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared_options.add_inputs(
        parser,
        "segments (.log, .checkpoint, any file of batches), partition folders, a broker's data folder, URLs, "
        "or - for standard input",
    )
    flags = {
        "--sequences": "check producers' sequences, and explain each offset gap",
        "--strict": "exit with status 1 for anomalies, too",
        "--all": "print everything, not only one screen",
    }
    shared_options.add_flags(parser, flags)
    shared_options.add_page(parser, "an HTML page with a map of each file")
    shared_options.add_threads(parser)
    shared_options.add_decompressed_limit(parser, "limit of the decompressed size of one payload (default 128m)")
    shared_options.add_format_and_output(parser)


def run(args: argparse.Namespace) -> int:
    paths = args.paths
    opened: Segment | Log | LogDir
    if len(paths) > 1 or paths == [STANDARD_INPUT]:
        left_out = list[LeftOut]()
        logs = input_logs.find(args, any_file=True, left_out=left_out)
        folders = [*map(LocalFolder, filter(os.path.isdir, paths))]
        is_one = len(logs) == 1 and not left_out
        opened = logs[0] if is_one else LogDir(", ".join(paths), logs, left_out, folders=folders)
    else:  # as a whole, as a data folder also has checkpoint files
        opened = input_logs.open_input(paths[0], args.topic, args.partition, any_file=True)
    segments = (segment for log in logs_of(opened) for segment in log.segments)
    with progress.show_segments_read(segments) as tick:
        report = verify.verify(
            opened,
            sequences=args.sequences,
            max_decompressed_bytes=args.max_decompressed_bytes,
            threads=args.threads if any(map(is_url, paths)) else shared_options.threads(args),
            progress=(lambda path, end, size: tick(path, end)) if progress.is_stderr_terminal() else None,
        )
    output_files.write_report(
        args,
        document(report, args.all),
        map(verify.Report.to_dict, [report]),
        indent=2,
        page=document(report, page=True) if args.html else None,
    )
    return report.exit_status(args.strict) if report.files or not report.ok else COULD_NOT
