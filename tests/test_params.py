"""`params.yaml`: what it says, and one sentence for each thing that may be wrong with it."""

import copy
import csv
import hashlib
import itertools
import json
import subprocess
import sys
from typing import Any, get_args

import pytest
from designs import checked_runs_of, loaded, profile_of, runs_of, sections
from longrnn.cells import cell_class, cell_names
from study.claims.listed import claims
from study.config.datasets import datasets
from study.config.expand import expand_groups
from study.config.file import merge_profile, read_params
from study.config.grammar import Sections
from study.config.measurement import Measure
from study.config.names import with_names
from study.config.network import Network
from study.config.recipe import OPTIMIZERS, PENALTY_WEIGHTS, Optimizer, Recipe
from study.config.run import RunConfig
from study.config.section import ParameterError, parse_section
from study.config.vocabulary import general_settings
from study.paths import ROOT
from study.results.rows import MEASURED
from study.tasks import MAKERS
from study.training.__main__ import main
from study.training.model import HEADS
from study.training.plans import DESIGNS
from study.training.probe import _METHODS
from study.training.profile import load_profile

PROFILES = ("smoke", "quick", "real", "short", "rates", "paper")
EXPANSION = ROOT / "tests" / "data" / "expansion.csv"
"""Number and digest of the runs of each profile and group, which this file writes if run."""


@pytest.fixture(scope="module")
def whole():
    return read_params()


@pytest.fixture
def content(whole):
    """The file's content with three of its groups, to change."""
    content = copy.deepcopy(whole)
    groups = content["base"]["groups"]
    few = "pixels", "noisy_images", "long_memory"
    content["base"]["groups"] = {name: groups[name] for name in few}
    content["profiles"] = dict.fromkeys(content["profiles"])
    return content


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_is_valid(name):
    profile = loaded(name)
    for dataset, rows in profile.designs.items():
        names = {str(getattr(row, "run", row)) for row in rows}
        assert len(names) == len(rows)
        assert profile.plan(dataset)


def test_the_full_size_trains_the_networks_that_claims_compare():
    trained = {}
    for group, runs in loaded("paper").designs.items():
        for run in runs:
            if isinstance(run, RunConfig):
                trained.setdefault((group, run.task_label), set()).add(run.label)
    for claim in claims().values():
        for selection, task in compared(claim):
            names = {selection.label, selection.otherwise}
            labels = trained[claim.comparison.group, selection.task or task]
            if selection.best:
                labels = {label.partition(",")[0] for label in labels}
            assert names & labels, (claim.id, task, selection.label)


def compared(claim):
    """Yield every network that a claim compares, with the task if the claim names its tasks."""
    comparison = claim.comparison
    if comparison is None:
        return
    chosen = [*comparison.networks, *itertools.chain(*comparison.pairs)]
    if comparison.others != "all":
        chosen += comparison.others
    for task in comparison.tasks:
        for selection in chosen:
            for part in (selection, *selection.pooled):
                yield part, task


def expansion(name):
    """Return a row per group of a profile: its runs, their replicates, and a digest."""
    rows = []
    for group, runs in runs_of_profile(name).items():
        text = json.dumps(
            [run.model_dump(mode="json", exclude_defaults=True) for run in runs], sort_keys=True
        )
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        jobs = sum(run.replicates for run in runs)
        rows.append([name, group, str(len(runs)), str(jobs), digest])
    return rows


def runs_of_profile(name):
    """Return the runs of each group of a profile."""
    content = merge_profile(name)
    makers = {maker: MAKERS[maker].settings for maker in MAKERS}
    return expand_groups(content["groups"], content["networks"], content["tasks"], makers)


@pytest.mark.parametrize("name", PROFILES)
def test_every_group_expands_to_its_stored_runs(name):
    """A change is meant to change runs, or it is a mistake; then write the table again."""
    with EXPANSION.open(newline="") as file:
        stored = [row for row in csv.reader(file) if row[0] == name]
    assert expansion(name) == stored


@pytest.mark.parametrize("name", PROFILES)
def test_data_sets_are_those_the_runs_read(name):
    assert datasets(merge_profile(name)) == list(loaded(name).datasets)


