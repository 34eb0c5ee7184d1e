"""What may be concluded from launches in turn; needs scipy."""

from stackproof.gate.cells import BASE, HEAD, TIME, Results, counters_of
from stackproof.gate.gate import Comparison, launch_until_decided, match_subjects, require_alike
from stackproof.gate.run import GateProgress, chosen_stack, opened
from stackproof.gate.statistics import paired, percent
