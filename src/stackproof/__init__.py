"""stackproof proves an accelerator stack: is it what it claims, does it compute right, how fast, and since when."""

import os
import sys

if sys.version_info < (3, 10):  # noqa: UP036 - an older one would end in a traceback of its own
    sys.stderr.write(
        "stackproof: needs Python 3.10 or newer, and {} is {}.{}; name a newer one, such as `python3.12 -m stackproof`\n".format(
            sys.executable, *sys.version_info[:2]
        )
    )
    raise SystemExit(2)

if sys.argv[:1] == ["-m"] and "-m stackproof" in " ".join(sys.orig_argv):
    if not getattr(sys.flags, "safe_path", False):  # `python -m` looks into the current folder first
        sys.path.append(sys.path.pop(0))
    # Nor is a json.py on PYTHONPATH taken for Python's own.
    _OWN = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib may be hidden
    sys.path.sort(key=lambda folder: "site-packages" in folder or not folder.startswith(_OWN))

from stackproof.base.places import DATA as DATA
from stackproof.base.places import ROOT as ROOT

__version__ = "0.1.0"
