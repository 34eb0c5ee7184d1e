"""Records: what a run leaves, where it is kept, and how one is read and written. Needs fastjsonschema to read and write."""

from stackproof.record import charts, outline, reading, records, reference, repeat, store, writer
from stackproof.record.charts import Markup, el, joined, ticks
from stackproof.record.checks import CheckEnded
from stackproof.record.outline import Fold, Heading, Part, Span, TextLine, TextTable
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
    overall,
    write_atomically,
)
from stackproof.record.store import (
    CODE,
    MEASURING,
    Loaded,
    Place,
    State,
    changes,
    distinct,
    group_of,
    place,
    run_of,
    slug,
    state,
)
from stackproof.record.writer import LOCAL, Outputs
