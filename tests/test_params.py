"""`params.yaml`: what it must hold, and the sentence for each thing that may be wrong with it."""

import copy
from typing import get_args

import pytest
from designs import loaded, profile_of, rows_of, sections
from longrnn.cells import cell_class, cell_names
from study.config.file import merged, read_params
from study.config.measurement import Measure
from study.config.network import Network
from study.config.recipe import OPTIMISERS, WEIGHTS, Optimiser, Recipe
from study.config.section import ParameterError, checked
from study.results.rows import MEASURED
from study.tasks import find_task
from study.training.__main__ import main
from study.training.model import HEADS
from study.training.profile import DESIGNS, load_profile
from study.training.rows import Row


@pytest.fixture(scope="module")
def whole():
    return read_params()


@pytest.fixture
def content(whole):
    """The file's content with three of its tables, to change."""
    content = copy.deepcopy(whole)
    tables = content["base"]["trainings"]
    few = "pixels", "noisy_images", "long_memory"
    content["base"]["trainings"] = {name: tables[name] for name in few}
    return content


@pytest.mark.parametrize("name", ["smoke", "quick", "real", "paper"])
def test_the_repository_s_own_parameters_are_valid(name):
    profile = loaded(name)
    for dataset, rows in profile.designs.items():
        names = {str(getattr(row, "run", row)) for row in rows}
        assert len(names) == len(rows) and profile.trainings(dataset)


def test_no_name_is_two_of_a_field_a_keyword_and_a_setting(whole):
    keywords = {key for name in cell_names() for key in cell_class(name).hyper_parameters}
    starts = {k for n in cell_names() for s in cell_class(n).starts.values() for k in s.settings}
    makers = {task["task"] for task in whole["base"]["tasks"].values()}
    settings = {k for maker in makers for k in find_task({"task": maker}).settings.model_fields}
    kinds = (Row.fields(), keywords, starts, settings - {"steps"})
    assert sum(map(len, kinds)) == len(set().union(*kinds))


ONE = {"width": 4, "learning_rate": 0.1, "batch_size": 2, "records": 1, "steps": 2, "test_draws": 2}


@pytest.mark.parametrize("network, shared, complaint", [
    *(({name: {key: 1}}, {}, said) for name, key, said in (("LEM", "dtt", "unknown parameter .*networks.LEM.dtt; expected .*lem's keywords"), ("LEM", "task", "unknown parameter .*networks.LEM.task"), ("RNN", "kappa", "networks.RNN gives kappa without its objective"))),
    ({"LEM": {"dt": "fast"}}, {}, "lem: expected dt to be a number"),
    ({"LSMT": {}}, {}, "networks has 'LSMT', which is none of networks: LSTM.* in all"),
    ({"LEM": {"tasks": ["N=11"]}}, {}, "tasks has 'N=11', which is none of tasks"),
    ({"LEM": {}, "LSTM": {"tasks": []}, "GRU": []}, {}, "no training of GRU, LSTM; name its tasks, or leave it out"),
    ({"LEM": {"start": "cold"}}, {}, "lem: expected initial weights among text"),
    ({"LEM": {"width": [4, 4]}}, {}, "width is .*; levels must differ from each other"),
    *(({"LEM": {key: given}}, {}, said) for key, given, said in (("label", "LEM {dtt}", "label of .* is 'LEM {dtt}'; expected text, with names among .*width"), ("label", 5, "label of .* is 5; expected text"), ("cell", ["lem", "lstm"], "cell is .*'lstm'.; unknown architecture"))),
    ({"LEM": [{}, {"label": "L"}]}, {}, "plans one training twice, as 'LEM' and as 'L'"),
    ({"LEM": 7}, {}, "networks.LEM is 7; expected keys and values"),
    *(({"LEM": {}}, said, f"no network or task of .*table knows '{key}'; remove it") for key, said in (("dtt", {"dtt": 1}), ("inner_steps", {"inner_steps": 1}))),
    ({"LEM": {}}, {"tables": {"one": {"tables": {}}}}, "knows 'tables'; remove it"),
    ({"LEM": {}}, {"test_draws": 0}, "adding draws its sequences; give test_draws"),
    ({"RNN": {}}, {"objective": "coadjoint"}, "the objective coadjoint needs its weight; give kappa"),
    ({"RNN": {"output_dropout": 0.1}}, {"objective": "coadjoint"}, "coadjoint objective does not support output or layer dropout"),
    *(({"RNN": {"read": "all"}}, asked, f"{name}. only supports reading the last state; remove .read") for name, asked in (("coadjoint", {"objective": "coadjoint"}), ("gains", {"measures": ["gains"]}))),
    ({"LEM": {}}, {"steps": 0, "epochs": 3}, "adding draws its sequences without end; give steps"),
    ({"LEM": {}}, {"stop_below": 0.1, "validation_draws": 0}, "validation loss; give validation_d"),
    ({"LEM": {"start": [["author"]]}}, {}, "start is "),
    ({"LEM": {"objective": [["coadjoint"]]}}, {}, "objective is "),
    ({"LEM": {"dt": {"N=10": 0.1, "N=11": 1.0}}}, {}, "LEM.dt has 'N=11', which is none of tasks: "),
    ({"LEM": {}}, {"steps": 2, "records": 3}, "3 records do not fit 2 steps; ask for fewer"),
    ({"LEM": {}}, {"options": {"lr": 5}}, "options.lr.* is 'lr'; .*'eps', 'fused'"),
    ({"LEM": {}}, {"options": {"eps": True}}, "the option eps is True; expected a number"),
    ({"LEM": {}}, {"options": {"fused": 1}}, "the option fused is 1.0; expected true or false"),
    ({}, {}, "trainings.table has no rows"),
])  # fmt: skip
def test_a_table_that_cannot_be_trained_is_refused_when_it_is_read(network, shared, complaint):
    with pytest.raises(ParameterError, match=complaint):
        rows_of({"settings": ONE | shared, "tasks": ["N=10"], "networks": network})


