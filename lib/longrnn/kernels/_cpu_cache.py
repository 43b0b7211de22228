"""The cache on disk for the machine code of the CPU kernels."""

import os
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from typing import IO

from numba.core.caching import FunctionCache

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LONGEST_WAIT = 60
"""Seconds that a process waits for another one to compile a kernel, before it compiles as well."""


@cache
def cache_folder() -> Path | None:
    """Return the folder for machine code, and create it.

    ``LONGRNN_CACHE`` names it, else ``NUMBA_CACHE_DIR``; otherwise it is ``longrnn/kernels`` in
    the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``). The variables are read when
    the first kernel is compiled.

    Returns
    -------
    Path or None
        None, after a warning, if the folder cannot be written.
    """
    named = os.environ.get("LONGRNN_CACHE") or os.environ.get("NUMBA_CACHE_DIR")
    try:
        if named:
            folder = Path(named).expanduser()
        else:
            user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            folder = Path(user) / "longrnn" / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        _warn_without_cache(str(error))
        return None


@cache
def _warn_without_cache(reason: str) -> None:
    warnings.warn(
        f"compiled kernels cannot be cached ({reason}), so every process compiles its own; "
        "set LONGRNN_CACHE to a folder that can be written",
        RuntimeWarning,
        stacklevel=3,
    )


class KernelCache(FunctionCache):
    """Numba's cache on disk, but a kernel still runs if the cache cannot be read or written.

    If two processes need a kernel at once, one compiles it while the other waits for a file lock.
    `load_overload` takes the lock if it finds no code. Who compiles a kernel must call `release`
    when the compilation has ended or failed.
    """

    _lock = None

    def load_overload(self, sig, target_context):
        code = self._load(sig, target_context)
        if code is None and self._lock is None:
            self._lock = _lock_file(cache_folder() / f"{self._impl.filename_base}.lock")
            code = self._load(sig, target_context)  # what the other process has compiled
        return code

    def _load(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except OSError:
            return None
        except Exception:  # a damaged file, after a power failure, say: unpickling may raise any
            self._forget()
            return None

    def _forget(self):
        """Make the index empty, so that the kernel is compiled and saved again."""
        try:
            self.flush()
        except OSError as error:
            _warn_without_cache(type(error).__name__)

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError as error:  # the disk is full, say
            _warn_without_cache(type(error).__name__)

    def release(self):
        """Let other processes compile the kernel; does nothing if this one holds no lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _lock_file(path: Path) -> IO | None:
    """Return a locked file; None if it cannot be locked or another process holds it too long."""
    if fcntl is None:
        return None
    try:
        file = path.open("ab")
    except OSError:
        return None
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        except OSError:  # a file system without locks
            break
        else:
            return file
    file.close()
    return None
