"""README.md: its numbers are the computed ones, its code runs, its links lead somewhere."""

import re
from urllib.parse import urlsplit

import longrnn
import pandas as pd
import pytest
from ruamel.yaml import YAML
from study.claims.correction import corrected_verdicts
from study.claims.estimates import Cause
from study.claims.listed import claims
from study.claims.verdict import AGREES, DIFFERS, NO_EFFECT, WITHIN, displayed_verdict
from study.paths import DATA, ROOT
from study.report.claim_text import describe_claim
from study.report.findings import read_findings, summarize, write_brief
from study.report.inputs import load_artifacts
from study.report.intervention import describe_intervention, summarize_intervention
from study.report.readme import README, STORED, fill, main
from study.report.readme import render_blocks as blocks
from study.report.readme_numbers import collect_slopes, read_stored
from study.report.tally import CAUSES, SMALL_EFFECT
from study.report.verdicts import judge_claims

TEXT = README.read_text("utf-8")
CODE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_computed_parts_are_up_to_date():
    assert fill(TEXT, blocks(STORED)) == TEXT, "run `python -m study.report.readme`"
    assert set(re.findall(r"<!-- computed: (\w+) -->", TEXT)) == set(blocks(STORED))


def test_other_numbers_replace_the_old_ones():
    changed = dict.fromkeys(blocks(STORED), "7")
    assert fill(TEXT, changed).count("\n7\n<!-- end -->") == len(changed)


def test_stored_verdicts_follow_from_their_intervals():
    judged = read_stored(STORED)
    for _, row in judged.iterrows():
        region = claims()[row["id"]].region
        if row["verdict"] == AGREES:
            assert region.contains(row["low"], row["high"]), row["id"]
        if row["verdict"] == DIFFERS:
            assert region.excludes(row["low"], row["high"]), row["id"]
    rows = zip(corrected_verdicts(judged), judged["denies_effect"], judged["null_is"], strict=True)
    assert [displayed_verdict(*row) for row in rows] == judged["corrected"].tolist()


def test_stored_verdicts_are_those_of_the_claims_tests():
    judged = read_stored(STORED)
    known = pd.read_csv(ROOT / "tests/data/verdicts.csv").set_index("id")["verdict"]
    ours = judged.set_index("id")["verdict"]
    assert ours[known.index].to_dict() == known.to_dict(), "run `python -m study.report.readme`"


MADE = DATA / "made/30_tenet/reference/figures/own-slope-model-5.csv"


@pytest.mark.skipif(not MADE.exists(), reason="the stored reference was not analyzed here")
def test_stored_slopes_are_those_of_the_pipeline():
    items = load_artifacts(DATA)
    slopes = collect_slopes(items, judge_claims(items))
    stored = pd.read_csv(STORED / "slopes.csv")
    pd.testing.assert_frame_equal(slopes, stored, rtol=1e-6)


def test_a_missing_analysis_is_named(tmp_path, capsys):
    assert main(["--data", str(tmp_path)]) == 1
    assert "run `make repro` first" in capsys.readouterr().err


