"""The name of the processor, found with the standard library alone.

A GPU machine may lack the packages of the notebooks.
"""

import platform
from pathlib import Path


def processor() -> str:
    """Return the name of the processor.

    Returns
    -------
    str
        ``unknown`` if the system does not give it.
    """
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
