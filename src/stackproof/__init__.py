"""stackproof proves an accelerator stack: is it what it claims, does it compute right, how fast, and since when."""

from stackproof.base.places import DATA as DATA
from stackproof.base.places import ROOT as ROOT

__version__ = "0.1.0"
