"""The steps by which a broker serves salvaged partitions: numbered lines, each to paste into a shell.

The reader replaces the data folder in the first line; the others use it as $DATA. The replaced folders are moved out of
the data folder, since a broker does not start if it finds a folder there that is no partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkarec.support.command_line import quoted

_OF_THE_DATA_FOLDER = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)
# Topic -> files of the replaced folder that the new one gets, besides the topic's id.
_KEPT = {"__cluster_metadata": ("quorum-state",)}


_NAMED = 6  # more folders are found by a pattern


def lines(out: str, folders: Sequence[str]) -> Iterator[str]:
    """Yields the lines for the partition folders below `out`."""
    yield "to serve it from a broker: these lines, with its data folder instead of /var/lib/kafka"
    for number, step in enumerate(_steps(out, folders), 1):
        yield f"  {number}. {step}"


def _steps(out: str, folders: Sequence[str]) -> Iterator[str]:
    # The characters of a topic need no quotes. A name may begin with a dash, so each is part of a path.
    each = " ".join(folders) if len(folders) <= _NAMED else '$(cd "$NEW" && ls -d -- *-[0-9]*)'
    kept = " ".join(sorted({name for folder in folders for name in _kept(folder)}))
    names = " ".join(f'"$DATA/{name}"' for name in _OF_THE_DATA_FOLDER)
    yield f'DATA=/var/lib/kafka; OLD="${{DATA%/}}.replaced"; NEW={quoted(out)}'
    yield "# raise the topic's retention.ms, as old records are deleted at once; then stop the broker"
    yield f'mkdir -p "$OLD"; for p in {each}; do mv "$DATA/$p" "$OLD/"; cp -r "$NEW/$p" "$DATA/"; done'
    yield f'for p in {each}; do for f in {kept}; do [ -e "$OLD/$p/$f" ] && cp -p "$OLD/$p/$f" "$DATA/$p/"; done; done'
    yield f"rm -f {names}"
    yield f'for p in {each}; do chown -R --reference="$DATA" "$DATA/$p"; done'
    yield "# start the broker"


def _kept(folder: str) -> tuple[str, ...]:
    return ("partition.metadata", *_KEPT.get(folder.rpartition("-")[0], ()))
