"""The reads of a file: which bytes, in which order, and how short reads and failures are handled.

Each request to a remote store costs time. The lists here are literal: (position, length) of each request.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import builders
import pytest
import reading
from allocations import Preads
from fake_file import FakeFile, read

import kafkarec
from kafkarec import _core

pytestmark = pytest.mark.core


@dataclass
class Asked(FakeFile):
    """Records all requests, and returns at most `most` bytes at once."""

    most: int = 1 << 30
    asked: list[tuple[int, int]] = field(default_factory=list)

    def read_at(self, position, length):
        self.asked.append((position, length))
        return super().read_at(position, min(length, self.most))


def log_of(sizes):
    """Return one batch of exactly each size."""
    parts = [[builders.record_of_size(size - 61)] if size > 61 else [] for size in sizes]
    return b"".join(builders.batch(part, base_offset=offset) for offset, part in enumerate(parts))


def scanned(fake, start=0, stop=None):
    """Return the positions of the batches."""
    return [row["position"] for piece in reading.scan_pieces(fake, start, stop) for row in piece]


SIZES = [100, 100, 1000, 100, 96, 97, 5000, 96, 97, 61, 61, 5000, 61, 300]
"""After a header of 64 bytes that was read alone, the next is 32 bytes further, or 33."""
LOG = log_of(SIZES)
STARTS = [sum(SIZES[:n]) for n in range(len(SIZES))]


def test_headers_that_are_far_apart_are_read_alone():
    """If more than skip_bytes after the window; otherwise as a window of 64 bytes, 512, 4096, up to window_bytes."""
    for window, skip_bytes, start, asked in (
        (512, 32, 0, [(0, 512), (1200, 64), (1300, 64), (1396, 512), (6493, 64), (6589, 512), (11808, 61)]),
        (4096, 600, 0, [(0, 4096), (6493, 64), (6589, 512), (11808, 61)]),
        (4096, 32, 1200, [(1200, 4096), (6493, 64), (6589, 512), (11808, 61)]),
        (600, 32, 1493, [(1493, 600), (6493, 64), (6589, 512), (11808, 61)]),
        (300, 32, 1396, [(1396, 300), (6493, 64), (6589, 300), (11808, 61)]),
        (480, 32, 1396, [(1396, 480), (6493, 64), (6589, 480), (11808, 61)]),
        (540, 32, 1396, [(1396, 540), (6493, 64), (6589, 512), (11808, 61)]),
    ):
        fake = Asked(LOG, window, skip_bytes)
        assert scanned(fake, start, STARTS[-1]) == [at for at in STARTS[:-1] if at >= start]
        assert fake.asked == asked, (window, skip_bytes, start)


def test_headers_in_the_page_cache_are_read_alone_if_4_kib_apart(tmp_path):
    """Of a local file. After the first window of 1 MiB; where the page cache lacks them, in windows."""
    for number, (sizes, cached, preads, cached_calls) in enumerate(
        (
            ([9000] * 500, 64, 1, 500 - 117),
            ([9000] * 500, 0, 5, 4),
            ([9000] * 500, 63, 5, 4),
            ([4096] * 500, 64, 2, 0),
            ([4097] * 500, 64, 1, 500 - 256),
            ([9000] * 150 + [61], 64, 1, 151 - 117),  # the last window has 61 bytes
            ([9000] * 150 + [100] * 60, 64, 4, 151 - 117),  # and after it of 512, 4096, and the rest
        )
    ):
        path = tmp_path / f"{number}.log"
        path.write_bytes(log_of(sizes))
        with kafkarec.open(path) as segment, Preads(_core, cached=cached) as reads:
            assert segment.scan().column("size_in_bytes") == sizes
        assert (reads.calls // 2, reads.cached_calls) == (preads, cached_calls), number


# ---- holes


def write_sparse(path, *pieces):
    """Write bytes, and holes of so many bytes."""
    with path.open("wb") as file:
        for piece in pieces:
            if isinstance(piece, int):
                file.seek(piece, os.SEEK_CUR)
            else:
                file.write(piece)
        file.truncate()


def damage_and_tail(scanned):
    damage = [(one.position, one.length, one.reason) for one in scanned.damage]
    return damage, scanned.remaining, list(scanned.column("position"))


def test_a_hole_is_not_read(tmp_path):
    """Of a window of 1 MiB at its beginning it is known that they are zeros."""
    path = tmp_path / "0.log"
    batch, hole = LOG[:100], 64 << 30
    for pieces, expected in (
        ((batch, hole, batch), ([(100, hole, "size_too_small")], 0, [0, hole + 100])),
        ((hole, bytes(4096) + batch), ([(0, hole + 4096, "size_too_small")], 0, [hole + 4096])),
        ((batch, hole, b"\1"), ([(100, hole + 1, "size_too_small")], 0, [0])),
        ((batch, hole), ([], hole, [0])),
        ((hole,), ([], hole, [])),
    ):
        write_sparse(path, *pieces)
        with kafkarec.open(path) as segment, Preads(_core) as reads:
            assert damage_and_tail(segment.scan(errors="skip")) == expected
            assert segment.verify().files[0].remaining == expected[1]
        assert reads.calls // 2 < 16


def test_an_unreadable_byte_is_located_by_halving_from_either_end():
    """After a failure reads are page by page; of the page, the readable bytes before and after are kept."""
    for bad, most, reads, requested in ((range(700, 702), 1 << 30, 27, 23_875), (range(5000, 5001), 1500, 28, 30_743)):
        fake = Asked(LOG, 8192, 32, [bad], most=most)
        decoded = read(fake, errors="skip")
        hit = [n for n, at in enumerate(STARTS) if at < bad.stop and bad.start < at + SIZES[n]]
        assert [(damage.position, damage.length) for damage in decoded.damage] == [(STARTS[n], SIZES[n]) for n in hit]
        assert sum(length for _, length in fake.asked[:reads]) == requested
        assert fake.asked[reads:][:3] == [(11808, 61), (11869, 61), (8192, len(LOG) - 8192)]


@dataclass
class Refusing(Asked):
    """Raises an error that is no damage from byte `gone` on."""

    gone: int = 0
    refused: int = 0

    def is_damage(self, error):
        return False

    def read_at(self, position, length):
        if position + length > self.gone:
            self.refused += 1
            raise ConnectionResetError("the server went away")
        return super().read_at(position, length)


def test_a_reader_is_not_called_again_after_an_error():
    """Not in the search for the end of damage either, which reads at several places."""
    data = LOG[:3000] + b"\xff" * 700 + LOG
    for window in (64, 500, 4096):
        for gone in (0, 40, 1200, 1700, 3000, 3100, 3700, 4000, 5300):
            for errors in ("raise", "skip"):
                fake = Refusing(data if errors == "skip" else LOG, window, gone=gone)
                with pytest.raises(ConnectionResetError, match="went away"):
                    read(fake, errors=errors)
                assert fake.refused == 1
