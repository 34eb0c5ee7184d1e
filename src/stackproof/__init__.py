"""stackproof proves an accelerator stack: is it what it claims, does it compute right, how fast, and since when."""

import sys
from pathlib import Path

__version__ = "0.1.0"

DATA = Path(__file__).resolve().parent / "data"
"""Tables that the product reads at run time; they ship with the package."""

ROOT = Path(__file__).resolve().parents[2]
"""The checkout: `stacks/`, `suites/`, `fixtures/` and `results/` lie here."""

# suites/ and benchmarks/ are imported from the checkout, last on the path so that they shadow nothing.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