def test_levels_readings_and_tasks():
    networks = {
        "LEM": [{"dt": {"N=10": 0.3, "N=20": [0.1, 0.2]}}, {"clip": {"i=0": 1.0, "i=1": 0.5}}],
        "LSTM": {"tasks": ["N=20"], "learning_rate": [0.00123456, 0.001234561]},
        "UnICORNN": {"tasks": ["N=10"], "layers": 2, "dt": [[0.1, 0.2]]},
    }
    table = {"settings": ONE | {"width": {"N=10": 4, "N=20": 5}}, "tasks": ["N=10", "N=20"]}
    rows = rows_of(table | {"networks": networks})
    assert [(row.label, row.task_label, row.width) for row in rows] == [
        ("LEM", "N=10", 4), ("LEM, dt=0.1", "N=20", 5), ("LEM, dt=0.2", "N=20", 5),
        ("LEM, i=0", "N=10", 4), ("LEM, i=1", "N=10", 4), ("LEM, i=0", "N=20", 5),
        ("LEM, i=1", "N=20", 5), ("LSTM", "N=20", 5), ("LSTM", "N=20", 5), ("UnICORNN", "N=10", 4),
    ]  # fmt: skip
    assert len({row.run for row in rows}) == 10, "a run is its factors, not its label"
    assert rows[-1].hyper_parameters["dt"] == [0.1, 0.2]


def test_a_name_made_for_people_identifies_nothing():
    tasks = {name: {"task": "adding", "time_steps": n} for n, name in enumerate(("c", "b, c"), 5)}
    networks = {"LEM": {"label": "a, b", "tasks": ["c"]}, "LSTM": {"label": "a", "tasks": ["b, c"]}}
    rows = rows_of({"settings": ONE, "tasks": list(tasks), "networks": networks}, tasks=tasks)
    assert len({row.run for row in rows}) == 2 and all(r.run.startswith("a, b, c") for r in rows)


