"""Processes that tests start: this Python, in the repository's root."""

import subprocess
import sys

from study.paths import ROOT


def python(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run this Python; return its exit status and output. `options` are `subprocess.run`'s."""
    usual = {"cwd": ROOT, "capture_output": True, "text": True, "check": False, "timeout": 600}
    return subprocess.run([sys.executable, *map(str, arguments)], **usual | options)
