"""What suites and subjects there are, and the figures that were measured by state of the stack; imports no torch by itself."""

from stackproof.bench import subjects as bench_subjects
from stackproof.history import timeline
from stackproof.runner import suites
