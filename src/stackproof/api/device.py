"""Devices and measurements in this process; needs torch."""

from stackproof.bench.engine import measure
from stackproof.bench.rows import measurements
from stackproof.device import devices, threads
from stackproof.device.kinds import Device
from stackproof.device.telemetry import Telemetry
