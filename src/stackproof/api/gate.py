"""Two variants of a stack and their launches in turn; needs no scipy."""

from stackproof.gate import changed, commits, plan, variants
from stackproof.gate.interleave import PROCESS, Conditions, Launch, LaunchTerms, Lost, Observed, handshake, launch
from stackproof.gate.live import SideEndedError, SideSpec
from stackproof.gate.plan import ByDevice, Design, of, require_other
from stackproof.gate.request import CompareRequest
from stackproof.gate.variants import Variant, require_interpreter
