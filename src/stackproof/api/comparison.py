"""What may be concluded from launches in turn; needs scipy."""

from stackproof.gate import cells
from stackproof.gate import gate as gate_loop
