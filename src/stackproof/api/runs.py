"""What suites and subjects there are, and what a process of a stack is started with; imports no torch by itself."""

from stackproof.bench import subjects as bench_subjects
from stackproof.runner import suites
