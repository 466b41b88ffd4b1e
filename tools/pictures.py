"""The pictures of the documentation, drawn from real data: SVG that is readable on a light and on a dark page.

| picture | drawn from |
|---|---|
| terminal.svg, damage.svg | what verify and salvage say of a file that is damaged here (`pictures_damage.py`) |
| batch.svg | the spans of `kafkarec.ops.explain` (`pictures_batch.py`) |
| growth.svg | benchmarks/GROWTH.md (`pictures_growth.py`); `python benchmarks/growth.py` draws it, too |
| speed.svg | benchmarks/RESULTS.md (`pictures_speed.py`); `make bench` draws it, too |

Each has its own background, so that it is readable on any page.
"""

from __future__ import annotations

import pictures_batch
import pictures_damage
import pictures_growth
import pictures_speed

PICTURES = {
    "terminal.svg": pictures_damage.terminal,
    "damage.svg": pictures_damage.damage,
    "batch.svg": pictures_batch.batch,
    "growth.svg": pictures_growth.growth,
    "speed.svg": pictures_speed.speed,
}
