"""Devices and measurements in this process; needs torch."""

from stackproof.bench.engine import measure
from stackproof.bench.rows import measurements
from stackproof.device import asked, devices, threads
from stackproof.device.facts import torch_facts
from stackproof.device.kinds import Device
from stackproof.device.names import require_of
from stackproof.device.telemetry import Telemetry
