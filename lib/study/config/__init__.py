"""Configuration: the settings of a run, and how they are read from `params.yaml`.

The settings:

- `section`: base class, number types, error messages
- `network`, `task`, `recipe`, `measurement`: the parts of one run's settings; `run` combines them
- `design`: full factorial designs; `factorial`, `latching`, `linear_gaps`: three such designs
- `cluster`: where jobs run

From `params.yaml` to runs, step by step:

- `file`: read the file, and apply a profile to the base
- `grammar`: which keys a network, a task and a group may have
- `definitions`: networks and tasks by name
- `tables`, `levels`: collect the settings of each network on each task of a group
- `vocabulary`, `checks`: refuse unknown settings and wrong values
- `expand`, `names`: one `run.RunConfig` per combination of levels, with a unique name
- `datasets`: which prepared data sets a profile reads

`study.training.profile` takes the next steps: it plans and trains the runs.
"""
