"""Start Python processes from tests, in the repository's root."""

import os
import subprocess
import sys

from study.paths import ROOT


def python(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run this Python and wait for it.

    Parameters
    ----------
    arguments
        Arguments of the command line.
    options
        Arguments of `subprocess.run` that replace the usual ones.

    Returns
    -------
    subprocess.CompletedProcess
        It has the exit status and the text of both streams.
    """
    usual = {"cwd": ROOT, "capture_output": True, "text": True, "check": False, "timeout": 600}
    return subprocess.run([sys.executable, *map(str, arguments)], **usual | options)


def run_tests(*files: str, **environment: str) -> tuple[int, str]:
    """Run the tests of the GPU kernels in a process of their own.

    Parameters
    ----------
    files
        Names of files in `tests/`.
    environment
        Environment variables to add to those of this process.

    Returns
    -------
    int
        The exit status; 5 if the files hold no test or skip themselves.
    str
        What was printed.
    """
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-o", "faulthandler_timeout=600", "-k", "numba-cuda or cuda_"]
    paths = [f"tests/{name}" for name in files]
    done = python(*command, *paths, env=os.environ | environment, timeout=3600)
    return done.returncode, done.stdout + done.stderr
