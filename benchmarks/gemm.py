"""Products of square matrices, by dtype: seconds for 1e12 floating-point operations, shown as TFLOP/s.

What bounds it is arithmetic: it is the ceiling that the share of every other figure is told against. A product is verified against
float64 before it is timed. One library, one driver and one clock give one figure; if it moves and the code did not, look at the
driver, the clocks and the kernel that the library chose.
"""

from __future__ import annotations

from stackproof.history import leaf

globals().update(leaf.benchmarks("gemm"))