def test_swapped_data_sets_change_the_list(whole):
    content = copy.deepcopy(whole)
    tasks = content["base"]["tasks"]
    words = tasks["Google12"]
    activities = tasks["HAR-2"]
    settings_of_words = words["set"]
    words["set"] = activities["set"]
    activities["set"] = settings_of_words
    assert datasets(content["base"]) != datasets(whole["base"])


def test_no_setting_has_two_meanings(whole):
    keywords = {key for name in cell_names() for key in cell_class(name).hyper_parameters}
    starts = {k for n in cell_names() for s in cell_class(n).starts.values() for k in s.settings}
    makers = {task["maker"] for task in whole["base"]["tasks"].values()}
    settings = {key for maker in makers for key in MAKERS[maker].settings.model_fields}
    kinds = (set(general_settings()), keywords, starts, settings - {"steps"})
    assert sum(map(len, kinds)) == len(set().union(*kinds))


ONE = {"width": 4, "learning_rate": 0.1, "batch_size": 2, "records": 1, "steps": 2, "test_draws": 2}


def lem(**settings):
    """Return networks of a group: LEM with these settings."""
    return {"LEM": {"set": settings}}


def rnn(**settings):
    """Return networks of a group: RNN with these settings."""
    return {"RNN": {"set": settings}}


