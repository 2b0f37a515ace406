"""What has to be set before NumPy is imported, and therefore imports nothing that imports it."""

from __future__ import annotations

import os


def prepare_process() -> None:
    """Makes this process's environment the one that its numbers are to be measured in."""
    # Set on some machines to make OpenBLAS use code for another CPU: results would be right, and slower.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    # The only BLAS call is the simulated accelerator's matrix times vector; a pool of threads for it only gets in the
    # way of those that serve.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"
