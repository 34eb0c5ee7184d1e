"""Devices and measurements in this process; needs torch."""

from stackproof.bench.engine import try_measure
from stackproof.device import devices
from stackproof.device.kinds import Device
from stackproof.device.telemetry import Telemetry
