"""Records: what a run leaves, where it is kept, and how one is read and written. Needs fastjsonschema to read and write."""

from stackproof.record import charts, outline, reading, records, repeat, resume, store, writer
from stackproof.record.checks import CheckEnded
from stackproof.record.records import (
    NOT_EXECUTED,
    SUITE_VERBS,
    CellWord,
    Check,
    Figure,
    Kind,
    Measurement,
    Record,
    Verdict,
)
