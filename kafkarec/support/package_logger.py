"""The package's logger. It writes nothing until an application adds a handler."""

from __future__ import annotations

import logging

logger = logging.getLogger("kafkarec")
logger.addHandler(logging.NullHandler())
