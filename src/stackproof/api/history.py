"""What was measured and kept, as series that never mix."""

from stackproof.history.timeline import Change, History, Series, entries, histories
