"""What suites and subjects there are, and what a process of a stack is started with; imports no torch by itself."""

from stackproof.bench import subjects as bench_subjects
from stackproof.jobs.launch import split_command
from stackproof.runner import suites
from stackproof.runner.supervise import variables_of
