"""Every kind of finding is produced by verify, and each produced one has a row."""

import json
import re

import builders
import pytest
from fence import rows, scenarios
from plain_logs import batch, log
from verify_reports import verified

from kafkarec.ops.verify import KINDS

# Produced in test_losses, test_lost_parts, test_truncated_meanwhile, test_unreadable_files and, as all comparisons of
# side files, test_side_files. bytes_unaccounted would be a bug in kafkarec, on which verify_reports.assert_tiles fails.
ELSEWHERE = {
    "bytes_unaccounted",
    "changed_meanwhile",
    "folder_lost",
    "gaps_salvaged",
    "removed_meanwhile",
    "small_file_preallocated",
    "unreadable_folder",
}
# The segments of a log that has the kind: of those that the fence does not have, or in a larger form.
MADE = {
    "count_above_offsets": [[batch(0, last_offset_delta=1)]],
    "leader_epoch_negative": [[batch(0, epoch=-5)]],
    "record_attributes_unknown": [[builders.batch([builders.record(attributes=4)])]],
    "segment_overlap": [[batch(0), batch(5)], [batch(5)]],
}
FINDING = re.compile(r'"kind": "(\w+)", "severity": "(\w+)"')


@pytest.mark.parametrize("kind", MADE)
def test_produced(kind, tmp_path):
    report = verified(log(tmp_path / "orders-0", *MADE[kind]))
    found = [one for one in report.findings if one.kind == kind]
    assert found and {one.severity for one in found} <= set(KINDS[kind].severities)


def test_all_others_are_in_the_fence():
    """In calls that `make test` makes."""
    shown, found = rows.read(), dict[str, set[str]]()
    for name in scenarios.of_make_test():
        for kind, severity in FINDING.findall(json.dumps([row.value for row in shown[name]])):
            found.setdefault(kind, set()).add(severity)
    assert {kind for kind, severities in found.items() if not severities <= set(KINDS[kind].severities)} == set()
    rest = KINDS.keys() - found.keys() - MADE.keys()
    assert {kind for kind in rest if KINDS[kind].subject != "comparison"} == ELSEWHERE
