import os
import subprocess
import sys

PROGRAM = """
import ctypes, sys
from pathlib import Path
from keras_attn.kept_memory import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
before, size = resident(), 100 * 2**20
for _ in range(2):
    buffer = libc.malloc(size)
    libc.memset(buffer, 1, size)
    libc.free(buffer)
print((resident() - before) / size)
"""


def _share_that_stays(how: str) -> float:
    command = [sys.executable, "-c", PROGRAM, how]
    environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    reply = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return float(reply.stdout)


def test_a_large_buffer_stays_with_the_process_for_the_next():
    assert 0.95 < _share_that_stays("kept") < 1.5
    assert _share_that_stays("by default") < 0.1


def test_other_systems_are_left_as_they_are(monkeypatch):
    from keras_attn.kept_memory import keep_freed_memory

    monkeypatch.setattr(sys, "platform", "win32")
    assert not keep_freed_memory()
