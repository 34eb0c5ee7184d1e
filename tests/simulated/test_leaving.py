"""A process with cards exits as it should, however late autograd's threads get a core."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .double import require_compiler, run

# Stands before libc: each thread but the first that makes a Python thread state does so late, as on a busy host.
_LATE = r"""
#include <atomic>
#include <cstddef>
#include <sys/syscall.h>
#include <unistd.h>
static std::atomic<int> seen;
static thread_local bool known;
extern "C" {
void* __libc_calloc(size_t, size_t);
int late_us;
void* calloc(size_t count, size_t size) {
  if (late_us && !known && getpid() != static_cast<int>(syscall(SYS_gettid))) {
    known = true;
    if (seen.fetch_add(1)) usleep(late_us);
  }
  return __libc_calloc(count, size);
}
}
"""
_STEP = """
import ctypes, os, torch
ctypes.c_int.in_dll(ctypes.CDLL(os.environ["LD_PRELOAD"]), "late_us").value = 1_000_000
weight = torch.ones(8, device="sim", requires_grad=True)
(weight * 2).sum().backward()
"""


@pytest.mark.slow
def test_a_thread_of_autograd_that_starts_late_does_not_end_the_process(tmp_path: Path) -> None:
    require_compiler()
    source, library = tmp_path / "late.cpp", tmp_path / "late.so"
    source.write_text(_LATE, encoding="ascii")
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))))
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    run(_STEP, fresh=True, LD_PRELOAD=str(library))