@pytest.mark.parametrize(("networks", "defaults", "complaint"), [
    (lem(dtt=1), {}, r"unknown setting groups.table.networks.LEM.set.dtt; expected one of dt, "),
    (lem(lr=1), {}, "networks.LEM.set.lr; its name here is learning_rate$"),
    (lem(seed=3), {}, "set.seed; seeds follow from a run's settings, and replicates is the number"),
    (lem(optimiser="adam"), {}, "LEM.set.optimiser; expected one of optimizer, "),
    (lem(gamma=1), {},
     "LEM.set.gamma is a setting of other networks or tasks; LEM on N=10 has"),
    (lem(task=1), {}, "unknown setting groups.table.networks.LEM.set.task"),
    (lem(cell="lstm"), {}, "unknown setting groups.table.networks.LEM.set.cell"),
    ({"LEM": {"sets": {}}}, {},
     r"unknown parameter groups.table.networks.LEM.sets; .*known: set, "),
    ({"LEM": {"width": 4}}, {},
     r"networks.LEM.width; .*\); settings go into set, sweep, by_task or sweep_by_task$"),
    ({"LEM": {"by_task": {"N=10": {"width": 4}}}}, {},
     r"LEM.by_task.N=10 is a task; expected .*, such as by_task: {width: {N=10: 32}}$"),
    (rnn(kappa=1), {}, "RNN trains with kappa = 1 and the objective plain, which does not use it"),
    ({"RNN": {"by_task": {"kappa": {"N=10": 1}}}}, {},
     "RNN trains with kappa = 1 .*; set the objective to coadjoint, or kappa to null"),
    ({"RNN": {"sweep_by_task": {"orthogonality": {"N=10": [0.1, 1]}}}}, {},
     "RNN trains with orthogonality = 0.1 .*; set the objective to orthogonal, or"),
    (rnn(objective="coadjoint", kappa=1, orthogonality=2), {},
     "RNN trains with orthogonality = 2 and the objective coadjoint, which does not use it"),
    (rnn(objective="coadjiont", kappa=1), {}, "objective is 'coadjiont'; .*'coadjoint'"),
    ({"RNN": {}}, {"kappa": 1}, "defaults.set.kappa is not used by any network or task"),
    (lem(dt="fast"), {}, "lem: expected dt to be a number"),
    ({"LSMT": {}}, {}, "LSMT names 'LSMT', which is not one of the networks; expected one of LSTM"),
    ({"a": {"network": "LSMT"}}, {}, "networks.a names 'LSMT', which is not one of the networks"),
    ({"LEM": {"tasks": ["N=11"]}}, {},
     "tasks names 'N=11', which is not one of the tasks of the group"),
    ({"LEM": {"tasks": []}}, {}, "networks.LEM has no tasks; name some, or set the entry to null"),
    (lem(start="cold"), {}, "lem: expected initial weights among paper"),
    ({"LEM": {"sweep": {"width": [4, 4]}}}, {},
     "LEM.sweep.width is .*; expected levels that differ"),
    ({"LEM": {"sweep": {"dt": []}}}, {}, r"sweep.dt is \[\]; expected at least one level"),
    ({"LEM": {"sweep": {"dt": 0.1}}}, {},
     "^params.yaml: groups.table.networks.LEM.sweep.dt is 0.1; expected a list of .* them$"),
    ({"LEM": {"set": {"dt": 1.0}, "sweep": {"dt": [0.1]}}}, {}, "gives dt in set and in sweep"),
    (lem(width=[4, 5]), {},
     r"LEM.set.width is \[4, 5\]; input should be a valid integer; list several .* sweep$"),
    ({"LEM": {"label": "LEM {dtt}"}}, {},
     "label of .*LEM is 'LEM {dtt}'; expected settings in its"),
    ({"LEM": {"label": 5}}, {}, "LEM.label is 5; input should be text"),
    ({"LEM": {}, "b": {"network": "LEM", "label": "L"}}, {}, "same run twice, as 'LEM' and as 'L'"),
    ({"LEM": 7}, {}, "networks.LEM is 7; input should be a mapping"),
    ({"LEM": {}}, {"dtt": 1}, "unknown setting .*table.defaults.set.dtt; expected one of dt, "),
    ({"LEM": {}}, {"widht": 4, "width": None}, "unknown setting .*defaults.set.widht; .* width"),
    ({"LEM": {}}, {"width": None},
     "groups.table.networks.LEM.width is missing; add it to set, here or in the defaults of the "),
    ({"LEM": {}}, {"learning_rate": -1}, "groups.table.defaults.set.learning_rate is -1; input"),
    ({"LEM": {"by_task": {"width": {"N=10": "8"}}}}, {},
     "LEM.by_task.width.N=10 is '8'; input should be a valid integer, without quotes or a comma$"),
    ({"LEM": {"sweep": {"learning_rate": [0.1, 2]}}}, {}, "LEM.sweep.learning_rate is 2; input"),
    ({"LEM": {}}, {"inner_steps": 1},
     "defaults.set.inner_steps is not used by any network or task"),
    ({"LEM": {}}, {"test_draws": 0}, "adding generates its sequences; set test_draws"),
    ({"RNN": {}}, {"objective": "coadjoint"},
     "the objective coadjoint needs its weight; give kappa"),
    (rnn(output_dropout=0.1), {"objective": "coadjoint", "kappa": 1.0},
     "does not support output or"),
    (rnn(read="all"), {"objective": "coadjoint", "kappa": 1.0}, "coadjoint. only supports reading"),
    (rnn(read="all"), {"measures": ["gains"]}, "'gains' only supports reading the last state"),
    ({"LEM": {}}, {"steps": 0, "epochs": 3}, "generates its sequences, so it has no epochs; set"),
    ({"LEM": {}}, {"stop_below": 0.1, "validation_draws": 0}, "needs the validation loss; set"),
    (lem(start=["author"]), {}, "lem: expected initial weights|start is "),
    (lem(objective=["coadjoint"]), {}, "objective is "),
    ({"LEM": {"by_task": {"dt": {"N=10": 0.1, "ading 20": 1.0}}}}, {},
     "LEM.by_task.dt names 'ading 20', which is not one of the tasks; expected one of adding 20"),
    ({"LEM": {"tasks": ["N=10"], "by_task": {"stepz": {"N=20": 3}}}}, {},
     "unknown setting .*LEM.by_task.stepz; expected one of steps"),
    ({"LEM": {}}, {"steps": 2, "records": 3}, "3 records do not fit into 2 steps; use fewer"),
    ({"LEM": {}}, {"options": {"lr": 5}}, "options.lr.* is 'lr'; .*'eps', 'fused'"),
    ({"LEM": {}}, {"options": {"eps": True}}, "the option eps is True; expected a number"),
    ({"LEM": {}}, {"options": {"fused": 1}}, "the option fused is 1.0; expected true or false"),
    ({}, {}, "groups.table has no runs; give it networks and tasks, or correct the name if"),
])  # fmt: skip
def test_a_group_that_cannot_be_trained_is_refused(networks, defaults, complaint):
    group = {"tasks": ["N=10"], "defaults": {"set": ONE | defaults}, "networks": networks}
    with pytest.raises(ParameterError, match=complaint):
        checked_runs_of(group)


def test_networks_and_tables_exclude_each_other():
    with pytest.raises(ParameterError, match="expected either networks or tables"):
        checked_runs_of({"networks": {"LEM": {}}, "tables": {"one": {}}})