@pytest.mark.parametrize("code", CODE)
def test_code_runs_as_printed(code, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    exec(code, names)
    if "output" in names:
        assert names["output"].shape == (100, 8, 64)
    else:
        table = names["table"].squeeze(drop=True).to_pandas()
        assert table.shape == (7, 3)
        assert table.min(axis=None) > 0.2
        lost = table["none"] - table["post"]
        assert lost.idxmin() == "unicornn"
        assert lost["lstm"] > 0.2


def test_decided_claims_add_up():
    words = " ".join(TEXT.split())
    decided, remaining = re.search(
        r"Of (\d+) claims that agree or differ, (\d+) remain so after", words
    ).groups()
    rows = dict(re.findall(r"\| (\w+) \|(?: \d+ \(\d+\) \|){4} (\d+ \(\d+\)) \|", TEXT))
    agree, agree_corrected = map(int, re.findall(r"\d+", rows["agree"]))
    differ, differ_corrected = map(int, re.findall(r"\d+", rows["differ"]))
    judged = read_stored(STORED)
    assert int(decided) == agree + differ
    assert int(decided) == judged["counted"].isin((AGREES, DIFFERS)).sum()
    assert int(remaining) == agree_corrected + differ_corrected
    by_threshold = int(re.search(r"(\d+) would change if we halved or doubled", words)[1])
    here = judged[judged["counted"].isin((AGREES, DIFFERS)) & (judged["at_half"] != "")]
    kept = (here["at_half"] == here["verdict"]) & (here["at_double"] == here["verdict"])
    assert 0 < by_threshold == (~kept).sum()
    assert int(remaining) == judged["corrected"].isin((AGREES, DIFFERS)).sum()


def test_summary_counts_all_claims():
    words = " ".join(TEXT.split())
    total, *kinds, untested, too_small = re.search(
        r"Of (\d+) claims, (\d+) agree with our results [^)]*\), (\d+) differ \(\d+\), "
        r"(\d+) are undecided \(\d+\), and (\d+) that claim little or no effect hold \(\d+\). We "
        r"could not test the other (\d+), (\d+) of them because our experiments were too small",
        words,
    ).groups()
    assert int(total) == sum(map(int, kinds)) + int(untested)
    judged = read_stored(STORED)
    assert int(too_small) == (judged["cause"] == Cause.TOO_SMALL).sum()


def test_lengths_of_sequences_are_those_of_runs_and_papers():
    words = " ".join(TEXT.split())
    lengths = re.search(
        r"(\S+) of (\S+) time steps of noise-padded CIFAR-10, "
        r"and MNIST images shrunk from (\S+) to (\S+) pixels",
        words,
    )
    assert lengths.groups() == ("100", "1,000", "784", "196")


def test_columns_of_the_verdicts_are_explained():
    explained = set(re.findall(r"`(\w+)`", (STORED / "README.md").read_text("utf-8")))
    assert set(pd.read_csv(STORED / "verdicts.csv")) <= explained
    causes = {row.split("|")[1].strip() for row in (STORED / "README.md").open() if row[0] == "|"}
    assert {cause.value for cause in CAUSES} <= causes


def test_readme_is_short():
    assert len(TEXT.splitlines()) <= 150


def test_findings_carry_verdict_and_daggers():
    block = blocks(STORED)["results"].split("## Main findings")[1]
    _, _, listed, _ = block.split("\n\n")
    lines = re.sub(r"\n {3}", " ", listed)
    form = r"^(\d+)\. \*(.+\.)\* \*\*\[(.+)\]\(notebooks/(\w+)\.ipynb\)(.*):\*\* (.+)"
    items = re.findall(form, lines, re.MULTILINE)
    judged = read_stored(STORED).set_index("id")
    findings = read_findings().main
    assert [int(number) for number, *_ in items] == list(range(1, len(findings) + 1))
    for finding, (_, claimed, verdict, notebook, more, sentence) in zip(
        findings, items, strict=True
    ):
        assert claimed == finding.claimed
        row = judged.loc[finding.claim]
        words = row["corrected"]
        if row["cause"] == "too small":
            words = "experiment too small"
        assert verdict.lower().startswith(words)
        assert ("†" in verdict) is (row["caveat"] != "")
        other = row[["at_half", "at_double"]] != row["verdict"]
        assert ("‡" in verdict) is bool(row["at_half"] and other.any())
        before = row["counted"]
        if before in (WITHIN, NO_EFFECT):
            before = SMALL_EFFECT
        assert (f"(before the correction: {before})" in more) is (
            row["counted"] != row["corrected"]
        )
        # A lead in short runs shows how short they are.
        if row["verdict"] == AGREES and row["steps"] < row["paper_steps"]:
            assert f"after {row['steps']:,.0f} of the paper's {row['paper_steps']:,.0f}" in sentence
        assert notebook == finding.notebook


def test_a_finding_with_another_verdict_has_only_its_numbers():
    judged = read_stored(STORED).set_index("id", drop=False)
    for finding in read_findings().main:
        numbers = f":** {describe_claim(judged.loc[finding.claim]).estimate}."
        assert not write_brief(finding, judged).endswith(numbers)
        other = judged.copy()
        verdict = DIFFERS if judged.loc[finding.claim, "corrected"] == AGREES else AGREES
        other.loc[finding.claim, "corrected"] = verdict
        assert write_brief(finding, other).endswith(numbers)


def test_the_claim_that_follows_a_finding_needs_its_verdict():
    judged = read_stored(STORED).set_index("id", drop=False)
    followed = [finding for finding in read_findings().main if finding.followed_by]
    assert followed
    for finding in followed:
        following = read_findings().by_claim[finding.followed_by]
        start = f" {following.brief.partition(' {')[0]}"
        assert start in write_brief(finding, judged)
        other = judged.copy()
        other.loc[following.claim, "corrected"] = DIFFERS
        assert start not in write_brief(finding, other)


def test_layers_are_counted():
    block = " ".join(blocks(STORED)["layers"].split())
    names = {name.removesuffix("Cell") for name in longrnn.__all__ if name.endswith("Cell")} - {""}
    (count,) = re.findall(r"There are (\d+) layers", block)
    assert len(names) == int(count) == len(pd.read_csv(STORED / "cells.csv"))
    assert all(hasattr(longrnn, name) for name in names)


def test_links_and_pictures_exist():
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if not urlsplit(link).scheme]
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        assert (ROOT / path).exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, link


