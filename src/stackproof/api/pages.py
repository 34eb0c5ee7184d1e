"""Records on the terminal and as a page; needs rich."""

from stackproof.record import charts, console
from stackproof.record.charts import Markup, badge, el, joined, ticks