def test_sweeps_are_crossed_and_named():
    networks = {
        "LEM": {"by_task": {"dt": {"N=10": 0.3}}, "sweep_by_task": {"dt": {"N=20": [0.1, 0.2]}}},
        "LEM, clipped": {"network": "LEM", "sweep": {"clip": {"i=0": 1.0, "i=1": 0.5}}},
        "LSTM": {"tasks": ["N=20"], "sweep": {"learning_rate": [0.00123456, 0.001234561]}},
        "UnICORNN": {"tasks": ["N=10"], "set": {"layers": 2, "dt": [0.1, 0.2]}},
    }
    settings = {key: value for key, value in ONE.items() if key != "width"}
    defaults = {"set": settings, "by_task": {"width": {"N=10": 4, "N=20": 5}}}
    runs = runs_of({"tasks": ["N=10", "N=20"], "defaults": defaults, "networks": networks})
    assert [(run.label, run.task_label, run.network.width) for run in runs] == [
        ("LEM", "N=10", 4), ("LEM, dt=0.1", "N=20", 5), ("LEM, dt=0.2", "N=20", 5),
        ("LEM, i=0", "N=10", 4), ("LEM, i=1", "N=10", 4), ("LEM, i=0", "N=20", 5),
        ("LEM, i=1", "N=20", 5), ("LSTM", "N=20", 5), ("LSTM", "N=20", 5), ("UnICORNN", "N=10", 4),
    ]  # fmt: skip
    assert len({run.run for run in runs}) == 10, "a run is its settings, not its label"
    assert runs[-1].network.hyper_parameters["dt"] == [0.1, 0.2]


def test_later_layers_win():
    """Task, defaults, definition of the network, entry; a task's own value over one for all."""
    tasks = {"short": {"maker": "adding", "set": {"time_steps": 5}}}
    networks = {"slow": {"cell": "lem", "set": {"dt": 0.5, "learning_rate": 0.01}}}
    group = {
        "tasks": ["short", "N=10"],
        "defaults": {"set": ONE | {"dt": 0.1, "time_steps": 7}, "by_task": {"width": {"short": 8}}},
        "networks": {"slow": {"by_task": {"learning_rate": {"short": 0.02}}}},
    }
    short, long = runs_of(group, networks, tasks)
    assert (short.task.settings["time_steps"], long.task.settings["time_steps"]) == (7, 7)
    assert (short.network.width, long.network.width) == (8, 4)
    assert (short.network.hyper_parameters["dt"], long.recipe.learning_rate) == (0.5, 0.01)
    assert short.recipe.learning_rate == 0.02


def test_runs_with_the_same_label_have_different_names():
    tasks = {
        name: {"maker": "adding", "set": {"time_steps": steps}}
        for steps, name in enumerate(("c", "b, c"), 5)
    }
    networks = {"LEM": {"label": "a, b", "tasks": ["c"]}, "LSTM": {"label": "a", "tasks": ["b, c"]}}
    group = {"tasks": list(tasks), "defaults": {"set": ONE}, "networks": networks}
    runs = runs_of(group, tasks=tasks)
    assert len({run.run for run in runs}) == 2
    assert all(run.run.startswith("a, b, c") for run in runs)


def test_equal_names_of_runs_are_numbered():
    group = {"tasks": ["N=10"], "defaults": {"set": ONE}, "networks": {"LEM": {}}}
    (run,) = runs_of(group)
    names = [named.run for named in with_names([run, run, run])]
    assert names == ["LEM, N=10", "LEM, N=10 (2)", "LEM, N=10 (3)"]


def test_null_start_is_the_default(content):
    content["base"]["networks"]["new"] = {"cell": "lem", "set": {"start": None}}
    profile_of(content)
    group = {"tasks": ["N=10"], "defaults": {"set": ONE}}
    (run,) = runs_of(group | {"networks": {"LEM": {"set": {"start": None}}}})
    assert run.network.start == "paper"


def test_a_profile_is_laid_over_the_base(content):
    networks = {"UnICORNN": {"set": {"batch_size": 9}}, "GRU": None}
    groups = {"noisy_images": {"defaults": {"set": {"width": 7}}, "networks": networks}}
    content["profiles"]["quick"] = {"factorial": {"width": 5}, "groups": groups}
    designs = profile_of(content).designs
    (changed,) = designs["factorial"]
    assert changed.width == (5,)
    assert changed.batch_size == content["base"]["factorial"]["batch_size"]
    runs = designs["noisy_images"]
    assert {run.network.width for run in runs} == {7}
    assert "GRU" not in {run.network_name for run in runs}
    assert 9 in {run.batch_size for run in runs if run.network_name == "UnICORNN"}


