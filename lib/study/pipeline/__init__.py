"""Run notebooks, record what they depend on, and keep the results up to date.

DVC decides which stages of `dvc.yaml` run, and papermill runs notebooks. The modules here do what
these two leave open. In `make repro`, each starts or uses those that are indented below it::

    repro                  several DVC processes side by side; one `make repro` at a time
        fork_server        a process that has imported the packages, to fork notebooks from
        code               the stage `code`: writes data/code, on which all other stages depend
            fingerprint    the modules of lib that a notebook reaches (modules, refusals)
            versions       the packages that can change its numbers
            dvc_records    discards records of DVC that are wrong
        dvc repro          runs the commands of the stages that are out of date
            execute        the command of a notebook's stage: checks its arguments
                inputs     fails if an input was saved while the stage ran
                runs       papermill, several sets of results at once
                    kernel     a Jupyter kernel that ends with its parent
                    cleaning   removes times, paths and random ids from the executed copy

Plain `dvc repro` gives the same results without `repro` and `fork_server`, which only save time. To
look for an error, leave them out, for example with ``dvc repro -s analyze@46_latching``.

Why each part exists:

- `repro`: DVC runs one stage after the other (its queue runs whole experiments in parallel, not
  stages), but most stages are analyses that do not need each other. Without it, analyses run on one
  core.
- `fork_server`: a rebuild starts 49 processes with papermill and 100 kernels, which import packages
  for one and a half seconds each. Without it, a rebuild on two cores takes two minutes longer.
- `code` and `fingerprint`: a stage depends on the modules that its notebook reaches, one by one,
  and not on their docstrings. If stages depended on the whole of `lib`, every change would run
  every stage again. If `dvc.yaml` listed modules by hand, nobody would notice one that is missing.
  The same fingerprints name cached training runs (`study.training.cache_key`).
- `inputs` and `dvc_records`: DVC hashes the inputs of a stage after its command has ended, and
  JupyterLab saves open notebooks by itself. Without them, DVC could record a new notebook as the
  one that made the old results, and would consider these up to date. `inputs` notices what was
  saved while the command ran. `dvc_records` notices what was saved between the end of the command
  and DVC's hashing. That takes 0.01 s, or up to 4 s if DVC waits for another DVC process.
- `cleaning`: equal inputs give equal files. Without it, all that depends on executed notebooks
  would run again every time.
- `processes`: environment variables that make results repeatable, and the end of all kernels when
  DVC ends, even if it is killed. Without it, kernels could go on and use a core or a GPU.
- `instructions`: `reproducible: true` in params.yaml.
- `clone`: refuses to run in another clone, or in DVC's copy of this one, whose stages would change
  the files here.
- `notebooks`, `files`, `machine`: cells and parameters of a notebook, files that are written whole
  or not at all, the name of the processor.
"""
