"""`params.yaml`: what it must hold, and the sentence for each thing that may be wrong with it."""

import copy

import pytest
from ruamel.yaml import YAML

from lib.paths import ROOT
from lib.run.params import PROFILES, ParameterError, load_params, load_profile


@pytest.fixture
def content():
    return YAML(typ="safe", pure=True).load((ROOT / "params.yaml").read_text())


def _load(content, tmp_path):
    path = tmp_path / "params.yaml"
    with path.open("w") as file:
        YAML().dump(copy.deepcopy(content), file)
    return load_params(path)


def test_the_repository_s_own_parameters_are_valid():
    params = load_params()
    assert set(params.profiles) == set(PROFILES)


def test_paper_states_the_design_of_table_1_2():
    study, data = load_profile("paper").study, load_profile("paper").data
    treatments = (
        len(study.architectures)
        * len(study.widths)
        * len(study.learning_rates)
        * len(study.training_lengths)
        * len(data.datasets)
        * len(study.orders)
        * len(study.noises)
    )
    assert treatments == 4200
    assert treatments * study.replicates == 42000
    assert study.widths == (128, 256)
    assert study.learning_rates == (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    assert study.training_lengths == (25, 50)
    assert study.batch_size == 32
    assert study.train_size == study.test_size == study.probe_size == 0, "all of the data"
    assert set(data.datasets) == {"cifar10", "fashion_mnist", "imdb", "mnist", "reuters"}


def test_real_covers_all_tasks_and_cells():
    study, data = load_profile("real").study, load_profile("real").data
    paper = load_profile("paper")
    assert set(data.datasets) == set(paper.data.datasets)
    assert set(study.architectures) == set(paper.study.architectures)
    assert len(data.datasets) * len(study.orders) * len(study.noises) == 30
    assert len(study.learning_rates) >= 2
    assert study.replicates >= 2


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"width": [3]}, "unknown parameter profiles.quick.study.width; remove it or correct"),
        ({"replicates": 0}, r"profiles.quick.study.replicates is 0; .*greater than 0"),
        ({"learning_rates": [2.0]}, r"learning_rates.0 is 2.0; .*less than or equal to 1"),
        ({"learning_rates": ["1e-3x"]}, "learning_rates.0 is '1e-3x'; .*valid number"),
        ({"noises": ["pre"]}, "noises.0 is 'pre'; .*'none', 'post' or 'uniform'"),
        ({"widths": [4, 4]}, "levels must differ from each other"),
        ({"architectures": []}, "architectures is .*at least 1 item"),
        ({"flush_denormals": "perhaps"}, "flush_denormals is 'perhaps'"),
    ],
)
def test_a_wrong_study_setting_is_named(content, tmp_path, change, complaint):
    content["profiles"]["quick"]["study"].update(change)
    with pytest.raises(ParameterError, match=complaint):
        _load(content, tmp_path)


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"scheduler": "somewhere"}, "profiles.quick.jobs.scheduler is 'somewhere'"),
        ({"workers": -1}, "workers is -1; .*greater than or equal to 0"),
    ],
)
def test_a_wrong_place_for_jobs_is_named(content, tmp_path, change, complaint):
    content["profiles"]["quick"]["jobs"].update(change)
    with pytest.raises(ParameterError, match=complaint):
        _load(content, tmp_path)


def test_an_unknown_dataset_lists_the_known_ones(content, tmp_path):
    content["profiles"]["quick"]["data"]["datasets"] = ["mnits"]
    with pytest.raises(ParameterError, match="unknown dataset 'mnits'; known: .*mnist"):
        _load(content, tmp_path)


def test_a_missing_profile_is_named(content, tmp_path):
    del content["profiles"]["real"]
    with pytest.raises(ParameterError, match="profile 'real' is missing"):
        _load(content, tmp_path)


def test_an_unknown_profile_lists_the_known_ones():
    with pytest.raises(ParameterError, match="unknown profile 'fast'; choose one of smoke, quick"):
        load_profile("fast")


def test_numbers_are_read_as_yaml_1_2(tmp_path):
    before = load_params()
    text = (ROOT / "params.yaml").read_text().replace("- 0.001\n", "- 1e-3\n")
    assert "- 1e-3\n" in text
    path = tmp_path / "params.yaml"
    path.write_text(text)
    assert load_params(path) == before


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        load_profile("quick").study.replicates = 5