def test_weight_of_penalty_applies_where_objective_uses_it():
    networks = {
        "plain": {"network": "RNN", "label": "plain"},
        "penalty": {"network": "RNN", "label": "penalty", "set": {"objective": "coadjoint"}},
        "none": {"network": "RNN", "label": "none", "set": {"width": 5, "kappa": None}},
    }
    group = {"tasks": ["N=10"], "defaults": {"set": ONE | {"kappa": 1.0}}, "networks": networks}
    weights = {run.label: run.recipe.kappa for run in checked_runs_of(group)}
    assert weights == {"plain": None, "penalty": 1.0, "none": None}


def _in(section, change):
    return lambda content: content["base"][section].update(change)


def _set(group, network, change):
    def update(content):
        entry = content["base"]["groups"][group]["networks"][network]
        entry["set"] = entry.get("set", {}) | change

    return update


def _define(section, name, definition):
    return lambda content: content["base"][section].update({name: definition})


COADJOINT = {"objective": "coadjoint", "kappa": 1.0}
ORTHOGONAL = {"objective": "orthogonal", "orthogonality": 1.0}
UNFIT = "of width 32 on .* cannot .*"
SCHEDULER = "expected local, or an address such as tcp://host:8786 or tls://host:8786$"


def _two_runs_of_a_network(first, second):
    """Define a group in which a network is trained twice on a task, with other settings."""
    settings = {"width": 4, "batch_size": 4, "learning_rate": 0.01, "steps": 2}
    settings |= {"records": 1, "test_draws": 8, "delay": 5}
    group = {
        "tasks": ["copying"],
        "defaults": {"set": settings},
        "networks": {
            "first": {"network": "LSTM", "set": first},
            "second": {"network": "LSTM", "set": second},
        },
    }

    def update(content):
        content["base"]["tasks"]["copying"] = {"maker": "copying"}
        content["base"]["groups"]["two_runs"] = group

    return update


