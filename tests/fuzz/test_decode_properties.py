"""Random batches and logs of every magic and codec, good, odd and damaged: the C core reads what the oracle reads."""

import pyarrow as pa
import pytest
import reading
from builders import NOW
from core_reading import assert_agree, with_right_checksums
from long_run import seeds
from random_logs import Maker

import kafkarec

pytestmark = pytest.mark.core


def random_input(seed):
    """A batch with any times and attributes, and a log behind it."""
    maker = Maker(seed)
    times = {name: maker.some(NOW, -1, 0, bits=64) for name in ("base_timestamp", "max_timestamp")}
    batch = maker.batch(maker.some(0, 7, bits=64), attributes=maker.some(0, 8, 0x10, 0x20, 0x48) & ~7, **times)
    return maker, batch + maker.log()


def test_all_is_read_or_refused_as_by_the_oracle():
    """Also with bytes changed under a right checksum."""
    for seed in seeds(1500, 250):
        maker, data = random_input(seed)
        assert_agree(data)
        assert_agree(with_right_checksums(maker.damaged(data)), deep=False)


def test_a_projection_is_a_subset_of_all_columns():
    for seed in seeds(1500, 250):
        maker, data = random_input(seed)
        names = maker.random.sample(reading.RECORD_FIELDS, 4)
        try:
            everything = pa.table(kafkarec.decode(data, columns=reading.RECORD_FIELDS, timestamp_unit="int64"))
        except kafkarec.KafkaRecordError:
            # A projection may skip work, but it may not accept more input.
            with pytest.raises(kafkarec.KafkaRecordError):
                kafkarec.decode(data, columns=names)
        else:
            columns = pa.table(kafkarec.decode(data, columns=names, timestamp_unit="int64"))
            assert columns.equals(everything.select(names))
