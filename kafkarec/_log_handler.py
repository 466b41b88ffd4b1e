"""Makes the logger and its handler at the import of the package, for a program that logs; for others, which need not
wait for the module, they are made when they are used."""

import sys

if "logging" in sys.modules:
    from .support import package_logger as package_logger