@pytest.mark.parametrize(("change", "complaint"), [
    (_in("factorial", {"widths": [3]}), r"unknown parameter factorial.widths; .*\(known: width, "),
    (_two_runs_of_a_network({"metric": "squared error"}, {}),
     "LSTM of width 4 on copying cannot be trained: metric 'squared error' applies to regression"),
    (_in("factorial", {"width": True}),
     "^params.yaml: factorial.width.0 is True; input should be a valid integer$"),
    (_in("factorial", {"width": -16}),
     "^params.yaml: factorial.width.0 is -16; input should be greater than 0$"),
    (_in("factorial", {"width": []}), r"factorial.width is \[\]; expected at least one level$"),
    (_in("factorial", {"replicates": 0}), "factorial.replicates is 0; .*greater than 0"),
    (_in("linear_gaps", {"replicates": 2}), "linear_gaps.replicates is 2; .*should be 1"),
    (_in("linear_gaps", {"test_size": 10**9}),
     "linear_gaps.test_size is 1000000000; .*less than or"),
    (_in("factorial", {"replicates": 10**8}), "factorial has 8,400,000,000 jobs; expected at most"),
    (_in("factorial", {"learning_rate": [2.0]}),
     "learning_rate.0 is 2.0; .*less than or equal to 1"),
    (_in("factorial", {"width": [4, 4]}), "levels must differ from each other"),
    (_in("factorial", {"architecture": "lstn"}), "unknown architecture 'lstn'"),
    (_in("factorial", {"architecture": "x" * 400}), "factorial.architecture.0 is 'x{40,90}"),
    (_in("factorial", {"dataset": "mnits"}), "unknown data set 'mnits'; known: mnist"),
    (_in("jobs", {"scheduler": "somewhere"}), f"scheduler is 'somewhere'; {SCHEDULER}"),
    (_in("jobs", {"scheduler": "file://a:1"}), f"scheduler is 'file://a:1'; {SCHEDULER}"),
    (_in("jobs", {"scheduler": "http://a:1"}), f"scheduler is 'http://a:1'; {SCHEDULER}"),
    (_in("jobs", {"scheduler": "tcp://a:0"}), f"scheduler is 'tcp://a:0'; {SCHEDULER}"),
    (_in("jobs", {"scheduler": "tcp://a:1/b"}), f"scheduler is 'tcp://a:1/b'; {SCHEDULER}"),
    (_in("jobs", {"scheduler": 8786}), f"scheduler is 8786; {SCHEDULER}"),
    (_in("jobs", {"workers": -1}),
     "^params.yaml: jobs.workers is -1; expected an integer from 0 to 4096, or auto$"),
    (_in("jobs", {"workers": float("inf")}), "workers is inf; expected a finite number"),
    (_in("jobs", {"workers": 16**4000}), "workers is .*; expected a finite number"),
    (_in("interventions", {"test_size": -1}), "interventions.test_size is -1; .*greater than or"),
    (_in("interventions", {"learning_rate": {"a": 1}}), "interventions.learning_rate"),
    (_in("interventions", {"cell": ["lem"]}), "learning_rate has no value for the cell 'lem'; add"),
    (_set("noisy_images", "GRU", {"frozen": ["cell.Q"]}),
     f"GRU {UNFIT}no parameter is called 'cell.Q'; the model has cell.W"),
    (_set("noisy_images", "GRU", {"frozen": ["*"]}), f"GRU {UNFIT}all parameters are frozen"),
    (_set("noisy_images", "GRU", {"groups": [{"names": "sell.*"}]}),
     rf"GRU {UNFIT}no parameter is called 'sell.\*'"),
    (_set("noisy_images", "GRU", {"width": 10**8}),
     "GRU of width 100000000 on .* cannot be trained: "),
    (_set("noisy_images", "GRU", {"frozen": ["cell.*"], "measures": ["penalty"]}),
     rf"GRU {UNFIT}penalty needs a trained cell, but cell.\* is frozen"),
    (_set("noisy_images", "expRNN", COADJOINT), "be trained by the coadjoint method: its step"),
    (_set("long_memory", "LSTM", {"read": "every"}), "LSTM.set.read is 'every'; .*'' or 'all'"),
    (_set("long_memory", "LSTM", ORTHOGONAL), f"LSTM {UNFIT}lstm has no recurrent matrix W"),
    (_set("noisy_images", "FastRNN", ORTHOGONAL), "FastRNN .*fastrnn has no recurrent matrix W"),
    (_set("long_memory", "LSTM", COADJOINT), f"LSTM {UNFIT}coadjoint needs one class"),
    (_set("long_memory", "LSTM", {"measures": ["eigenvalues"]}),
     f"LSTM {UNFIT}lstm: expected an iRNN.*; remove eigenvalues from"),
    (_set("long_memory", "LSTM", {"measures": ["time_steps"]}),
     f"LSTM {UNFIT}lstm: expected 1 to 3 kinds.*; leave time_steps out of"),
    (_define("networks", "new", {"cell": "lstn"}), "networks.new.cell is 'lstn'; .*lstm"),
    (_define("networks", "new", {"cell": "lem", "set": {"dtt": 1}}),
     "unknown setting networks.new.set.dtt; expected one of dt, "),
    (_define("networks", "new", {"cell": "lem", "set": {"dt": "x"}}),
     "networks.new.set.dt is 'x'; exp"),
    (_define("networks", "new", {"cell": "lem", "set": {"head": "x"}}),
     "networks.new.set.head is 'x'"),
    (_define("networks", "new", {"cell": "lem", "set": {"start": "x"}}),
     "networks.new.set.start is 'x'; expected one of"),
    (_define("networks", "new", {"cell": "lem", "set": {"batch_size": 0}}),
     "networks.new.set.batch_size is 0; input should be greater than 0"),
    (_define("networks", "new", {"cell": "lem", "set": {"time_steps": "x"}}),
     "networks.new.set.time_steps is 'x'; input should be a valid integer"),
    (_define("networks", "x" * 5000, {"cell": "rnn"}),
     "has the key .*; expected printable text of at"),
    (_define("networks", "a\x00", {"cell": "rnn"}), "expected printable"),
    (_define("tasks", "new", {"maker": "addign"}),
     "tasks.new.maker is 'addign'; expected one of adding"),
    (_define("tasks", "new", {"maker": "adding", "set": {"step": 1}}),
     "unknown setting tasks.new.set.step; expected one of time_steps"),
    (_define("tasks", "new", {"maker": "adding", "set": {"time_steps": "x"}}),
     "time_steps is 'x'; "),
    (_define("tasks", "new", {"maker": "adding", "sweep": {"time_steps": [5]}}),
     "tasks.new sweeps time_steps; put {time_steps} into its name"),
    (_define("tasks", "n={time_steps}", {"maker": "adding", "sweep": {"time_steps": []}}),
     "sweep.time_steps is empty; expected at least one level"),
    (_define("tasks", "n={time_steps}",
             {"maker": "adding", "set": {"time_steps": 5}, "sweep": {"time_steps": [6]}}),
     "gives time_steps in set and in sweep; remove one"),
    (_define("tasks", "n={step}", {"maker": "adding", "set": {"time_steps": 5}}),
     "the name of tasks.n={step} is 'n={step}'; expected settings in its braces"),
    (lambda c: _define("tasks", "N=100", c["base"]["tasks"]["sMNIST"])(c),
     "two tasks have the name 'N=100'; rename one"),
    (lambda c: c["base"].update(studdy={}),
     "unknown parameter studdy; .*known: .*; a profile has the sections of base, which it extends"),
    (lambda c: c["base"].pop("latching"), "latching is missing"),
    (lambda c: c["base"].update(tasks=7), "tasks is 7; input should be a mapping"),
    (lambda c: c["base"]["groups"].update(factorial=c["base"]["groups"]["pixels"]),
     "two results files are called 'factorial'; rename the group"),
    (_define("groups", "../escaped", {}),
     "groups.../escaped.* is '../escaped'; string should match"),
    (_define("groups", "my group", {}),
     "params.yaml: groups.my group is 'my group'; string should match"),
    (_define("groups", "one", {"tasks": "sMNIST"}), "tasks is 'sMNIST'; input should be a list"),
    (lambda c: c.update(more=1), "unknown parameter more; remove it"),
    (lambda c: c["profiles"].update({"a; b": {}}), "is 'a; b'; string should match pattern"),
    (lambda c: c["base"].update({1: {}}), "base has the key 1; expected printable text"),
    (lambda c: c["base"]["tasks"].update(x=[1]), r"tasks.x is \[1\]; input should be a mapping"),
    (lambda c: c["base"]["tasks"]["sMNIST"]["set"].update(dataset=["x"]), r"dataset is \['x'\]; "),
    (_define("networks", "x", {"cell": "lem", "set": {"drops": 3}}),
     r"networks.x.set.drops is 3; input should be a list, such as \[a, b\]"),
])  # fmt: skip
def test_a_wrong_setting_is_named(content, change, complaint):
    change(content)
    with pytest.raises(ParameterError, match=complaint) as caught:
        profile_of(content)
    assert len(str(caught.value)) < 1000


