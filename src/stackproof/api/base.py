"""What needs nothing installed: refusals, files, text, processes, tables, statistics."""

from stackproof import __version__
from stackproof.base import advice, files, git, places, processes
from stackproof.base.errors import EnvironmentMismatchError, Refusal, StackUnavailableError, suggestion
from stackproof.base.files import write_atomically
from stackproof.base.git import GitMissingError
from stackproof.base.places import DATA, PACKAGE, RESULTS, ROOT
from stackproof.base.processes import HostLoad
from stackproof.base.statistics import (
    MAD_SIGMA,
    MEDIAN_ERROR,
    Z_95,
    Interval,
    median_interval,
    percent,
    robust_sigma,
    student_quantile,
)
from stackproof.base.text import RATES, counted, first_line, in_shell, matches, plain, rate, shown, tail
from stackproof.base.toml import OneOf, Table, Wrong
