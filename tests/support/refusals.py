"""Calls that must be refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import kafkarec
from kafkarec.errors import REASONS


def refused(call: Callable[..., object], *given, **options) -> kafkarec.KafkaRecordError:
    """The error of a refused call, which has the class of its reason."""
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        call(*given, **options)
    assert type(caught.value) is REASONS[caught.value.reason].error
    return caught.value
