"""`python -m kafkarec`: the same as the command `kafkarec`."""

import sys

from .cli import main

sys.exit(main())
