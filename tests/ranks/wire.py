"""A wire between two network interfaces of one namespace: every frame that one receives the other sends, after a delay.

`python wire.py LEFT RIGHT DELAY_S` forwards until it is ended; `python wire.py INTERFACE` only prepares an interface for such a wire. The
kernel's own delay (tc netem) is a module that many kernels lack.
"""

from __future__ import annotations

import array
import fcntl
import select
import socket
import struct
import sys
import time
from collections import deque

_ETH_P_ALL = 3
_SIOCETHTOOL = 0x8946  # netdevice(7), linux/ethtool.h
_SWITCHED_OFF = (0x15, 0x17, 0x1F, 0x24)  # ETHTOOL_SRXCSUM, _STXCSUM, _STSO, _SGSO
_LONGEST = 1 << 17


def prepare(interface: str) -> None:
    """Switch off checksums and segmentation by the card: behind this card there is only this program."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        for command in _SWITCHED_OFF:
            value = array.array("I", [command, 0])
            request = struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(handle, _SIOCETHTOOL, request)


def forward(left: str, right: str, delay_s: float) -> None:
    ends = [_open(left), _open(right)]
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()  # in order of their time, as the delay is one
    while True:
        patience = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for end in select.select(ends, [], [], patience)[0]:
            frame, origin = end.recvfrom(_LONGEST)
            if origin[2] != socket.PACKET_OUTGOING:
                waiting.append((time.monotonic() + delay_s, ends[1 - ends.index(end)], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, frame = waiting.popleft()
            end.send(frame)


def _open(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    end.bind((interface, 0))
    return end


if __name__ == "__main__":
    if len(sys.argv) == 2:
        prepare(sys.argv[1])
    else:
        sys.stdout.write("carrying\n")
        sys.stdout.flush()
        forward(sys.argv[1], sys.argv[2], float(sys.argv[3]))
