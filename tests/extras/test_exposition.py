"""Prometheus's text format: one series once, labels as text, whole numbers whole."""

from __future__ import annotations

from stackproof.extras.exposition import Gauge, text


def test_a_series_stands_once_under_its_help() -> None:
    found = text(
        {"a": "What a is.", "b": "Nothing."},
        [Gauge("a", {"x": "1"}, 2.0), Gauge("a", {"x": "1"}, 3.0), Gauge("a", {"x": "2"}, 0.5)],
    )
    assert (
        found
        == '# HELP stackproof_a What a is.\n# TYPE stackproof_a gauge\nstackproof_a{x="1"} 2\nstackproof_a{x="2"} 0.5\n'
    )


def test_a_label_cannot_end_itself() -> None:
    assert 'x="a\\"\\\\ \\\\x0a"' in text({"a": ""}, [Gauge("a", {"x": 'a"\\ \n'}, 1)])
