"""The log of this package in workers: standard error, which is the executor's log."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("spark_udfs")


def log_to_stderr() -> None:
    """Logs to standard error, which is the executor's log, unless logging is configured; in workers it is not."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
