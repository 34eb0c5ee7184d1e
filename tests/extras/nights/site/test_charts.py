"""Pictures whose text is text, and whose marks stand where their figures say."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from stackproof.base.statistics import strip_scale
from stackproof.extras.nights.site import charts
from stackproof.extras.nights.site.charts import el

HOSTILE = "<script>alert(1)</script> & \"'\x1b[31m\u202e"


def test_text_is_never_markup() -> None:
    drawn = el("text", HOSTILE, class_=HOSTILE)
    root = ET.fromstring(drawn)
    assert root.attrib["class"] == root.text and not list(root)
    assert "\x1b" not in drawn and "\u202e" not in drawn


def test_a_strip_stands_where_its_ratios_are() -> None:
    place = strip_scale(0.05, 100)
    assert (place(1.0), place(1.05**3), place(9.0), place(1e-9)) == (50, 100, 100, 0)
    drawn = str(charts.strip((0.98, 1.0, 1.02), [0.97, 1.03], 0.05, 100, 12))
    paths = dict(re.findall(r'd="([^"]*)" class="(\w+)"', drawn))
    assert set(paths.values()) == {"same", "reach", "dots", "mark"}
    assert f"M{place(0.98)} 6.0H{place(1.02)}" in paths and f"M{place(0.97)} 6.0h0M{place(1.03)} 6.0h0" in paths
    assert 'class="dots"' not in charts.strip((1.0, 1.0, 1.0), [], 0.05, 100, 12)


def test_paths_are_written_as_steps() -> None:
    assert charts.line([(0, 5), (2, 3), (1, 9), (4, 9)]) == "M0 5l2-2-1 6 3 0"
    assert charts.line([(3, 4)]) == "M3 4h0"
    assert charts.band([(0, 2), (5, 2)], [(0, 1), (5, 0)]) == "M0 2l5 0 0-2-5 1z"
    assert charts.ticks(0.0, 9.5) == [0, 5] and len(charts.ticks(1.0, 1.0)) == 1
