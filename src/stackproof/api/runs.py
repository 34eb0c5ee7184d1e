"""Verbs run as processes, and what suites and subjects there are; imports no torch by itself."""

from stackproof.bench import subjects as bench_subjects
from stackproof.jobs.launch import split_command
from stackproof.runner import suites, verbs
from stackproof.runner.supervise import variables_of
