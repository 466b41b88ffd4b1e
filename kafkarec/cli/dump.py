"""`kafkarec dump`: prints files as kafka-dump-log does, with its options."""

from __future__ import annotations

import argparse
import os
import sys

from kafkarec.errors import KafkaRecordError
from kafkarec.format.java_integers import INT_MAX
from kafkarec.ops import dump
from kafkarec.ops.dump import DumpOptions, decoders
from kafkarec.sources import remote
from kafkarec.sources.files import ByteSource
from kafkarec.sources.folders import LocalFolder, RemoteFolder
from kafkarec.storage import names
from kafkarec.storage.output_rules import STANDARD_INPUT
from kafkarec.storage.segment_file import open_file
from kafkarec.support import text_table
from kafkarec.support.command_line import command

from . import COULD_NOT, input_logs, output_files, progress, shared_options
from .output_files import Sink
from .problems import exit_status, higher_limit_option, remark, rerun_command, say
from .shared_options import InputPath, add_option

DESCRIPTION = """Prints logs, snapshots and indexes exactly as Kafka 4.3's kafka-dump-log does, and takes its options.
Nothing is written or changed (Kafka's tool truncates an .index that does not end with a whole entry)."""
EXAMPLES = """examples:
  kafkarec dump 00000000000000000000.log                     batches
  kafkarec dump --print-data-log 00000000000000000000.log    batches and records
  kafkarec dump --files a.log,a.index,a.timeindex --verify-index-only
  kafkarec dump --offsets-decoder __consumer_offsets-7       all segments of a folder

Exit status, as Kafka's: 0 when everything could be printed (damage may be in the text: isvalid: false, "invalid
bytes at the end"), 1 otherwise; 3 for what only kafkarec refuses: a limit, a missing library, an encoded object of
tiered storage. kafkarec verify exits 1 for any damage."""

FAILED = WRONG_USE = 1  # as Kafka's tool
_WITH_BATCHES = (".log", ".checkpoint")
_bytes = shared_options.number_parser(f"bytes from 0 to {INT_MAX}", most=INT_MAX)
_FLAGS = {
    "--print-data-log": "print the records' keys and values; any decoder option implies it",
    "--deep-iteration": "print the records without keys and values: offset, timestamp, sizes, ...",
    "--skip-record-metadata": "print only keys and values of the records",
    "--verify-index-only": "compare an index with its log and print only the differences",
    "--index-sanity-check": "only make the check of an index that a broker makes when it starts",
    "--offsets-decoder": "records of __consumer_offsets as JSON",
    "--transaction-log-decoder": "records of __transaction_state as JSON",
    "--cluster-metadata-decoder": "records of __cluster_metadata as JSON",
    "--remote-log-metadata-decoder": "records of __remote_log_metadata",
    "--share-group-state-decoder": "records of __share_group_state as JSON",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        type=InputPath,
        nargs="*",
        metavar="PATH",
        help="files to print (.log .checkpoint .index .timeindex .txnindex .snapshot), URLs of such files, folders "
        "(their logs in offset order), or - for a log on standard input",
    )
    add_option(
        parser, "--files A,B", "files to print, as an option of Kafka's tool", _split, action="append", default=[]
    )
    shared_options.add_flags(parser, _FLAGS)
    for which in ("key", "value"):
        add_option(
            parser,
            f"--{which}-decoder-class CLASS",
            "Kafka's StringDecoder (UTF-8, the default), IntegerDecoder or LongDecoder; others are not supported",
            nargs="?",
            const=decoders.STRING_CLASS,
        )
    add_option(
        parser, "--max-message-size BYTES", "size of the largest batch (default 5242880)", _bytes, default=5 << 20
    )
    add_option(parser, "--max-bytes BYTES", "read only this many bytes of a log", _bytes, default=INT_MAX)
    shared_options.add_decompressed_limit(parser)
    shared_options.add_output_file(parser)


