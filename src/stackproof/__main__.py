"""`python -m stackproof VERB`."""

from __future__ import annotations

import sys

from stackproof.cli import main

sys.exit(main())