def test_make_targets_and_papermill_parameters_exist():
    targets = set(re.findall(r"\bmake ([a-z-]+)", TEXT))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert {"look", "repro", "lab", "test"} <= targets
    assert [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_citation_is_that_of_the_citation_file():
    citation = YAML(typ="safe", pure=True).load((ROOT / "CITATION.cff").read_text("utf-8"))
    entry = " ".join(TEXT.split("```bibtex")[1].split("```")[0].split())
    assert citation["title"] in entry
    assert citation["authors"][0]["name"] in entry
    assert f"version = {{{citation['version']}}}" in entry
    assert f"year = {{{str(citation['date-released'])[:4]}}}" in entry


def test_lines_end_at_column_100():
    assert [line for line in TEXT.splitlines() if len(line) > 100] == []


@pytest.mark.parametrize(
    "change", ["renormalized, rows at the beginning", "renormalized, beginning less end"]
)
def test_cause_needs_a_gain_for_early_inputs(change):
    effects = pd.read_csv(STORED / "intervention.csv")
    unclear = effects.copy()
    unclear.loc[effects["change against plain"] == change, "low"] = -0.01
    for write in (describe_intervention, summarize_intervention):
        assert "are a cause" in "".join(write(effects))
        assert "are a cause" not in "".join(write(unclear))


@pytest.mark.parametrize("interval", [(0.01, 0.02), (-0.3, 0.2)])
@pytest.mark.parametrize("control", ["random signs", "norms of dose -10"])
def test_cause_needs_controls_without_effect(control, interval):
    effects = pd.read_csv(STORED / "intervention.csv")
    row = effects["change against plain"] == f"{control}, rows at the beginning"
    effects.loc[row, ["low", "high"]] = interval
    for write in (describe_intervention, summarize_intervention):
        assert "are a cause" not in "".join(write(effects))


def test_a_summary_needs_its_verdicts():
    judged = read_stored(STORED)
    everything = [part.sentence for part in read_findings().summary]
    assert summarize(judged, cause=True) == everything
    assert summarize(judged, cause=False) == everything[1:]
    changed = judged.copy()
    changed.loc[changed["id"] == "lem-5-ptbchar-gated", "corrected"] = DIFFERS
    assert summarize(changed, cause=True) == [everything[0], everything[2]]


def test_harm_by_distance_is_open_or_not():
    effects = pd.read_csv(STORED / "intervention.csv")
    clear = effects.copy()
    row = effects["change against plain"] == "dose -10, beginning less end"
    clear.loc[row, ["low", "high"]] = -0.2, -0.1
    for write in (describe_intervention, summarize_intervention):
        assert "harm over short distances" in "".join(write(effects))
        assert "harm over short distances" not in "".join(write(clear))
    sentence = "It is not clear whether early digits lose more (8 points more; −3 to 18)."
    assert sentence in "".join(describe_intervention(effects))
    assert "early digits lose more" not in "".join(describe_intervention(clear))


def test_the_gain_of_each_kind_of_network_is_listed():
    effects = pd.read_csv(STORED / "intervention.csv")
    row = effects.iloc[[0]].assign(estimate=0.19, low=-0.01, high=0.38)
    row["change against plain"] = "renormalized, rows at the beginning, lstm"
    is_of_a_cell = effects["change against plain"].str.startswith("renormalized, rows at the beg")
    is_of_a_cell &= effects["change against plain"].str.count(",") == 2
    without = effects[~is_of_a_cell]
    assert "by kind of network" not in "".join(describe_intervention(without))
    written = "".join(describe_intervention(pd.concat([without, row])))
    assert "by kind of network, in points: LSTM +19 (−1 to +38)." in written


def test_a_failed_prediction_is_reported():
    effects = pd.read_csv(STORED / "intervention.csv")
    row = effects["change against plain"] == "dose -10, rows at the end"
    as_predicted = effects.copy()
    as_predicted.loc[row, ["low", "high"]] = -0.02, 0.02
    for write in (describe_intervention, summarize_intervention):
        assert "we had predicted less than 3" in "".join(write(effects))
        assert "we had predicted less than 3" not in "".join(write(as_predicted))