ALIASES = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGES = "a0: &a0 {x: 1, y: 2, z: 3}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}], k{n}: 1}}\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"profile:\n\tquick", "line 2, column 1: "),
        (b"a: 1\na: 2\n", "line 2, column 1: found duplicate key"),
        (b"!!python/object:os.system x", "could not determine a constructor|the file is"),
        (b"just text", "the file is 'just text'; input should be a mapping"),
        (b"", r"the file is empty \(null\); input should be a mapping"),
        (b"a:\n  b: 1\n c: 2", r"line 3, column 2 \(in what begins in line 1\): this line is ind"),
        (b"a: 1\n  b: 2", "line 2, column 4: a second `key:` is not allowed here; perhaps"),
        (b"a: 1\nb 2\nc: 3", r"line 3, column 1 \(in what begins in line 2\): could not find"),
        (
            b"profile:\nbase: {}\nprofiles: {}",
            r"profile is empty \(null\); expected the name of a profile, such as quick$",
        ),
        (b"profile: 5\nbase: {}\nprofiles: {}", "profile is 5; expected the name of a profile"),
        (
            b"profile: a\nreproducible: yes\nbase: {}\nprofiles: {}",
            "reproducible is 'yes'; input should be true or false",
        ),
        (b"\xff\xfe", "'utf-8' codec can't decode"),
        (b"a: !!int x", "cannot be read: invalid literal for int"),
        (b"[" * 3000, "cannot be read: maximum recursion depth"),
        (b"a: 2026-01-01", "a is datetime.date.*; expected a finite number or printable text"),
        (b"? [a, b]\n: c", "has the key .*; expected printable text"),
        (b"a: &b [*b]", "line 1: a value contains itself; remove the alias"),
        (b"a: " + b"[" * 14 + b"]" * 14, "is nested more than 12 levels deep"),
        (b"a: 0x" + b"f" * 4000, "line 1: a value has 4,002 characters; expected printable text"),
        (b"a: 0x" + b"f" * 400, "a is .*; expected a finite number"),
        (ALIASES.encode(), "more than 200,000 values after expanding aliases"),
        (MERGES.encode(), "more than 200,000 values after expanding aliases"),
        (b"#" * 3_000_000, "has 3,000,000 bytes; expected at most 2,000,000"),
    ],
)
def test_a_damaged_file_is_refused_in_one_sentence(tmp_path, text, complaint):
    path = tmp_path / "params.yaml"
    path.write_bytes(text)
    with pytest.raises(ParameterError, match=complaint) as caught:
        read_params(path)
    assert "\n" not in str(caught.value)


