"""The steps by which a broker serves salvaged partitions: numbered lines, to paste into a shell one after another.

The reader replaces the data folder and the broker's address in the first line; the others use them. Each step sets a
variable that the next one demands. So after one that failed no other does anything, whether they are pasted or run as a
script, and the reader's shell stays open; the failed step, and those after it, can be pasted again.

What is likely to fail comes first, and touches nothing that the broker has: the folders are copied within the data
folder, and exchanged by renaming when all are there. The replaced ones are moved out of it, since a broker does not
start if it finds a folder there that is no partition. Of its checkpoint files only the lines about the old logs are
removed, and the log start stays: what is below it was deleted on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafkarec.internal_topics.cluster_topics import CLUSTER_METADATA
from kafkarec.storage.names import ALWAYS_COMPACTED
from kafkarec.support.command_line import quoted

_NOT_SERVED = {
    CLUSTER_METADATA: "it is the state of one node of one cluster, and goes back only there, if no other controller "
    "has a copy"
}
_NOT_IN_ANOTHER_CLUSTER = {"__transaction_state": "its producer ids and epochs are those of the old cluster"}
_NAMED = 6  # more folders are found by a pattern
_WITHOUT_OLD_LINES = (
    'BEGIN { split(names, each, " "); for (i in each) old[each[i]] } NR < 3 { head[NR] = $0; next } '
    '!($1 "-" $2 in old) { kept[++n] = $0 } END { print head[1]; print n + 0; for (i = 1; i <= n; i++) print kept[i] }'
)
_DONE = ("SAME", "KEPT", "STOPPED", "COPIED", "MOVED")
"""The variables that say that a step succeeded, in their order."""


def lines(out: str, folders: Sequence[str], source_ids: Sequence[str], new_cluster: bool) -> Iterator[str]:
    """Yields the lines for the partition folders below `out`.

    source_ids    those that meta.properties must have
    new_cluster   the folders are for another cluster
    """
    left_out = _NOT_SERVED | (_NOT_IN_ANOTHER_CLUSTER if new_cluster else {})
    served = [folder for folder in folders if _topic_of_folder(folder) not in left_out]
    for topic in sorted({_topic_of_folder(folder) for folder in folders} & left_out.keys()):
        yield f"{topic} is in no step: {left_out[topic]}"
    if not served:
        return
    if new_cluster:
        yield "to serve it from another cluster: create its topics there, with as many partitions, and on each broker"
        yield "that has a replica these lines, with its data folder and address. Stop all of them before one is started"
    else:
        yield "to serve it from a broker of the same cluster: these lines, with its data folder and address. If"
        yield "kafka-topics.sh --describe shows that another replica leads, the broker fetches all from that one, and"
        yield "needs none of this. Otherwise do it on each broker that has a replica, all of them stopped before one is"
        yield "started: an empty replica that leads makes the others delete what they have"
    each = f"for p in {' '.join(served)}; do"  # the characters of a topic need no quotes
    if len(served) > _NAMED:
        others = "|".join(f"{topic}-*" for topic in left_out)
        each = f'for p in "$NEW"/*-[0-9]*; do p="${{p##*/}}"; case "$p" in {others}) continue;; esac;'
    for number, step in enumerate(_steps(out, each, served, source_ids, new_cluster), 1):
        yield f"  {number}. {step}"


def _topic_of_folder(folder: str) -> str:
    return folder.rpartition("-")[0]


def _steps(out: str, each: str, folders: Sequence[str], source_ids: Sequence[str], new_cluster: bool) -> Iterator[str]:
    """A name may begin with a dash, so each is part of a path, or the value of an option."""
    yield (
        'DATA=/var/lib/kafka; SERVER=localhost:9092; OLD="${DATA%/}.replaced"; STAGE="${DATA%/}/rescued.tmp"; '
        f"{' '.join(f'{name}=' for name in _DONE)}; NEW={quoted(out)}"
    )
    if new_cluster or not source_ids:  # shows the target's ids, as there are none to compare them with
        what = "this is a broker of the new cluster" if new_cluster else "this is the broker that it is from"
        why = "" if new_cluster else "the source had no meta.properties: "
        yield (
            '(grep -E "^(cluster|node|broker|directory)[.]id=" "$DATA/meta.properties" && '
            f'echo "{why}go on only if {what}") && SAME=yes'
        )
    else:
        ids = " ".join(quoted(one) for one in source_ids)
        stop = _shell_stop(
            "$DATA/meta.properties has not $i as the source has: another cluster (then salvage with --new-cluster), or "
            "another broker or disk (if it has a replica of each of these partitions, SAME=yes goes on)"
        )
        yield f'(for i in {ids}; do grep -qxF "$i" "$DATA/meta.properties" || {stop}; done) && SAME=yes'
    configs = 'kafka-configs.sh --bootstrap-server "$SERVER" --entity-type topics --entity-name="$t"'
    keeps = f"{configs} --alter --add-config retention.ms=-1,retention.bytes=-1"
    topics = sorted({_topic_of_folder(folder) for folder in folders} - {*ALWAYS_COMPACTED})
    of_each_topic = f"for t in {' '.join(topics)}; do"
    if len(folders) > _NAMED:
        of_each_topic = f'for t in $({each} echo "${{p%-*}}"; done | sort -u); do'
    stop = _shell_stop(
        "retention deletes old records within a minute after the start. If no broker answers, as this is the only "
        "one: log.retention.ms=-1 in its server.properties (the retention of a topic itself counts nevertheless), "
        "then KEPT=yes goes on"
    )
    yield _step("KEPT", 2, f"{of_each_topic} {configs} --describe && {keeps} || {stop}; done")
    yield "# stop the broker"
    runs = 'awk -v i="$i" \'$6 ~ (":" i "$") { found = 1 } END { exit found }\' /proc/locks'
    held = f'[ ! -e "$DATA/.lock" ] || {{ i="$(stat -c %i "$DATA/.lock")" && {runs}; }}'
    yield _step("STOPPED", 3, f"{held} || {_shell_stop('a broker is running on $DATA')}")
    missing = _shell_stop("$DATA/$p does not exist: create the topic first, or name the data folder that has it")
    exists = f'[ -e "$DATA/$p" ] || {missing}; ' if new_cluster else ""
    yield _step(
        "COPIED",
        5,
        f'mkdir -p "$STAGE" || exit; {each} {exists}cp -r "$NEW/$p" "$STAGE/" || exit; '
        '[ ! -e "$DATA/$p/partition.metadata" ] || cp -p "$DATA/$p/partition.metadata" "$STAGE/$p/" || exit; done; '
        'chown -R --reference="$DATA" "$STAGE"',
    )
    yield _step(
        "MOVED",
        6,
        f'mkdir -p "$OLD" || exit; {each} [ -e "$STAGE/$p" ] || continue; '
        '[ ! -e "$DATA/$p" ] || mv "$DATA/$p" "$OLD/" || exit; mv "$STAGE/$p" "$DATA/" || exit; done; rmdir "$STAGE"',
    )
    edited = (
        f'{_shell_demand("MOVED", 7)}; names=; {each} names="$names $p"; done; '
        "for f in recovery-point-offset-checkpoint replication-offset-checkpoint; do "
        '[ -e "$DATA/$f" ] || continue; cp -p --backup=numbered "$DATA/$f" "$OLD/" && cp -p "$DATA/$f" "$DATA/$f.tmp" '
        f'&& awk -v names="$names" \'{_WITHOUT_OLD_LINES}\' "$OLD/$f" > "$DATA/$f.tmp" || exit; '
        'diff "$OLD/$f" "$DATA/$f.tmp"; mv "$DATA/$f.tmp" "$DATA/$f" || exit; done; rm -f "$DATA/.kafka_cleanshutdown"'
    )
    yield f'({edited}) && echo "done: start the broker"'
    yield "# start the broker; later give the topics the retention that step 3 printed"


def _step(sets: str, before: int, line: str) -> str:
    """A step that demands what an earlier one sets. before: the number of that one"""
    done = _DONE[_DONE.index(sets) - 1]
    return f"({_shell_demand(done, before)}; {line}) && {sets}=yes"


def _shell_demand(variable: str, step: int) -> str:
    """What ends a step if the one that sets the variable did not succeed."""
    return f'[ "${variable}" ] || {_shell_stop(f"step {step} failed")}'


def _shell_stop(why: str) -> str:
    return f'{{ echo "STOP: {why}" >&2; exit 1; }}'
