"""Seconds are stored, rates are shown: asv takes every figure for one where lower is better, people do not."""

from __future__ import annotations

RATES = {
    "s/sample": "samples/s",
    "s/token": "tokens/s",
    "s/iteration": "it/s",
    "s/GB": "GB/s",
    "s/GB over a link": "GB/s busbw",
    "s/TFLOP": "TFLOP/s",
}
"""The rate that a stored unit is shown as; a unit that is not listed (plain seconds) is shown as it is."""

_PARTS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def rate(value: float, unit: str) -> tuple[float, str]:
    """Return the rate and its unit for stored seconds per unit of work; what has no rate comes back unchanged."""
    return (1 / value, RATES[unit]) if unit in RATES and value else (value, unit)


def shown(value: float, unit: str) -> str:
    """Return a figure as people read it: a rate where there is one, seconds in a fitting part of a second where not."""
    figure, word = rate(value, unit)
    if word == "s":
        factor, word = next((part for part in _PARTS if abs(figure) >= part[0]), _PARTS[-1])
        figure /= factor
    return f"{figure:,.2f} {word}" if abs(figure) >= 1 or not figure else f"{figure:.3g} {word}"