def test_missing_files_profiles_and_groups_are_named(tmp_path):
    with pytest.raises(ParameterError, match=r"params.yaml cannot be read: .*No such file"):
        read_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("profile: fast\nbase: {}\nprofiles: {quick: {}}")
    with pytest.raises(ParameterError, match="unknown profile 'fast'; choose one of quick"):
        merge_profile(path=tmp_path / "params.yaml")
    for name in ("fast", "x" * 5000):
        with pytest.raises(ParameterError, match="unknown profile .*; choose one of") as caught:
            load_profile(name)
        assert len(str(caught.value)) < 300
    with pytest.raises(
        ParameterError, match="smoke has no group 'pixles'; did you mean pixels.* in all"
    ):
        loaded("smoke").plan("pixles")
    with pytest.raises(ParameterError, match="no group 'pixles'; did you mean pixels, "):
        loaded("smoke").count("pixles")  # which notebook 10 asks first


def test_every_design_has_a_section():
    later = {name for name, field in Sections.model_fields.items() if field.annotation is Any}
    assert later == set(DESIGNS)


def test_a_job_has_one_level_of_every_factor():
    section = {**sections("smoke")["linear_gaps"], "place": [3, 5], "orthogonality": [0, 0.5]}
    design = parse_section(DESIGNS["linear_gaps"].design, section, "linear_gaps")
    jobs = list(design.configs())
    assert [(job.place, job.orthogonality) for job in jobs] == [(3, 0), (3, 0.5), (5, 0), (5, 0.5)]
    assert [job.replicate for job in design.copy_with(replicates=2).configs()][:2] == [0, 1]
    with pytest.raises(ValueError, match="frozen"):
        design.replicates = 5


def test_the_command_prints_profile_or_error(capsys):
    assert main(["smoke"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Profile smoke of params.yaml is valid: ")
    assert "\nfactorial " in printed
    # Names of tasks contain commas.
    assert "2 tasks: rows, beginning; rows, end\n" in printed
    assert main(["fast"]) == 2
    assert "unknown profile 'fast'" in capsys.readouterr().err


def test_a_reader_that_closes_the_pipe_ends_the_list_quietly():
    command = [sys.executable, "-m", "study.training", "smoke"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.close()  # as `head` does when it has read enough
        assert run.stderr.read() == b""


def test_the_file_survives_being_rewritten_by_dvc(tmp_path, whole):
    """`dvc exp run -S` reads and writes the file with wrapped lines; the values stay the same."""
    from dvc.utils.hydra import apply_overrides

    path = tmp_path / "params.yaml"
    path.write_bytes((ROOT / "params.yaml").read_bytes())
    apply_overrides(path, ["profile=smoke"])
    assert read_params(path) == whole | {"profile": "smoke"}


def test_names_in_the_configuration_match_the_code():
    assert set(get_args(Measure)) == set(MEASURED) == set(_METHODS)
    assert set(get_args(Network.model_fields["head"].annotation)) == set(HEADS)
    assert set(get_args(Optimizer)) == set(OPTIMIZERS)
    assert set(get_args(Recipe.model_fields["objective"].annotation)) == set(PENALTY_WEIGHTS)


if __name__ == "__main__":
    with EXPANSION.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["profile", "group", "runs", "jobs", "digest"])
        for profile in PROFILES:
            writer.writerows(expansion(profile))
