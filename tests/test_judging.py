"""Judges agree with data in which a claim is true, and not with data in which it is false."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from claim_verdicts import (
    CLAIMS,
    COMPARED,
    KNOWN_FILE,
    NUMBERS,
    between,
    estimated,
    judgments_of_false_data,
    stored_results,
    true_of,
    verdict_of,
    verdicts_on_evidence,
)
from evidence_for_comparisons import evidence
from evidence_for_judges import (
    FALSE,
    IN_NOTEBOOKS,
    JUDGES,
    TRUE,
    coadjoint,
    deciding,
    failing,
    linear,
    reversal,
    work,
)
from refusals import refused
from study.claims import extremes
from study.claims.claim import ClaimError, NetworkSelection
from study.claims.coadjoint_gaps import smallest_share_learned
from study.claims.comparisons import lead
from study.claims.error_rates import FRAGILE
from study.claims.estimates import ByVerdict, Cause, Estimate, Scale, gather
from study.claims.estimating import ESTIMATORS
from study.claims.factorial import Evidence
from study.claims.intervals import proportion
from study.claims.judging import (
    TOYS,
    judge_group,
    judged_row,
    sentences,
)
from study.claims.listed import claim_table, claims, read_claims
from study.claims.networks import Networks
from study.claims.operations import work_ratio
from study.claims.region import Region
from study.claims.reversal import largest_error
from study.claims.short_runs import barred_verdicts, lead_caveat
from study.claims.traits import TRAITS
from study.claims.unmeasured import UNMEASURED, list_unmeasured
from study.claims.verdict import (
    AGREES,
    DIFFERS,
    ENOUGH_POWER,
    UNDECIDED,
    UNTESTABLE,
    decide,
    verdict_on,
)
from study.paths import NOTEBOOKS, REFERENCE
from study.results.datasets import load
from study.results.published import artifacts

DRAWS = 12
"""Draws of false data; `make exhaustive` draws more."""
LISTED = claim_table()
GATED = CLAIMS["unicornn-4-imdb-gated"]
KNOWN = pd.read_csv(KNOWN_FILE, index_col="id")
TOLERANCE = 1e-6
"""Relative tolerance of estimates and ends of intervals.

