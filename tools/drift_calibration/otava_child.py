"""Runs in Otava's environment: a series a line on stdin, the places of its change points as JSON a line on stdout."""

import json
import sys

from otava.analysis import compute_change_points


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        points, _ = compute_change_points(json.loads(line), window_len=50, max_pvalue=0.001, min_magnitude=0.0)
        print(json.dumps([int(point.index) for point in points]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
