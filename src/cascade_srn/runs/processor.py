"""What the machine has: name and instructions of the CPU, and drivers for GPUs. This module imports no torch."""

import os
import platform
import sys
from functools import cache
from pathlib import Path

# Instructions that decide how fast a model is, as Linux names them.
_OF_X86 = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")
_OF_ARM = ("asimd", "asimddp", "i8mm", "bf16", "sve")
_WITH_BF16 = {"avx512_bf16", "amx_bf16", "bf16"}
_CPU_INFO = Path("/proc/cpuinfo")


@cache
def cpu_name() -> str:
    """Return the name of the processor."""
    return _first_line("model name") or platform.processor() or platform.machine()


@cache
def cpu_instructions() -> tuple[str, ...]:
    """Return the instructions of the CPU that decide how fast a model is. Empty if the system does not tell."""
    found = set((_first_line("flags") or _first_line("Features")).split())
    return tuple(name for name in (*_OF_X86, *_OF_ARM) if name in found)


def lacks_bf16() -> bool:
    """Return whether the CPU is known to have no bf16 instructions. It then computes in bf16 slower than in float32."""
    return bool(cpu_instructions()) and not _WITH_BF16.intersection(cpu_instructions())


def may_have_gpu() -> bool:
    """Return False if the system has no driver for GPUs, so that torch need not be imported to count them."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return False
    drivers = ("/proc/driver/nvidia", "/dev/nvidiactl", "/dev/dxg")
    return sys.platform == "win32" or any(map(os.path.exists, drivers))


def _first_line(key: str) -> str:
    """Return the first value of a key in Linux's description of the processor, or an empty string."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    values = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key)
    return next(values, "")
