"""Whether this is the long run (`make fuzz`). A module of its own: `conftest` names two files here."""

import os

LONG = os.environ.get("KAFKAREC_LONG", "0") == "1"
