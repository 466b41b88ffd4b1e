"""errors="skip" with damage at chosen places; at random ones see tests/unit/read/test_hurt_headers.py."""

import builders
import plain_logs
import pytest

import kafkarec

pytestmark = pytest.mark.core


def test_length_prefixed_batches_are_found():
    """An archive of [int32 length][batch]: damage between batches, which are no part of a value."""
    batches = plain_logs.batches(4)
    archive = b"".join(len(batch).to_bytes(4, "big") + batch for batch in batches)
    skipped = kafkarec.decode(archive, errors="skip")
    assert [record.offset for record in skipped] == list(range(12))
    assert [damage.length for damage in skipped.damage] == [4] * 4


GOOD_BATCH = plain_logs.batch(0, 3)
BETWEEN = {
    "garbage": b"garbage!!" * 3,
    "zeros": bytes(50),
    "a batch with a bad checksum": GOOD_BATCH[:-1] + b"\xff",
    "a too short length": builders.patched(GOOD_BATCH, 8, (40).to_bytes(4, "big")),
    "a too long length": builders.patched(GOOD_BATCH, 8, (300).to_bytes(4, "big")),
}


@pytest.mark.parametrize("kind", BETWEEN)
def test_batches_whose_offsets_restart_are_recovered(kind):
    """Archived producer batches all begin at offset 0: below the last good offset, but followed by another batch."""
    data = GOOD_BATCH * 2 + BETWEEN[kind] + GOOD_BATCH * 3
    skipped = kafkarec.decode(data, errors="skip", restore=False)
    assert [record.offset for record in skipped] == [0, 1, 2] * 5
    assert sum(damage.length for damage in skipped.damage) == len(BETWEEN[kind])
