"""Locks, the environments that they make, the proof of one and the devices that it sees; needs packaging."""

from stackproof.device.names import require_in
from stackproof.stack import environment_proof, environments, lockfile
