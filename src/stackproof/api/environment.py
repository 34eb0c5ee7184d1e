"""Locks, the environments that they make, and the proof of one; needs packaging."""

from stackproof.stack import environment_proof, environments, lockfile
from stackproof.stack.environments import Say
from stackproof.stack.lockfile import Lock, Pin
