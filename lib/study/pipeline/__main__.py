"""``python -m study.pipeline``: run a notebook, or one of the commands ``code`` and ``repro``.

This file only uses the syntax of Python 3.6, so that an old Python that happens to be first on the
path can run it and print what is missing.
"""

import os
import sys
from pathlib import Path


def _main(arguments):
    # Imported late, so that a missing package is reported below.
    from study.pipeline import clone

    try:
        clone.check_clone(Path.cwd())
    except clone.WrongCloneError as error:
        sys.stderr.write(f"study.pipeline: {error}\n")
        return 2
    if arguments == ["code"]:
        from study.pipeline import code

        return code.main()
    if arguments[:1] == ["repro"]:
        from study.pipeline import repro

        return repro.main(arguments[1:])
    from study.pipeline import fork_server, processes

    processes.end_with_dvc()
    if fork_server.SOCKET in os.environ:
        try:
            return fork_server.run(["study.pipeline.execute", *arguments])
        except ConnectionError:
            pass  # the process to fork from is gone
    from study.pipeline import execute

    return execute.main(arguments)


try:
    sys.exit(_main(sys.argv[1:]))
except (ImportError, SyntaxError) as error:
    sys.exit(
        f"study.pipeline: {sys.executable} cannot run this ({error}); activate the environment "
        "with `. .venv/bin/activate`, or type `make repro`, which creates it if it is missing or "
        "damaged"
    )
except KeyboardInterrupt:  # before the work began, so there is nothing to keep
    sys.stderr.write("study.pipeline: interrupted\n")
    sys.exit(130)
