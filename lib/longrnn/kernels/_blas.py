"""One BLAS thread inside the kernels, whatever the process uses elsewhere.

A kernel multiplies small matrices, many thousand times. A second BLAS thread costs more than it
saves, on a busy machine tens of times more, and it adds in another order. The limit holds during
a call only: a program that imports `longrnn` keeps its own setting.
"""

import threading
from contextlib import AbstractContextManager, nullcontext

import scipy.linalg.cython_blas  # noqa: F401 - Numba's np.dot calls it; loaded here to be limited
import torch
from threadpoolctl import ThreadpoolController

_LIBRARIES = ThreadpoolController().select(user_api="blas").lib_controllers


class _SingleThread:
    """Context manager that gives BLAS one thread while at least one caller is inside.

    Callers on several threads share the limit. The first to enter saves the setting and the last
    to leave restores it, so no caller sees another one's setting as the original.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callers = 0
        self._limited = []

    def __enter__(self) -> None:
        with self._lock:
            if self._callers == 0:
                for library in _LIBRARIES:
                    count = library.get_num_threads()
                    if count != 1:
                        library.set_num_threads(1)
                        self._limited.append((library, count))
            self._callers += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._callers -= 1
            if self._callers == 0:
                while self._limited:
                    library, count = self._limited.pop()
                    library.set_num_threads(count)


single_thread = _SingleThread()
_UNLIMITED = nullcontext()


def single_thread_on(device: torch.device) -> AbstractContextManager:
    """Return the context in which a loop runs on a device.

    Parameters
    ----------
    device : torch.device
        Device of the loop's tensors.

    Returns
    -------
    context manager
        `single_thread` on the CPU. Elsewhere no loop calls BLAS, and the limit would only cost
        time: more than 10 microseconds per pass, while a GPU waits for the host.
    """
    if device.type == "cpu":
        return single_thread
    return _UNLIMITED
