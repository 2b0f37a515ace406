"""Arrays whose place in memory matters."""

from __future__ import annotations

import math
import mmap
import os
import sys

import numpy as np
import numpy.typing as npt

#: JAX takes a NumPy array that starts at such an address as it is; any other is copied first.
ALIGNMENT_BYTES = 64


def aligned_zeros(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Float32 zeros, the first at a multiple of 64 bytes."""
    size = math.prod(shape)
    memory = np.zeros(4 * size + ALIGNMENT_BYTES, np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[offset : offset + 4 * size].view(np.float32).reshape(shape)


def anonymous_array(size: int) -> npt.NDArray[np.float32]:
    """``size`` float32 zeros in private anonymous memory, with huge pages where the system has them."""
    if sys.platform != "linux":
        return aligned_zeros((size,))
    memory = mmap.mmap(-1, max(4 * size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        pass  # A kernel without transparent huge pages: slower, not wrong.
    return np.frombuffer(memory, np.float32, size)


def shared_file(num_bytes: int, folder: str = "/dev/shm") -> int:
    """A file of zeros in shared memory, as a descriptor that child processes can be given and map.

    It has no name, so that nothing is left of it when its last process ends, however that ends. Memory is taken as it is
    written. Where ``folder`` has no room for all of it (a container's often has 64 MB), the file is the kernel's own
    instead, which has no such limit. Linux only.
    """
    descriptor = None
    try:
        free = os.statvfs(folder)
        if free.f_bavail * free.f_frsize >= num_bytes:
            descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        pass  # No such folder, or one without unnamed files.
    if descriptor is None:
        descriptor = os.memfd_create("dlrm-rings")
    os.ftruncate(descriptor, num_bytes)
    return descriptor
