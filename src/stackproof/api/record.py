"""Records: what a run leaves, where it is kept, and how one is read and written. Needs fastjsonschema to read and write."""

from stackproof.record import outline, reading, repeat, resume, store, writer
from stackproof.record.records import Check, Figure, Kind, Measurement, Record, Verdict
