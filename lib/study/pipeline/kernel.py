"""The Jupyter kernel of a run: ``python -m study.pipeline.kernel -f CONNECTION_FILE``.

It is IPython's kernel, but it ends with the process that started it, even if that is killed. If
there is a process to fork from (`study.pipeline.fork_server`), the kernel starts in a fork, which
has already imported its packages.
"""

import contextlib
import os
import sys

from study.pipeline import fork_server
from study.pipeline.processes import end_with_parent


def main(arguments: list[str]) -> int:
    """Run a Jupyter kernel.

    Parameters
    ----------
    arguments
        Arguments of the command line.

    Returns
    -------
    int
        Exit status of the kernel.
    """
    end_with_parent()
    if fork_server.SOCKET in os.environ:
        with contextlib.suppress(ConnectionError):  # the process to fork from is gone
            return fork_server.run(["ipykernel_launcher", *arguments])
    from ipykernel import kernelapp

    sys.path.pop(0)  # the folder in which it starts, as IPython's launcher does
    kernelapp.launch_new_instance(argv=arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
