"""Verbs run as processes, and what suites, subjects and faults there are; imports no torch by itself."""

from stackproof.bench.subjects import Budget, Subject, names_of_subjects, ours, profile, require_named, subjects
from stackproof.drill import table
from stackproof.jobs.launch import split_command
from stackproof.runner import suites, verbs
from stackproof.runner.process import variables_of
from stackproof.runner.verbs import StageOutcome
