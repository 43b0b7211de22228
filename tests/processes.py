"""Processes that tests start: this Python, in the repository's root."""

import subprocess
import sys

from study.paths import ROOT


def python(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments; return its exit status and what it printed. `options` replace `subprocess.run`'s."""
    usual = {"cwd": ROOT, "capture_output": True, "text": True, "check": False, "timeout": 600}
    return subprocess.run([sys.executable, *map(str, arguments)], **usual | options)