def run(args: argparse.Namespace) -> int:
    paths = [path for files in args.files for path in files]
    for path in args.paths:
        found = []
        if path != STANDARD_INPUT and not remote.is_url(path) and os.path.isdir(path):
            input_logs.open_input(path)  # refuses the store of a plugin
            listed = os.listdir(path)
            copies = names.packed_copies(listed)
            found = sorted(name for name in listed if names.is_segment(name) and name not in copies)
        paths += [os.path.join(path, name) for name in found] or [path]
    if not paths:
        say("no files given: kafkarec dump PATH..., or --files A,B (see kafkarec dump --help)")
        return WRONG_USE
    flags = {flag for flag in decoders.FLAGS if getattr(args, flag[2:].replace("-", "_"))}
    try:
        decode = decoders.decoder_of_options(flags, args.key_decoder_class, args.value_decoder_class)
    except decoders.UnknownClass as error:
        say(str(error))
        return WRONG_USE
    options = DumpOptions(
        print_data=bool(args.print_data_log or args.key_decoder_class or args.value_decoder_class),
        decode=decode,
        **shared_options.arguments_for(DumpOptions, args),
    )
    with (
        output_files.opened(args) as sink,
        progress.show_bytes_read(lambda: progress.bytes_in(paths), progress.when_writing(args.output)) as tick,
    ):
        return _print(args, paths, options, sink, tick)


def _print(args: argparse.Namespace, paths: list[str], options: DumpOptions, sink: Sink, tick: progress.Tick) -> int:
    """Print all output up to what cannot be read; that error is printed in one line."""
    last = ""

    def open_source(path: str) -> ByteSource:
        nonlocal last
        last = path
        if path == STANDARD_INPUT:
            source: ByteSource = input_logs.standard_input_segment(None, None).source
            return source
        local = remote.local_path(path)
        if local is None:
            folder, _, name = path.rpartition("/")
            return open_file(RemoteFolder(folder, {}), name)
        folder, name = os.path.split(local)
        return open_file(LocalFolder(folder), name)

    def print_error(line: str) -> None:
        sink.flush()
        progress.erase()
        if sys.stderr is not None:
            print(_safe_lines(line), file=sys.stderr)  # of Kafka's, without kafkarec's name as prefix

    def note(text: str) -> None:
        sink.flush()
        remark(text)

    try:
        for text in dump.dump(paths, options, open_source, print_error, note, tick):
            if sink.is_terminal:
                sink.write(_safe_lines(text).encode("utf-8", "replace"))
            else:
                sink.write(text.encode("utf-8", "surrogateescape"))
    except KafkaRecordError as error:
        sink.flush()
        place = "" if error.file else f"{last}: "
        status = exit_status(error.reason)
        has_batches = names.unpacked_name(last).endswith(_WITH_BATCHES) or last == "-"
        if status == COULD_NOT:
            rest = ""
            if error.reason == "limit_exceeded" and has_batches:
                higher = higher_limit_option(options.max_decompressed_bytes)
                rest = f". With a higher limit: {rerun_command(args.argv, higher)}"
            say(f"{place}{error}{rest}")
            return status
        if has_batches:
            rest = command("scan", [last], ("--errors", "skip"))
        else:
            rest = command("verify", [os.path.dirname(last)])
        say(f"{place}{error}; Kafka's tool stops here, too. To read the rest: {rest}")
        return FAILED
    except OSError as error:
        sink.flush()
        hint = (
            ""
            if last in paths
            else "; to print an index, its folder must have its log, for a .timeindex also its .index"
        )
        say(input_logs.error_line(error, last) + hint)
        return FAILED
    return 0


def _safe_lines(text: str) -> str:
    return "\n".join(map(text_table.safe, text.split("\n")))


def _split(files: str) -> list[str]:
    """Split as Java's String.split does: empty strings at the end are dropped. Others are files that are ignored."""
    words = files.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return [InputPath(word) if word else word for word in words]