def test_a_profile_stands_over_the_base(content):
    networks = {"UnICORNN": {"batch_size": 9}, "GRU": None}
    tables = {"noisy_images": {"width": 7, "networks": networks}}
    content["profiles"]["quick"] = {"factorial": {"width": 5}, "trainings": tables}
    designs = profile_of(content).designs
    (changed,) = designs["factorial"]
    assert changed.width == (5,)
    assert changed.batch_size == content["base"]["factorial"]["batch_size"]
    rows = designs["noisy_images"]
    assert {row.width for row in rows} == {7} and "GRU" not in {row.network for row in rows}
    assert {row.batch_size for row in rows if row.network == "UnICORNN"} == {9}


def _in(section, change):
    return lambda content: content["base"][section].update(change)


def _of(group, network, change):
    return lambda content: content["base"]["trainings"][group]["networks"][network].update(change)


UNFIT = "of width 32 on .* cannot .*"


@pytest.mark.parametrize("change, complaint", [
    (_in("factorial", {"widths": [3]}), "unknown parameter factorial.widths; remove it or correct"),
    *((_in(section, {"replicates": number}), f"{section}.replicates is {number}; .*{said}") for section, number, said in (("factorial", 0, "greater than 0"), ("linear_gaps", 2, "should be 1"))),
    (_in("factorial", {"replicates": 10**8}), "factorial plans 8,400,000,000 trainings; expected at most"),
    *((_in("factorial", levels), said) for levels, said in (({"learning_rate": [2.0]}, r"learning_rate.0 is 2.0; .*less than or equal to 1"), ({"width": [4, 4]}, "levels must differ from each other"))),
    *((_in("factorial", {"architecture": name}), said) for name, said in (("lstn", "unknown architecture 'lstn'"), ("x" * 400, "factorial.architecture.0 is 'x{40,90}"))),
    (_in("factorial", {"dataset": "mnits"}), "there is no data set 'mnits'; known: "),
    *((_in("jobs", {"scheduler": place}), "jobs.scheduler is '.*'; string should match .*local.*tcp.*tls") for place in ("somewhere", "file://a:1", "http://a:1", "inproc://x:1", "tcp://a:0")),
    (_of("pixels", "GRU", {"frozen": ["cell.Q"]}), f"GRU {UNFIT}no parameter is called 'cell.Q'; the model has cell.W"),
    *((_of("pixels", "GRU", {key: [value]}), f"GRU {UNFIT}{said}") for key, value, said in (("frozen", "*", "all parameters are frozen"), ("groups", {"names": "sell.*"}, r"no parameter is called 'sell.\*'"))),
    (_of("long_memory", "LSTM", {"read": "every"}), "read is 'every'; .*'' or 'all'"),
    (_of("long_memory", "LSTM", {"objective": "orthogonal", "orthogonality": 1.0}), f"LSTM {UNFIT}lstm has no recurrent matrix W"),
    (_of("noisy_images", "FastRNN", {"objective": "orthogonal", "orthogonality": 1.0}), "FastRNN .*fastrnn has no recurrent matrix W"),
    (_of("pixels", "GRU", {"width": 10**8}), "GRU of width 100000000 on .* cannot be trained: "),
    (_of("long_memory", "LSTM", {"objective": "coadjoint", "kappa": 1.0}), f"LSTM {UNFIT}coadjoint needs a task with one class"),
    *((_of("long_memory", "LSTM", {"measures": [m]}), f"LSTM {UNFIT}lstm: expected {what}.*; leave {m} out of") for m, what in (("eigenvalues", "an iRNN"), ("time_steps", "1 to 3 kinds"))),
    *((_of("pixels", name, change), f"{name} {UNFIT}{said}") for name, change, said in (("GRU", {"frozen": ["cell.*"], "measures": ["penalty"]}, "penalty needs a cell that is trained"), ("expRNN", {"objective": "coadjoint", "kappa": 1.0}, "be trained by the coadjoint method: its step"))),
    (lambda c: c["base"]["tasks"].update({"N=100": c["base"]["tasks"]["sMNIST"]}), "two tasks come to the name 'N=100'"),
    (lambda c: c["base"].update(studdy={}), "unknown parameter studdy; remove it or correct"),
    (lambda c: c["base"].pop("latching"), "latching is missing"),
    (lambda c: c["base"]["networks"].update({"x" * 5000: {"cell": "rnn"}}), "has the key .*; expected printable text of at most 500 characters"),
    (lambda c: c["base"].update(tasks=7), "tasks is 7; input should be an object"),
    (lambda c: c["base"]["trainings"].update(factorial={}), "two datasets are called 'factorial'"),
    (lambda c: c.update(more=1), "unknown parameter more; remove it"),
    (lambda c: c["profiles"].update({"a; b": {}}), "is 'a; b'; string should match pattern"),
    (lambda c: c["base"]["jobs"].update(workers=float("inf")), "workers is inf; expected a fin"),
    (lambda c: c["base"].update({1: {}}), "base has the key 1; expected printable text"),
    (lambda c: c["base"]["networks"].update({"a\x00": {"cell": "rnn"}}), "expected printable"),
    (lambda c: c["base"]["tasks"].update(x=[1]), r"tasks.x is \[1\]; input should be an object"),
    (lambda c: c["base"]["tasks"]["sMNIST"].update(dataset=["x"]), "no data set 'x'; known"),
])  # fmt: skip
def test_a_wrong_setting_or_outline_is_named(content, change, complaint):
    change(content)
    with pytest.raises(ParameterError, match=complaint) as caught:
        profile_of(content)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text, complaint",
    [
        (b"profile:\n\tquick", "line 2, column 1: "),
        (b"a: 1\na: 2\n", "line 2, column 1: found duplicate key"),
        (b"!!python/object:os.system x", "could not determine a constructor|the file is"),
        (b"just text", "the file is 'just text'; input should be an object"),
        (b"\xff\xfe", "'utf-8' codec can't decode"),
        (b"a: !!int x", "cannot be read: invalid literal for int"),
        (b"[" * 3000, "cannot be read: maximum recursion depth"),
        (b"a: 2026-01-01", "a is datetime.date.*; expected a finite number or printable text"),
        (b"? [a, b]\n: c", "has the key .*; expected printable text"),
        (b"a: &b [*b]", "at most 12 levels deep"),
    ],
)
def test_what_is_no_yaml_is_one_sentence(tmp_path, text, complaint):
    path = tmp_path / "params.yaml"
    path.write_bytes(text)
    with pytest.raises(ParameterError, match=complaint) as caught:
        read_params(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_an_unknown_profile_and_an_unknown_group_are_named(tmp_path):
    with pytest.raises(ParameterError, match=r"params.yaml cannot be read: .*No such file"):
        read_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("profile: fast\nbase: {}\nprofiles: {quick: {}}")
    with pytest.raises(ParameterError, match="unknown profile 'fast'; choose one of quick"):
        merged(path=tmp_path / "params.yaml")
    for name in ("fast", "x" * 5000):
        with pytest.raises(ParameterError, match="unknown profile .*; choose one of") as caught:
            load_profile(name)
        assert len(str(caught.value)) < 300
    with pytest.raises(ParameterError, match="smoke trains no 'pixles'; it trains pixels.* in all"):
        loaded("smoke").trainings("pixles")


def test_a_job_has_one_level_of_every_factor():
    section = {**sections("smoke")["linear_gaps"], "place": [3, 5], "orthogonality": [0, 0.5]}
    design = checked(DESIGNS["linear_gaps"], section, "linear_gaps")
    jobs = list(design.jobs())
    assert [(job.place, job.orthogonality) for job in jobs] == [(3, 0), (3, 0.5), (5, 0), (5, 0.5)]
    assert [job.replicate for job in design.at(replicates=2).jobs()][:2] == [0, 1]
    with pytest.raises(ValueError, match="frozen"):
        design.replicates = 5


def test_the_command_says_what_a_profile_asks_for_or_what_is_wrong(capsys):
    assert main(["smoke"]) == 0 and "factorial " in capsys.readouterr().out
    assert main(["fast"]) == 2 and "unknown profile 'fast'" in capsys.readouterr().err


def test_names_in_the_configuration_match_the_code():
    assert set(get_args(Measure)) == set(MEASURED)
    assert set(get_args(Network.model_fields["head"].annotation)) == set(HEADS)
    assert set(get_args(Optimiser)) == set(OPTIMISERS)
    assert set(get_args(Recipe.model_fields["objective"].annotation)) == set(WEIGHTS)
