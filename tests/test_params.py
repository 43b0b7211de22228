"""`params.yaml`: what it must hold, and the sentence for each thing that may be wrong with it."""

import copy
import functools

import pytest

from lib.experiments import EXPERIMENTS, load_profile
from lib.paths import ROOT
from lib.run import params
from lib.run.params import ParameterError, designs, merged, read_params

PROFILES = ("smoke", "quick", "real", "paper")
loaded = functools.cache(load_profile)


@pytest.fixture(scope="module")
def whole():
    return read_params()


@pytest.fixture
def content(whole):
    return copy.deepcopy(whole)


def _load(content, profile="quick"):
    """Load a profile of what a file would hold: to write and to read that takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(params, "read_params", lambda _: content)
        params._check_outline("params.yaml", content)
        return load_profile(profile)


@pytest.mark.parametrize("name", PROFILES)
def test_the_repository_s_own_parameters_are_valid(name):
    profile = loaded(name)
    for dataset in profile.designs:
        assert profile.jobs_of(dataset)


def test_there_is_one_base_and_small_differences():
    assert tuple(read_params()["profiles"]) == PROFILES


def test_paper_states_the_design_of_table_1_2():
    (design,) = loaded("paper").designs["factorial"]
    assert len(loaded("paper").jobs_of("factorial")) == 42000
    assert design.replicates == 10
    assert design.width == (128, 256)
    assert design.learning_rate == (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    assert design.training_length == (25, 50)
    assert design.batch_size == 32
    assert design.train_size == design.test_size == design.probe_size == 0, "all of the data"
    assert set(design.dataset) == {"cifar10", "fashion_mnist", "imdb", "mnist", "reuters"}


def test_real_covers_all_tasks_and_cells():
    (real,), (paper,) = (loaded(name).designs["factorial"] for name in ("real", "paper"))
    assert set(real.dataset) == set(paper.dataset)
    assert set(real.architecture) == set(paper.architecture)
    assert len(real.dataset) * len(real.order) * len(real.noise) == 30
    assert len(real.learning_rate) >= 2


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"widths": [3]}, "unknown parameter factorial.widths; remove it or correct"),
        ({"replicates": 0}, r"factorial.replicates is 0; .*greater than 0"),
        ({"replicates": True}, r"factorial.replicates is True; .*valid integer"),
        ({"replicates": "2"}, r"factorial.replicates is '2'; .*valid integer"),
        ({"learning_rate": [2.0]}, r"learning_rate.0 is 2.0; .*less than or equal to 1"),
        ({"learning_rate": ["1e-3x"]}, "learning_rate.0 is '1e-3x'; .*valid number"),
        ({"noise": ["pre"]}, "noise.0 is 'pre'; .*'none', 'post' or 'uniform'"),
        ({"width": [4, 4]}, "levels must differ from each other"),
        ({"width": 10**12}, "width.0 is 1000000000000; .*less than or equal"),
        ({"architecture": []}, "architecture is .*at least 1 item"),
        ({"architecture": "lstn"}, "unknown architecture 'lstn'"),
        ({"dataset": "mnits"}, "factorial reads the data set 'mnits', which data.datasets does"),
        ({"start": "friend"}, "start is 'friend'; .*'text' or 'author'"),
    ],
)
def test_a_wrong_setting_is_named(content, change, complaint):
    content["base"]["factorial"].update(change)
    with pytest.raises(ParameterError, match=complaint):
        _load(content)


@pytest.mark.parametrize(
    "change, complaint",
    [
        (
            {"cell": "lem", "hyper_parameters": {"dtt": 1}},
            "lem: expected hyper-parameters among dt",
        ),
        ({"task": {"task": "pixles"}}, "unknown task 'pixles'; known: adding"),
        ({"task": {"pol": 2}}, "task 'pixels' has no setting 'pol'; it has dataset"),
        ({"epochs": 0}, "expected either epochs or steps, got 0 and 0"),
        ({"head": "cold"}, "head is 'cold'"),
        (
            {"cell": "lem", "start": "cold"},
            "lem: expected initial weights among text, .*got 'cold'",
        ),
        ({"dropout": {"input": 1.0}}, "dropout.input is 1.0; .*less than 1"),
    ],
)
def test_a_row_that_cannot_be_trained_is_refused_when_the_file_is_read(content, change, complaint):
    group = content["base"]["supervised"]["pixels"]
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(group.get(key), dict):
            group[key].update(value)
        else:
            group[key] = value
    if "cell" in change:
        group["grids"] = [{"label": "one", "width": 4, "learning_rate": 0.1}]
    with pytest.raises(ParameterError, match=complaint):
        _load(content)


def test_what_grids_share_and_add_to_is_a_mapping(content):
    group = content["base"]["supervised"]["activity"]
    assert all("task" in grid for grid in group["grids"])
    for wrong in ([None], None, "", 0):
        group["task"] = wrong
        with pytest.raises(
            ParameterError, match=r"activity.task is .*activity.grids\[0\] adds to it"
        ):
            _load(content)


def test_changes_stand_over_the_grids_that_they_name(content):
    group = content["base"]["supervised"]["pixels"]
    group["changes"] = {
        "chrono-LSTM": {"width": 7, "hyper_parameters": {"chrono": 5}},
        "chrono-LSTM, psMNIST": {"width": 9},
    }
    found = {(d.label, d.task_label): d for d in _load(content).designs["pixels"]}
    here, there = (found[("chrono-LSTM",), (task,)] for task in ("sMNIST", "psMNIST"))
    assert (here.width, there.width) == ((7,), (9,))
    assert here.hyper_parameters == there.hyper_parameters == {"chrono": 5}
    assert found[("GRU",), ("sMNIST",)].width == (group["width"],)


def test_changes_know_a_task_that_all_grids_share(content):
    content["base"]["supervised"]["noisy_images"]["changes"] = {"UnICORNN, nCIFAR-10": {"width": 9}}
    found = {(d.label, d.task_label): d.width for d in _load(content).designs["noisy_images"]}
    assert found[("UnICORNN",), ("nCIFAR-10",)] == (9,) != found[("UnICORNN",), ("fresh noise",)]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"LSMT": {"width": 7}}, "pixels.changes: no grid is called 'LSMT'; known: GRU; .*LSTM"),
        ({"LSTM, psMINST": {}}, "no grid is called 'LSTM, psMINST'; known: .*; LSTM, psMNIST;"),
        ({"LSTM": 7}, "pixels.changes is .*; expected keys and values by label"),
        (None, "pixels.changes is None; expected keys and values by label"),
        ({"LSTM": {"label": "GRU"}}, "changes.LSTM has label; change the grid itself to rename it"),
        (
            {"LSTM": {"widht": 7}},
            r"unknown parameter supervised.pixels.changes.LSTM.widht; remove it",
        ),
    ],
)
def test_wrong_changes_are_refused(content, changes, complaint):
    content["base"]["supervised"]["pixels"]["changes"] = changes
    with pytest.raises(ParameterError, match=complaint):
        _load(content)


@pytest.mark.parametrize("name", ["None", "['LU', 'basic']"])
def test_grids_without_a_label_cannot_be_changed(content, name):
    content["base"]["adding"]["changes"] = {name: {}}
    with pytest.raises(ParameterError, match="adding.changes: no grid is called .*; known: none"):
        _load(content)


def test_what_two_grids_plan_alike_is_refused(content):
    grids = content["base"]["adding"]["grids"]
    grids.append(grids[0] | {"training_steps": 20})
    with pytest.raises(
        ParameterError, match=r"adding.grids\[\d\] plans what grids\[0\] has planned"
    ):
        _load(content)


@pytest.mark.parametrize(
    "change, complaint",
    [
        *(
            (
                {"scheduler": address},
                "jobs.scheduler is '.*'; expected 'local', or a scheduler such",
            )
            for address in ("somewhere", "file://a:1", "http://a:1", "inproc://x:1", "tcp://a:0")
        ),
        ({"workers": -1}, "workers is -1; .*greater than or equal to 0"),
    ],
)
def test_a_wrong_place_for_jobs_is_named(content, change, complaint):
    content["base"]["jobs"].update(change)
    with pytest.raises(ParameterError, match=complaint):
        _load(content)


@pytest.mark.parametrize(
    "change, complaint",
    [
        (lambda c: c["base"]["data"].update(datasets=["mnits"]), "unknown data set 'mnits'; known"),
        (
            lambda c: c["base"].update(studdy={}),
            "no experiment is called 'studdy'; expected one of",
        ),
        (lambda c: c["base"].pop("adding"), "profile quick has no section adding; add it to base"),
        (lambda c: c.update(profile="fast"), "profile is 'fast'; choose one of smoke, quick"),
        (lambda c: c.update(more=1), "expected the keys profile, base and profiles, got"),
        (
            lambda c: c["profiles"].update({"a; b": {}}),
            "a profile is called 'a; b'; expected letters",
        ),
        (
            lambda c: c["base"]["jobs"].update(workers=float("inf")),
            "workers is inf; expected a fin",
        ),
        (lambda c: c["base"].update({1: {}}), "base has the key 1; expected text"),
    ],
)
def test_a_wrong_outline_is_named(content, change, complaint):
    change(content)
    with pytest.raises(ParameterError, match=complaint):
        _load(content)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("profile:\n\tquick", "line 2, column 1: .*tab|line 2, column 1: "),
        ("profile: [quick", "line 1"),
        ("a: 1\na: 2\n", "line 2, column 1: found duplicate key"),
        ("!!python/object:os.system x", "could not determine a constructor|expected the keys"),
        ("just text", "expected the keys profile, base and profiles, got str"),
        (b"\xff\xfe", "is no UTF-8; save the file as text"),
    ],
)
def test_what_is_no_yaml_is_one_sentence(tmp_path, text, complaint):
    path = tmp_path / "params.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ParameterError, match=complaint) as caught:
        read_params(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ParameterError, match=r"no parameters at .*; restore the file from Git"):
        read_params(tmp_path / "params.yaml")


def test_an_unknown_profile_lists_the_known_ones():
    with pytest.raises(ParameterError, match="unknown profile 'fast'; choose one of smoke, quick"):
        load_profile("fast")


def test_a_profile_stands_over_the_base(content):
    content["profiles"]["quick"] = {"factorial": {"width": 5}}
    (changed,) = _load(content).designs["factorial"]
    assert changed.width == (5,)
    assert changed.batch_size == content["base"]["factorial"]["batch_size"]


def test_numbers_are_read_as_yaml_1_2(tmp_path):
    text = (
        (ROOT / "params.yaml")
        .read_text()
        .replace("learning_rate: 0.001\n", "learning_rate: 1e-3\n")
    )
    assert "1e-3\n" in text
    path = tmp_path / "params.yaml"
    path.write_text(text)
    assert merged("quick", path) == merged("quick")


def test_a_job_has_one_level_of_every_factor():
    kind = EXPERIMENTS["linear_gaps"].design
    section = {**merged("smoke")["linear_gaps"], "place": [3, 5], "orthogonality": [0, 0.5]}
    (design,) = designs(kind, section, "linear_gaps")
    jobs = list(design.jobs())
    assert [(job.place, job.orthogonality) for job in jobs] == [(3, 0), (3, 0.5), (5, 0), (5, 0.5)]
    assert [job.replicate for job in design.at(replicates=2).jobs()][:2] == [0, 1]


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        loaded("quick").designs["factorial"][0].replicates = 5
