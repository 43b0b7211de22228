"""What the machine is called; imports no package, so that a box for benchmarks can tell it, too."""

import platform
from pathlib import Path


def processor() -> str:
    """Return the name of the processor; ``unknown`` where the system does not tell."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return found[0] if found else platform.processor() or "unknown"
