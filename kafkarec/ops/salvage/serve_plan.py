"""The steps by which a broker serves salvaged partitions: numbered lines, to paste into a shell one after another.

The reader replaces the data folder in the first line; the others use it as $DATA. Each step sets a variable that the
next one demands. So after one that failed no other does anything, whether they are pasted or run as a script, and the
reader's shell stays open; the failed step, and those after it, can be pasted again.

What is likely to fail comes first, and touches nothing that the broker has: the folders are copied within the data
folder, and exchanged by renaming when all are there. The replaced ones are moved out of it, since a broker does not
start if it finds a folder there that is no partition.
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
_METADATA = "__cluster_metadata-0"  # with another node's, or another cluster's, a node loses its topics
_NAMED = 6  # more folders are found by a pattern


def lines(out: str, folders: Sequence[str], source_ids: Sequence[str]) -> Iterator[str]:
    """Yields the lines for the partition folders below `out`. source_ids: those that meta.properties must have"""
    served = [folder for folder in folders if folder != _METADATA]
    if len(served) < len(folders):
        yield (
            f"{_METADATA} is in no step: it is the state of one node of one cluster, and goes back only there, if no "
            "other controller has a copy"
        )
    if served:
        yield "to serve it from a broker: these lines, with its data folder instead of /var/lib/kafka"
    for number, step in enumerate(_steps(out, served, source_ids) if served else (), 1):
        yield f"  {number}. {step}"


def _steps(out: str, folders: Sequence[str], source_ids: Sequence[str]) -> Iterator[str]:
    # The characters of a topic need no quotes. A name may begin with a dash, so each is part of a path.
    each = f"for p in {' '.join(folders)}; do"
    if len(folders) > _NAMED:
        each = f'for p in "$NEW"/*-[0-9]*; do p="${{p##*/}}"; [ "$p" != {_METADATA} ] || continue;'
    names = " ".join(f'"$DATA/{name}"' for name in _OF_THE_DATA_FOLDER)
    yield (
        'DATA=/var/lib/kafka; OLD="${DATA%/}.replaced"; STAGE="${DATA%/}/rescued.tmp"; SAME= COPIED= MOVED=; '
        f"NEW={quoted(out)}"
    )
    yield _comparison(source_ids)
    yield "# raise the topic's retention.ms, as old records are deleted at once; then stop the broker"
    yield (
        f'({_demand("SAME", 2)}; mkdir -p "$STAGE" || exit; {each} cp -r "$NEW/$p" "$STAGE/" || exit; '
        '[ ! -e "$DATA/$p/partition.metadata" ] || cp -p "$DATA/$p/partition.metadata" "$STAGE/$p/" || exit; done; '
        'chown -R --reference="$DATA" "$STAGE") && COPIED=yes'
    )
    yield (
        f'({_demand("COPIED", 4)}; mkdir -p "$OLD" || exit; {each} [ -e "$STAGE/$p" ] || continue; '
        '[ ! -e "$DATA/$p" ] || mv "$DATA/$p" "$OLD/" || exit; mv "$STAGE/$p" "$DATA/" || exit; done; rmdir "$STAGE") '
        "&& MOVED=yes"
    )
    yield f'({_demand("MOVED", 5)}; rm -f {names}) && echo "done: start the broker"'
    yield "# start the broker"


def _demand(variable: str, step: int) -> str:
    """What ends a step if the one that sets the variable did not succeed."""
    return f'[ "${variable}" ] || {{ echo "STOP: step {step} failed" >&2; exit 1; }}'


def _comparison(source_ids: Sequence[str]) -> str:
    """The step that compares the target's meta.properties with the source's."""
    if not source_ids:
        return (
            'grep -E "^(cluster|node|broker|directory)[.]id=" "$DATA/meta.properties" && SAME=yes && echo "the source '
            'had no meta.properties: go on only if this is the broker that it is from"'
        )
    ids = " ".join(quoted(one) for one in source_ids)
    return (
        f'(for i in {ids}; do grep -qxF "$i" "$DATA/meta.properties" || {{ echo "STOP: $DATA/meta.properties has not '
        '$i as the source has: another cluster, or another broker or disk of it (then SAME=yes goes on)" >&2; '
        "exit 1; }; done) && SAME=yes"
    )
