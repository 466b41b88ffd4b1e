"""Pictures in reports; the fence has the text, the page and the JSON values of each report."""

import re

from kafkarec.report import BytesBar


def test_a_bar_of_many_parts_stays_small_and_each_bad_part_is_seen():
    parts = [(name, size) for _ in range(20_000) for name, size in (("good", 1000), ("damaged", 1))]
    drawn = BytesBar("", parts).svg()
    assert len(drawn) < 250_000
    marked = {int(at) for at in re.findall('class="damaged" x="([0-9]+)" width="3"', drawn)}
    assert marked == set(range(998)) and drawn.rindex('class="good"') < drawn.index('class="damaged"')
