"""Writes the snapshot of what users see, tests/fence/snapshot.xz, and its digests into CHANGELOG.md.

usage: write_fence.py [--show NAME]

--show NAME   prints the rows of the scenarios whose name begins so, as the snapshot has them
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from commands import ROOT

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--show", metavar="NAME")
    show = parser.parse_args().show
    from fence import rows, scenarios
    from fence.calls import Recorder

    before = rows.read() if rows.SNAPSHOT.exists() else {}
    if show is not None:
        chosen = [row for name, found in before.items() if name.startswith(show) for row in found]
        sys.stdout.write(rows.difference((), chosen))
        return 0
    found = []
    for name, run in scenarios.scenarios().items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            here = Recorder(name)
            run(here)
            os.chdir(ROOT)
        if name in before and (difference := rows.difference(before[name], here.rows)):
            sys.stdout.write(difference)
        found += here.rows
    rows.write(found)
    rows.record_digests()
    print(f"{len(found)} rows, {rows.SNAPSHOT.stat().st_size} bytes; {rows.digests()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