Draws have fixed seeds, so only the rounding of sums depends on the processor. With NumPy and
OpenBLAS limited to SSE4.2, no number moved by more than 1.4e-11 of itself against AVX-512. The file
has seven digits, which are right to 5e-7.
"""
FIRST_OF_ESTIMATOR = {claim.comparison.estimator: claim.id for claim in reversed(COMPARED)}.values()


# the list


def test_claims_are_complete_and_have_one_judge():
    for column in ("paper", "section", "statement", "quantity", "unit", "region", "refuted_by"):
        assert (LISTED[column] != "").all(), column
    assert set(LISTED["artifact"]) <= set(artifacts()["id"])
    assert {claim.comparison.estimator for claim in COMPARED} <= set(ESTIMATORS)
    assert set(TRAITS) == set(ESTIMATORS)
    judged = [claim for judges in JUDGES.values() for claim in judges]
    assert sorted(judged) == sorted(FALSE)
    compared = [claim.id for claim in COMPARED]
    assert sorted([*judged, *IN_NOTEBOOKS, *UNMEASURED, *compared]) == sorted(CLAIMS)
    judging = "".join(path.read_text("utf-8") for path in NOTEBOOKS.glob("*.ipynb"))
    for claim in (*IN_NOTEBOOKS, *UNMEASURED):
        assert f'\\"{claim}\\"' in judging, claim


def changed(**change):
    """Return what is estimated for a claim with other settings, on data in which it is true."""
    comparison = GATED.comparison.model_copy(update=change)
    return estimated(true_of(GATED), GATED.model_copy(update={"comparison": comparison}))


def two_pairs_in_a_bounded_region():
    region = {"region": Region(above=1.0, below=2.0)}
    return estimated(true_of(GATED), GATED.model_copy(update=region))


test_an_invalid_claim_is_named = refused(
    ClaimError,
    ("expected one of lead", lambda: changed(estimator="beats")),
    ("write a claim for each", two_pairs_in_a_bounded_region),
    ("about the group 'imdb'; .*reviews", lambda: judge_group(true_of(GATED), "imdb")),
)


MADE_UP = (
    "region: {{above: 0}}\n"
    "  comparison: {{group: a, estimator: lead, tasks: [b], networks: [c], paper_steps: 1, {}}}"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("region: {above: 2, below: 1}", "field 'region'.*contains nothing or everything"),
        ("region: {above: high}", "field 'region.above'"),
        ("region: {above: 0}\n  color: red", "field 'color'"),
        ("region: {above: 0}\n  7: red", "field '7"),
        (MADE_UP.format("measure: bit"), "'comparison.measure': 'bit' is not a m.*; .*, bits$"),
        ("region: {above: 0}\n  comparison: {group: a, estimator: lead}", "paper_steps"),
        ("region: {above: 0}\n  paper: irnn", "names a paper; remove it"),
    ],
)
def test_an_invalid_list_names_claim_and_field(tmp_path, text, message):
    whole = (
        "- id: lem-x\n  section: '1'\n  statement: a\n  artifact: b\n"
        "  quantity: c\n  unit: points\n  refuted_by: d\n"
    )
    path = tmp_path / "lem.yaml"
    path.write_text(f"{whole}  region: {{above: 0}}\n")
    assert read_claims(path)[0].region == Region(above=0)
    path.write_text(f"{whole}  {text}\n")
    with pytest.raises(ClaimError, match=f"lem.yaml: lem-x.*{message}"):
        read_claims(path)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ("", "field 'unit': it is missing; add it"),
        ("  unit: ''\n", "'' is not a unit; give the words that follow the value"),
        ("  unit: share\n", "'share' is not a unit; .*`share of the runs`"),
        ("  unit: times as large\n", "'times as large' is not a unit"),
        ("  unit: share of the runs\n", None),
    ],
)
def test_missing_or_vague_units_are_refused(tmp_path, unit, message):
    path = tmp_path / "lem.yaml"
    path.write_text(
        f"- id: lem-x\n  section: '1'\n  statement: a\n  artifact: b\n  quantity: c\n{unit}"
        "  region: {above: 0}\n  refuted_by: d\n"
    )
    if message is None:
        assert read_claims(path)[0].unit == "share of the runs"
    else:
        with pytest.raises(ClaimError, match=message):
            read_claims(path)


def test_units_fit_the_estimators_of_claims():
    """By estimator and measure, where these leave no choice."""
    for claim in COMPARED:
        comparison = claim.comparison
        unit = claim.unit
        if comparison.estimator == "longer":
            assert unit == "times as many steps", claim.id
        elif comparison.estimator in ("ratio", "share_of_chance", "memoryless", "span"):
            assert unit.startswith("times the "), claim.id
        elif comparison.estimator == "decay":
            assert unit.startswith("times the ") == bool(comparison.others), claim.id
        elif comparison.estimator in ("lead", "apart") and not comparison.measure:
            assert unit == "points", claim.id
        elif comparison.estimator == "power_law":
            assert unit == "nats per step", claim.id
        else:
            assert not unit.startswith("times"), claim.id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lem.yaml holds no list of claims"),
        ("id: lem-x\n", "lem.yaml holds no list of claims"),
        ("- lem-x\n", "lem.yaml: 'lem-x' is not a claim; begin each with `- id: ...`"),
    ],
)
def test_a_file_without_a_list_of_claims_is_refused(tmp_path, text, message):
    path = tmp_path / "lem.yaml"
    path.write_text(text)
    with pytest.raises(ClaimError, match=message):
        read_claims(path)


def test_every_share_can_be_refuted():
    """However many runs fail, an interval that begins at zero is not outside of "above zero"."""
    none = proportion(0, 5000)
    assert decide(none, Region(above=0), 0.02).verdict == UNDECIDED
    may_be_negative = ("share of the variance", "share of the time steps")
    for claim in CLAIMS.values():
        if claim.unit.startswith("share of the ") and claim.unit not in may_be_negative:
            full = proportion(5000, 5000)
            verdicts = {decide(share, claim.region).verdict for share in (none, full)}
            assert verdicts == {AGREES, DIFFERS}, claim.id


# false and true data


@pytest.mark.parametrize("name", [*FALSE, *IN_NOTEBOOKS])
def test_judges_reject_false_data(name):
    judgments = judgments_of_false_data(name, DRAWS)
    agreeing = [one for one in judgments if verdict_of(name, one) == AGREES]
    assert len(agreeing) <= 1
    # The judge did look: false data must not merely be unreadable to it.
    unknown = [one for one in judgments if not one.known]
    assert len(unknown) < DRAWS / 2


@pytest.mark.parametrize("name", TRUE)
def test_judges_accept_true_data(name):
    (judge,) = (judges[name] for judges in JUDGES.values() if name in judges)
    rng = np.random.default_rng(21)
    for _ in range(2):
        assert verdict_of(name, judge(TRUE[name](rng))) == AGREES


def test_recovered_states_are_judged_by_their_worst_setting():
    rng = np.random.default_rng(21)
    for claim in ("unicornn-2.3-states", "unicornn-2.3-gradients"):
        estimate = largest_error(reversal(rng))
        assert verdict_of(claim, estimate) == AGREES
        assert estimate.about == ("EigenWorms", "smooth noise")
        assert "weights are random" in judged_row(claim, estimate)["caveat"]
        assert "in the other 5 settings and inputs the error is at most" in estimate.notes[-1]
    one_seed = reversal(rng).query("seed == 0")
    assert largest_error(one_seed).cause is Cause.NO_SEEDS


def test_the_count_that_favors_the_claim_decides():
    rng = np.random.default_rng(21)
    first, second = work(rng, least=0.5)
    estimate = work_ratio(first, second)
    assert estimate.low == estimate.high == estimate.value
    assert 0.5 < estimate.value <= first["flop"] / second["flop"]
    assert verdict_of("irnn-4.2-overhead", estimate) == AGREES
    assert math.isnan(judged_row("irnn-4.2-overhead", estimate)["p"])


def test_unmeasured_claims_are_not_testable():
    rows = list_unmeasured(UNMEASURED)
    assert rows["id"].tolist() == list(UNMEASURED)
    assert set(rows["verdict"]) == {UNTESTABLE}
    assert set(rows["cause"]) == {Cause.NO_DATA}
    assert (rows["note"] != "").all()


@pytest.mark.parametrize("name", [claim.id for claim in COMPARED])
def test_estimators_agree_with_true_data_only(name):
    claim = CLAIMS[name]
    # The first claim of an estimator tests the estimator, the others the regions of their claims.
    draws = DRAWS if name in FIRST_OF_ESTIMATOR else 3
    false = verdicts_on_evidence(claim, draws, true=False)
    assert false.count(AGREES) <= 1
    assert false.count(UNTESTABLE) < draws / 2
    true_draws = 2 if name in FIRST_OF_ESTIMATOR else 1
    assert verdicts_on_evidence(claim, true_draws, true=True) == [AGREES] * true_draws


# data that say nothing of a claim


def test_claims_that_shuffled_data_support_are_marked():
    """Models of accuracies that are unrelated to the metric support no claim of an effect."""
    rng = np.random.default_rng(5)
    draws = 10
    agreed = []
    for _ in range(draws):
        ds = deciding(True)(rng).ds.copy(deep=True)
        size = ds["status"].size
        metric = ds["adjoint_first"].values.reshape(size, -1)[rng.permutation(size)]
        ds["adjoint_first"].values[:] = metric.reshape(ds["adjoint_first"].shape)
        shuffled = Evidence(ds)
        for name in (name for name in JUDGES if "models" in name):
            agreed += JUDGES[name](shuffled).query("verdict == @AGREES")["id"].tolist()
    counts = pd.Series(agreed).value_counts()
    often = counts.index[counts > 0.3 * draws]
    assert len(often), "the metric explains too little to see what a claim of no effect says of it"
    assert LISTED.loc[often, "denies_effect"].all(), often


# runs shorter than the paper's

STAYS = True
GOES = False
SHORT_RUNS = [  # claim, and whether "agrees", and what is not "agrees", outlast half of the steps
    ("lem-5-ptbchar-gated", STAYS, GOES),  # a lead in bits
    ("lem-5-ptbword-lstm", STAYS, GOES),  # a ratio of perplexities
    ("unicornn-4-ablation-dt", STAYS, GOES),  # networks that are apart
    ("lem-5-adding-lem", STAYS, GOES),  # a network learns
    ("irnn-4.3.1-easily", STAYS, GOES),
    ("irnn-4.3.1-copy", STAYS, GOES),
    ("lem-5-adding-lstm", GOES, STAYS),  # a network fails
    ("unicornn-vitals-lstm", GOES, STAYS),
    ("unicornn-4-imdb-gated", STAYS, GOES),  # no worse, and ahead where it is true
    ("lem-5-psmnist-cornn", GOES, GOES),  # networks are alike
    ("unicornn-4-ablation-alpha", GOES, GOES),
    ("unicornn-E-spread-imdb", GOES, GOES),  # a spread
    ("lem-B2-smnist-power", GOES, GOES),  # time steps
    ("unicornn-4-timesteps", GOES, GOES),
    ("irnn-4.2-gradient", GOES, GOES),  # gradients
    ("lem-5-adding-faster", STAYS, STAYS),  # training steps
    ("irnn-4.2-300", STAYS, STAYS),
]


@pytest.mark.parametrize("true", [True, False])
@pytest.mark.parametrize(("name", "agrees", "differs"), SHORT_RUNS)
def test_short_runs_bar_verdicts_they_explain(name, agrees, differs, true):
    """Half of the paper's steps explain that an advantage is missing, not that it is there."""
    claim = CLAIMS[name]
    ds = evidence(claim, np.random.default_rng(3), true=true)
    full = verdict_on(estimated(ds, claim), claim)
    short = verdict_on(estimated(ds.assign(steps=ds["steps"] // 2), claim), claim)
    assert (full.verdict == AGREES) == true
    assert "steps" not in full.reason
    if agrees if true else differs:
        assert short.verdict == full.verdict
    else:
        assert (short.verdict, short.cause) == (UNTESTABLE, Cause.TOO_SMALL)
        assert "our runs take" in short.reason or short.power < ENOUGH_POWER


def test_a_lead_in_short_runs_may_vanish():
    """That is why a lead in short runs has a caveat (`study.claims.short_runs`)."""
    networks = Networks(load(REFERENCE / "real" / "pixels.nc")).on_task("sMNIST")
    early = lead(networks, NetworkSelection(label="LEM", best="dt"), "LSTM")
    late = lead(networks, "LEM, all steps", "LSTM, all steps")
    assert early.low > 20 and early.value == pytest.approx(40, abs=5)
    assert late.low < 0 < late.high < 10
    short = CLAIMS["lem-5-smnist-lstm"].comparison.steps / 6
    assert networks.steps_trained("LSTM") < short < networks.steps_trained("LSTM, all steps")


def test_short_runs_agree_with_no_worse_if_ahead():
    claim = GATED
    ahead = between(1.0, 3.0)
    level = between(-0.5, 3.0)
    assert barred_verdicts("lead", claim.region, ahead) == (False, True)
    assert barred_verdicts("lead", claim.region, level) == (True, True)
    assert lead_caveat(claim, 474).endswith("the lead may only reflect faster learning")
    ratio = Region(below=1.2)
    assert not barred_verdicts("ratio", ratio, between(0.8, 0.9)).agrees
    assert barred_verdicts("ratio", ratio, between(0.8, 1.1)).agrees


def test_short_runs_leave_an_open_lead_untested():
    claim = CLAIMS["lem-5-ncifar-lead"]
    for reason, verdict in (("", UNDECIDED), ("ten of 20 steps", UNTESTABLE)):
        near = replace(between(-1.0, 3.0), too_short=ByVerdict(to_differ=gather(reason)))
        assert decide(near, claim.region).verdict == verdict
        assert decide(extremes.smallest([near, between(1, 3)]), claim.region).verdict == verdict
    # The part that is open was long enough.
    short = replace(between(1.0, 3.0), too_short=ByVerdict(to_differ=("ten of 20 steps",)))
    both = extremes.smallest([between(-1.0, 3.0), short])
    assert decide(both, claim.region).verdict == UNDECIDED


def test_an_unbounded_number_of_steps_refutes_nothing():
    region = CLAIMS["irnn-4.2-300"].region
    closed = Estimate(500, 400, 600)
    still_open = Estimate(500, 400, math.inf)
    assert not barred_verdicts("steps_needed", region, closed).differs
    assert barred_verdicts("steps_needed", region, still_open) == (False, True)


@pytest.mark.parametrize(
    ("name", "steps", "words"),
    [
        ("lem-5-ptbchar-gated", 474, "our runs take 474 of the paper's 200,000 steps: the lead"),
        ("lem-5-ptbchar-gated", 200_000, ""),
        ("lem-5-ptbchar-gated", None, ""),
        ("lem-5-adding-lem", 474, ""),  # what was learned in few steps was learned
        ("diss-2.7-pad0-lstm", 474, ""),  # the paper prints no number of steps
        ("diss-3.6-latch", 474, ""),
    ],
)
def test_a_short_lead_has_a_caveat(name, steps, words):
    caveat = lead_caveat(CLAIMS[name], steps)
    assert caveat.startswith(words) and bool(caveat) == bool(words)


def test_a_judged_row_states_caveats():
    edge = ("LEM on PTB (0.1)", "GRU on PTB (0.1)")
    scale = Scale(steps=474, at_edge=edge, at_chance=("coRNN", "antisymmetric"))
    row = judged_row("lem-5-ptbchar-rnns", Estimate(0.25, 0.23, 0.29, scale))
    assert row["verdict"] == AGREES
    assert row["at_edge"] == "LEM on PTB (0.1); GRU on PTB (0.1)"
    assert row["caveat"].split("; ") == [
        "our runs take 474 of the paper's 200,000 steps: the lead may only reflect faster learning",
        "best learning rate at the edge of the grid: LEM on PTB (0.1), GRU on PTB (0.1)",
        "no better than chance: coRNN, antisymmetric",
    ]
    assert f"Caveat: {row['caveat']}." in sentences(pd.DataFrame([row]))[0]
    # Nor can training steps be counted of a network that does not learn.
    caveat = judged_row("irnn-4.2-twice", Estimate(0.3, 0, 0.6, scale))["caveat"]
    assert "no better than chance: coRNN, antisymmetric" in caveat.split("; ")
    # That an LSTM stays at chance is what this claim says.
    row = judged_row("lem-5-adding-lstm", Estimate(1, 0.95, 1.05, scale))
    assert "chance" not in row["caveat"]
    assert judged_row("lem-5-ptbchar-rnns", between(math.nan, math.nan))["caveat"] == ""


def test_the_smallest_lead_keeps_every_caveat():
    pairs = [
        Estimate(2, 1, 3, Scale(steps=20, at_edge=("LEM",), at_chance=("RNN",))),
        Estimate(3, 2, 4, Scale(steps=10, at_edge=("LEM", "GRU"))),
    ]
    scale = extremes.smallest(pairs).scale
    assert (scale.steps, scale.at_edge, scale.at_chance) == (10, ("LEM", "GRU"), ("RNN",))


def test_few_runs_decide_nothing():
    claim = CLAIMS["unicornn-4-ncifar-lstm"]
    few = estimated(true_of(claim, replicates=3), claim)
    assert verdict_of(claim.id, few) == UNDECIDED
    row = judged_row(claim.id, few)
    assert row["objection"] == "one network has 3 runs, and 5 are needed"
    assert f"would be “agrees”, but {row['objection']}" in row["note"]


@pytest.mark.parametrize("profile", [*TOYS, "simulated"])
def test_toys_judge_nothing(profile):
    toy = xr.Dataset(attrs={"profile": profile})
    for judge in (*JUDGES.values(), lambda ds: judge_group(ds, "pixels")):
        actual = judge(toy)
        assert set(actual["verdict"]) == {UNTESTABLE}
        assert set(actual["cause"]) == {"no data"}
        assert actual["note"].str.contains(profile).all()


def test_digits_judge_nothing_of_the_factorial():
    ds = failing()(np.random.default_rng(4)).assign_coords(dataset=["digits"])
    actual = JUDGES["factorial"](ds)
    assert set(actual["verdict"]) == {UNTESTABLE} and set(actual["cause"]) == {"no data"}
    assert actual["note"].str.contains("digits stands in").all()


def test_pooled_attempts_bound_the_smallest_error_rate():
    actual = JUDGES["rates_factorial"]["diss-1.5.2-fragile"](failing()(np.random.default_rng(4)))
    assert actual.value == actual.low == 0 and actual.high < 0.006 < 0.009 < proportion(0, 400).high


@pytest.mark.parametrize(
    ("claim", "rates", "long_enough", "short"),
    [
        ("diss-1.5.2-robust", {}, AGREES, UNTESTABLE),
        ("diss-1.5.2-robust", {"unicornn": 0.1}, DIFFERS, DIFFERS),
        ("diss-1.5.2-fragile", {}, DIFFERS, UNTESTABLE),
        ("diss-1.5.2-fragile", dict.fromkeys(FRAGILE, 0.2), AGREES, AGREES),
        ("diss-1.4-error-rate", {}, AGREES, UNTESTABLE),
    ],
)
def test_short_attempts_show_failures_but_not_their_absence(claim, rates, long_enough, short):
    """More epochs can only add failures; the paper's attempts take 25 epochs or more."""
    judge = JUDGES["rates_factorial"][claim]
    rng = np.random.default_rng(4)
    assert verdict_of(claim, judge(failing(25, **rates)(rng))) == long_enough
    actual = judge(failing(24, **rates)(rng))
    assert verdict_of(claim, actual) == short
    if short == UNTESTABLE:
        reason = (
            "our runs take 24 epochs and the paper's at least 25; more epochs can only add failures"
        )
        assert actual.parts[0].too_short.on(long_enough == AGREES) == (reason,)


@pytest.mark.parametrize(("weight", "verdict"), [(1.5, DIFFERS), (3.0, AGREES)])
def test_emphasis_is_more_than_a_little_weight(weight, verdict):
    """An input with one and a half times the mean weight of the others is not emphasized."""
    ds = linear(np.random.default_rng(0))
    sizes = xr.DataArray([1.0, weight, 1.0], dims="time")
    ds["emphasis"] = (0 * ds["emphasis"] + sizes).transpose(*ds["emphasis"].dims)
    judge = JUDGES["linear_gaps"]["diss-2.5-emphasis"]
    assert verdict_of("diss-2.5-emphasis", judge(ds)) == verdict


def test_orthogonality_is_judged_at_the_published_position():
    """A cost at another place is no cost at t* = 50."""
    rng = np.random.default_rng(0)
    here = linear(rng, cost=-0.1)
    there = linear(rng, cost=0.4).assign_coords(place=[10])
    ds = xr.concat([there, here], "place", data_vars="minimal", combine_attrs="override")
    actual = JUDGES["linear_gaps"]["diss-2.5-orthogonality"](ds)
    assert actual.value == pytest.approx(0.1, abs=0.04)


@pytest.mark.parametrize(("accuracy", "factor"), [(50.0, 1.0), (98.0, 0.28)])
def test_spread_is_scaled_to_the_published_accuracy(accuracy, factor):
    claim = CLAIMS["unicornn-E-spread-ncifar"]
    plain, scaled = (
        estimated(
            evidence(claim, np.random.default_rng(0), true=False),
            claim.model_copy(update={"comparison": comparison}),
        )
        for comparison in (
            claim.comparison.model_copy(update={"paper_accuracy": None}),
            claim.comparison.model_copy(update={"paper_accuracy": accuracy}),
        )
    )
    ours = Networks(evidence(claim, np.random.default_rng(0), true=False)).scores(
        "UnICORNN, alpha=2"
    )
    binomial = math.sqrt(ours.mean() * (100 - ours.mean())) / 100
    assert scaled.value / plain.value == pytest.approx(0.5 * factor / binomial, rel=1e-6)


def test_a_run_that_stopped_early_has_a_last_record():
    ds = coadjoint(np.random.default_rng(0))
    early = ds.reindex(record=[0, 1])  # no run has a second record
    (note,) = smallest_share_learned(early).notes
    assert note.endswith("at the last record, the share is 100%")


# stored results


STORED_RESULTS = stored_results()


@pytest.mark.parametrize("stored", STORED_RESULTS, ids=[stored.name for stored in STORED_RESULTS])
def test_stored_results_are_judged(stored):
    if not stored.path.exists():
        assert stored.name == "worms", stored.path
        pytest.skip("the archive of the worms is not at hand")
    actual = stored.judge(load(stored.path))
    assert actual["id"].tolist() == stored.ids
    expected = KNOWN.loc[stored.ids]
    message = "the verdicts changed: run `python tests/claim_verdicts.py`, and edit README"
    assert actual["verdict"].tolist() == expected["verdict"].tolist(), message
    assert actual["cause"].tolist() == expected["cause"].fillna("").tolist(), message
    for number in NUMBERS:
        near = pytest.approx(expected[number].to_numpy(), rel=TOLERANCE, abs=1e-9, nan_ok=True)
        assert actual[number].to_numpy() == near, message
    assert len(sentences(actual)) == len(actual)


@pytest.mark.parametrize("claim", ["lem-B1-dtadding-error", "lem-B1-dtadding-steps"])
def test_judged_lengths_cover_those_of_the_paper(claim):
    """The paper's Figure 3 has lengths from 250 to 2,000."""
    rows = Networks(load(REFERENCE / "real" / "long_memory.nc")).all_rows
    judged = claims()[claim].comparison.tasks_where.select(rows)
    lengths = judged.loc[judged["label"] == "LEM", "time_steps"]
    assert lengths.min() <= 250
    assert lengths.max() >= 2000


def test_gradients_of_runs_at_chance_are_counted():
    (stored,) = (stored for stored in STORED_RESULTS if stored.name == "irnn_memory")
    estimate = estimated(load(stored.path), CLAIMS["irnn-a.6.8-identity"])
    (note,) = estimate.notes
    assert note.startswith("5 of 20 runs of iRNN K=10 on adding 200 in full stay at chance")
