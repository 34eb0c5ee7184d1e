"""stackproof proves an accelerator stack: is it what it claims, does it compute right, how fast, and since when."""

import sys
from pathlib import Path

__version__ = "0.1.0"

ROOT = Path(__file__).resolve().parents[2]
"""The checkout: `stacks/`, `suites/`, `fixtures/` and `results/` lie here."""

# fixtures/ is shared with suites and benchmarks and is imported from the checkout, last on the path so that it shadows nothing.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
