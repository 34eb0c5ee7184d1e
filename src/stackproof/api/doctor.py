"""What the doctor finds on a host, without torch."""

from stackproof.doctor import checkup
