"""The report: what it shows, equal bytes from equal inputs, and what bad inputs may cost."""

import contextlib
import functools
import io
import json
import math
import re
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import nbformat
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from fabricated_report import counts, drawing, error_rates, write_notebook
from lxml.html import HTMLParser, document_fromstring
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from study.claims.estimates import Cause, Compared, Estimate, Scale, not_testable
from study.claims.experiment_sizes import scale_of_networks
from study.claims.intervals import proportion
from study.claims.judging import judged_row, show_claims
from study.claims.listed import claim_table
from study.claims.networks import Networks
from study.claims.region import Region
from study.claims.verdict import AGREES, NO_EFFECT, UNDECIDED, UNTESTABLE
from study.paths import ROOT
from study.report.__main__ import main
from study.report.answers import answer
from study.report.build import build
from study.report.claim_text import describe_claim
from study.report.contents import ReportError
from study.report.coverage import COLUMNS, STATES, count_coverage, summarize_coverage
from study.report.findings import read_findings, write_brief, write_sentence
from study.report.groups import group_artifacts
from study.report.inputs import load_artifacts, load_inputs, load_notebooks
from study.report.intervals import place_interval
from study.report.numbers import formatter
from study.report.questions import questions
from study.report.readings import ReadingVerdict
from study.report.tables import PAGES, key_columns, paired_html, panels, to_html
from study.report.tally import (
    TALLY,
    count_causes,
    count_verdicts,
    counts_in_words,
    tally,
    tally_in_words,
)
from study.report.verdicts import NOT_JUDGED, judge_claims
from study.results.artifacts import Artifacts
from study.results.data_used import data_and_length
from study.results.datasets import load
from study.results.published import artifacts


@functools.cache
def read(path):
    """Return the links of a page, what it loads, its ids, and its text."""
    page = document_fromstring(path.read_bytes(), HTMLParser(encoding="utf-8"))
    links = page.xpath("//a/@href")
    loaded = page.xpath("//@src | //*[not(self::a)]/@href")
    text = " ".join(" ".join(page.itertext()).split()).replace(" .", ".").replace(" ,", ",")
    return SimpleNamespace(links=links, loaded=loaded, ids={*page.xpath("//@id")}, text=text)


def contents(site):
    files = filter(Path.is_file, site.rglob("*"))
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def data(site):
    return site.parent / "data"


@pytest.fixture
def copied(data, tmp_path):
    """A copy of the fabricated results, to change."""
    return shutil.copytree(data, tmp_path / "data")


def test_equal_inputs_give_equal_bytes(data, site, tmp_path):
    leftover = tmp_path / ".report.partial" / "site"  # of a build that was killed
    leftover.mkdir(parents=True)
    (leftover / "half.html").write_text("half")
    first = contents(site)
    second = contents(build(data, tmp_path / "report").parent)
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    names = {path.name for path in site.rglob("*")}
    assert names.isdisjoint({".buildinfo", "environment.pickle", "objects.inv", ".doctrees"})


def test_nothing_is_escaped_twice(site):
    for path in site.rglob("*.html"):
        assert "&amp;#39;" not in path.read_text("utf-8"), path


def test_every_link_resolves(each_site):
    actual = {path: read(path) for path in each_site.resolve().rglob("*.html")}
    for path, page in actual.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), (path, link)
            inside = actual.get(target)
            assert not inside or not parts.fragment or parts.fragment in inside.ids, (path, link)


OF_DISSERTATION = (claim_table()["paper"] == "dissertation").sum()
DIFFERENT = artifacts()["same_data"].isna().sum()


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("index", f"2 of {DIFFERENT} published figures and tables rebuilt"),
        ("index", "verdict Dissertation UnICORNN LEM iRNN all all, after Holm all, after B–H"),
        ("index", f"not testable for other reasons {OF_DISSERTATION - 2} "),
        ("index", "claims that agree or differ has a caveat (†)"),
        (
            "publications/dissertation",
            "Does it fail? Hardly ever: two of twelve do, with \\(a < b\\).",
        ),
        ("notebooks/rebuilt/22_errors", "secret.txt"),  # to be read
        ("notebooks/reference/22_errors", "The same with other results: this run (quick)."),
        ("claims", "differs a basic RNN that solves T = 40 reaches an error"),
        ("claims", "0.066, which does not meet the claim"),
        ("claims", "agrees ‡ on the fast-slow system LEM outperforms the LSTM by a factor of 6"),
        ("claims", "above 3 our threshold; at half agrees, at twice undecided"),
        ("claims", "between 0.5 and 2 our threshold; at half and at twice agrees"),
        ("about", "for which at least one of the two is a different verdict: 1 of 4."),
        ("claims/diss-3.6-longer", "verdict differs differs differs"),
        ("claims/lem-5-ptbchar-gated", "Our runs take 474 of the paper's 200,000 steps: the lead"),
        ("claims/lem-5-ptbchar-gated", "at the edge of the grid: GRU on PTB (0.03)."),
        ("claims/lem-5-ptbchar-lead", "no seeds (fewer than two runs, which give no interval)"),
        (
            "claims/lem-fhn-single",
            "At half of it, the verdict is agrees, and at twice, agrees",
        ),
        ("about", "LEM 0 0 1 0 0 1"),
        ("about", "one network leads another stays, with a caveat become not testable"),
        ("claims/diss-3.6-longer", "0 (0 to 0.0303) share of the runs"),
        ("claims/diss-3.6-longer", "the quantity is above 0.5"),
        ("reference/factorial-real", "torch 1.2.3"),
        ("claims", "iRNN, section 4"),
        ("coverage", "numerical error rate by architecture this run (quick) 12 runs, drawn"),
        ("figures/ours", "Never seen before."),
        ("publications/shared", "What's new?"),
        ("publications/dissertation", f"{OF_DISSERTATION} claims : 1 agrees; 1 differs"),
    ],
)
def test_a_page_contains_this_text(site, page, text):
    assert text in read(site / f"{page}.html").text


def test_a_question_without_an_answer_lists_its_claims(data, monkeypatch):
    inputs = load_inputs(data)
    judged = judge_claims(inputs.artifacts)
    groups = group_artifacts(inputs.artifacts, artifacts().assign(name="Table 1"))
    listed = questions(inputs, groups, judged)
    (question,) = (each for each in listed if each.first.name == "22_errors")
    assert "diss-3.6-longer" in question.claims and "diss-1.4-variance" not in question.claims
    call = '{% from "_shared.jinja" import question_entry with context %}'
    template = PAGES.from_string(call + "{{ question_entry(question) }}")
    claims = {row["id"]: describe_claim(row) for _, row in judged.iterrows()}
    seen = {"inputs": inputs, "claims": claims, "up": "../", "paper": "dissertation", "pages": {}}
    link = '<a href="../claims/diss-3.6-longer.html">a basic RNN that solves'
    assert link not in template.render(seen, question=question)
    monkeypatch.setitem(PAGES.globals, "answer", lambda notebook: "")
    page = template.render(seen, question=question)
    assert link in page and page.count("<li>") == len(question.claims)


def test_an_answer_may_come_after_a_table_and_its_explanation(tmp_path):
    def answer_of(*cells):
        path = tmp_path / "notebook.ipynb"
        nbformat.write(new_notebook(cells=[new_markdown_cell("## Answer"), *cells]), path)
        return answer(SimpleNamespace(path=path))

    def outputs_of(text):
        return [new_output("display_data", {"text/markdown": text})]

    table = new_code_cell("show()", outputs=[new_output("display_data", {"text/html": "<b>1</b>"})])
    explained = new_markdown_cell("One row per network.")
    sentence = new_code_cell("say()", outputs=outputs_of("It does."))
    checks = new_markdown_cell("## Checks")
    other = new_code_cell("check()", outputs=outputs_of("All is well."))
    assert answer_of(table, explained, sentence, checks, other) == "It does."
    assert answer_of(table, explained, checks, other) == ""


def test_menu_lists_each_notebook_once(site):
    menu = (site / "index.html").read_text().split('class="sidebar-tree"')[1].split("</aside>")[0]
    assert menu.count("22_errors.html") == menu.count("00_prepare.html") == 1
    figures = read(site / "figures" / "dissertation.html")
    for result_set in ("rebuilt", "reference"):
        stem = f"../files/figures/{result_set}/22_errors/diss-fig-3.3"
        assert {f"{stem}.svg", f"{stem}.csv"} <= set(figures.links)
        assert f"{stem}.png" in figures.loaded
    saved = pd.read_csv(site / "files" / "claims.csv").set_index("id")["verdict"]
    assert saved[["diss-3.6-longer", "diss-1.4-variance"]].tolist() == ["differs", "not judged yet"]


def test_pages_run_and_fetch_nothing(site):
    assert (site / "_static" / "mathjax" / "tex-chtml.js").exists()
    assert not list(site.rglob("secret*"))
    assert "kept" in read(site / "notebooks" / "rebuilt" / "22_errors.html").text
    for path in site.rglob("*.html"):
        html = path.read_text()
        for part in ("known to the builder alone", "<script>document.title", "<title>taken"):
            assert part not in html, path
        assert not re.search(r"<[^>]*\bonerror=", html), path
        assert not [link for link in read(path).loaded if "//" in link], path
        for tag in re.findall(r'<img[^>]*\.png"[^>]*>', html):
            assert all(re.search(rf'{side}="\d+"', tag) for side in ("width", "height")), tag


def _judged(data, result_set, actual, **evidence):
    """Add a set of results with a finding; return which set judges the claim now, and how."""
    made = Artifacts(data, notebook="46_latching", result_set=result_set, profile="real")
    vars(made).update({"learned": True, **evidence})
    show_claims(made, pd.DataFrame([judged_row("diss-3.6-longer", actual)]))
    judged = judge_claims(load_artifacts(data)).set_index("id").loc["diss-3.6-longer"]
    return judged["judged_by"].result_set, judged["verdict"]


def test_the_weightiest_evidence_judges(tmp_path):
    """First what measured anything, then real runs, the paper's data, learned ones, then size."""

    def share(successes, sequences):
        return proportion(successes, 100, Scale(sequences=sequences, epochs=1, replicates=100))

    for name, actual, evidence, verdict in (
        ("none", not_testable("not trained", Cause.NO_DATA), {}, "not testable at this scale"),
        ("toy", share(2, 10**7), {"profile": "quick"}, "differs"),
        ("stand-in", share(2, 10**6), {"stand_in": True}, "differs"),
        ("chance", share(2, 10**5), {"learned": False}, "differs"),
        ("real", share(98, 1000), {}, "agrees"),
        ("larger", share(2, 2000), {}, "differs"),
    ):
        assert _judged(tmp_path, name, actual, **evidence) == (name, verdict)


@pytest.mark.parametrize(
    "small, large",
    [
        ({"epochs": 2, "replicates": 10}, {"epochs": 2, "replicates": 20}),
        ({"epochs": 2}, {"epochs": 2, "sequences": 2000}),
        ({"time_steps": 196}, {"time_steps": 784}),
        ({"epochs": 2, "width": 8}, {"epochs": 2, "width": 16}),
        ({"epochs": 1, "replicates": 1}, {"epochs": 100, "replicates": 1, "sequences": 100}),
        ({"replicates": 2}, {"epochs": 3, "replicates": 1}),
    ],
)
@pytest.mark.parametrize("names", ["ab", "ba"])  # whichever is read first
def test_the_larger_experiment_judges(tmp_path, small, large, names):
    """Its size is the product of all that it was large in; what is not said counts once."""
    for name, size, successes in zip(names, (small, large), (98, 2), strict=True):
        scale = Scale(**{"sequences": 1000, **size})
        judging, _ = _judged(tmp_path, name, proportion(successes, 100, scale))
    assert judging == names[1]


@pytest.mark.parametrize(
    "low, kind", [(-1e-4, "no effect found"), (1e-4, "within the stated margin")]
)
def test_claims_of_no_effect_count_apart(tmp_path, low, kind):
    made = Artifacts(tmp_path, notebook="30_tenet_1", result_set="real", profile="real", runs=9)
    claimed = {"diss-3.5-training-alone": low, "diss-3.5-terminal-sign": 1e-4}
    rows = [judged_row(name, Estimate(0.001, end, 0.002)) for name, end in claimed.items()]
    show_claims(made, pd.DataFrame(rows))
    table = judge_claims(load_artifacts(tmp_path))
    assert (table.set_index("id").loc[list(claimed), "verdict"] == "agrees").all()
    counts = count_verdicts(table).sum()
    assert (counts["agrees"], counts[kind], counts.sum()) == (1, 1, len(table))


def test_p_values_are_corrected_by_holm_and_by_benjamini_and_hochberg(tmp_path):
    """Three claims of one paper; the correction of Holm withdraws two of them, the other none."""
    made = Artifacts(tmp_path, notebook="65_language", result_set="real", profile="real", runs=9)
    names = ["lem-5-ptbchar-gated", "lem-5-ptbchar-lead", "lem-5-ptbword-lstm"]
    rows = pd.DataFrame([judged_row(name, Estimate(9.0, 8.0, 10.0)) for name in names])
    show_claims(made, rows.assign(verdict="agrees", null_is="", p=[0.01, 0.03, 0.04]))
    judged = judge_claims(load_artifacts(tmp_path)).set_index("id").loc[names]
    assert judged["p_holm"].tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert judged["p_bh"].tolist() == pytest.approx([0.03, 0.04, 0.04])
    assert judged["corrected"].tolist() == ["agrees", "undecided", "undecided"]
    assert judged["discovered"].tolist() == ["agrees"] * 3


def test_simulated_and_failed_results_are_no_evidence(copied):
    for folder in copied.glob("made/22_*"):
        shutil.rmtree(folder / "rebuilt")
        (folder / "reference").rename(folder / "simulated")
    actual = load_artifacts(copied)
    assert (judge_claims(actual)["verdict"] == "not judged yet").all()
    assert summarize_coverage(count_coverage(actual, artifacts()), artifacts())["drawn"].sum() == 0
    (copied / "made/22_errors/simulated/22_errors.failed.ipynb").touch()
    assert {item.notebook for item in load_artifacts(copied)} == {"55_new"}


def test_failed_and_repeated_notebooks_are_refused(tmp_path):
    names = ("21_counts.failed", "21_counts", ".22_errors.partial", "22_errors")
    for name in names:
        write_notebook(tmp_path / "executed" / f"{name}.ipynb")
    actual = load_notebooks(tmp_path)
    assert [(item.name, item.result_set) for item in actual] == [("22_errors", "rebuilt")]
    write_notebook(tmp_path / "made/22_errors/rebuilt/22_errors.ipynb")
    with pytest.raises(ReportError, match="show the same notebook"):
        load_notebooks(tmp_path)


def test_folders_without_a_report_are_never_replaced(data, tmp_path):
    (tmp_path / "results.nc").touch()
    with pytest.raises(ReportError, match="holds something that is not a report"):
        build(data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["results.nc"]


def test_a_refused_page_leaves_the_old_report(copied, site, tmp_path, monkeypatch):
    out = shutil.copytree(site, tmp_path / "report")
    before = contents(out)
    monkeypatch.setattr("study.report.groups.own_name", lambda name: "[x](no_such_plan.md)")
    monkeypatch.setattr("study.report.pages.escape_markdown", str)
    monkeypatch.setitem(PAGES.globals, "escape_markdown", str)
    with pytest.raises(ReportError, match=r"ours.*no_such_plan") as caught:
        build(copied, out)
    assert len(str(caught.value).splitlines()) == 1
    assert contents(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "report"]


@pytest.fixture(scope="module")
def hostile(data, tmp_path_factory):
    """The report of a notebook with bad outputs, and what its builder reads."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(data, folder / "data")
    for name in ("secret.txt", "secret.png"):
        shutil.copy(data.parent / name, folder)
    bundles = (
        {"image/png": "iVBORw0KGgo=", "text/plain": "half a picture"},
        {"image/png": "no base64 at all", "text/plain": "none"},
        {"text/markdown": "[x](no_such_plan.md) and [y](22_errors.ipynb)"},
        {"text/markdown": "a[^1] b[^1]\n\n[^1]: once\n\n[^1]: twice"},
        {"text/markdown": r"$\href{javascript:document.title='taken'}{press}$"},
        {"text/html": r'<p class="math tex2jax_process">\(\href{javascript:alert(1)}{x}\)</p>'},
        {"text/html": '<a href="../../../../secret.txt">x</a><b>still here</b>'},
    )
    write_notebook(folder / "data/executed/66_bad.ipynb", shown=bundles, more="[z](gone.md)")
    record = folder / "data/reference/real/factorial.json"
    record.write_text(json.dumps({"attempts": 3, "cost": "none"}))
    heard = io.StringIO()
    with contextlib.redirect_stderr(heard):
        site = build(folder / "data", folder / "report").parent
    return SimpleNamespace(site=site, page=site / "notebooks/rebuilt/66_bad.html", heard=heard)


def test_links_and_pictures_copy_no_file(hostile):
    assert not (hostile.site / "_downloads").exists()
    names = {path.name for path in hostile.site.rglob("*")}
    assert not any("secret" in name for name in names)
    links = read(hostile.page).links
    assert not [link for link in links if "secret" in link or link.startswith("path:")]
    for path in hostile.site.rglob("*"):
        assert path.is_dir() or b"known to the builder alone" not in path.read_bytes(), path


def test_known_pages_are_linked_and_others_are_text(hostile):
    assert "22_errors.html" in read(hostile.page).links
    assert "x and y" in read(hostile.page).text


def test_formulas_in_html_outputs_are_inert(hostile):
    page = document_fromstring(hostile.page.read_bytes())
    formulas = [element.text_content() for element in page.find_class("math")]
    assert not any("alert" in formula for formula in formulas)
    assert "alert(1)" in read(hostile.page).text


def test_mathjax_removes_links_that_run(hostile):
    assert '"ui/safe"' in hostile.page.read_text()
    assert (hostile.site / "_static/mathjax/ui/safe.js").is_file()


def test_a_bad_output_costs_its_own_cell(hostile):
    text = read(hostile.page).text
    assert text.count("This output cannot be shown") == 2
    assert "still here" in text and "once" in text
    assert "0 attempts" not in text
    lines = [line for line in hostile.heard.getvalue().splitlines() if "66_bad" in line]
    assert any("cell 4: an output cannot be shown: its picture" in line for line in lines)
    assert any("cell 0: the link to 'gone.md' leads to no page" in line for line in lines)
    assert all(line.startswith("report: warning: ") for line in lines)


def test_a_damaged_record_costs_its_own_numbers(hostile):
    assert "factorial, real, 0 runs" in read(hostile.site / "reference.html").text
    assert "attempts 3 cost none" in read(hostile.site / "reference/factorial-real.html").text


def test_search_leaves_quick_runs_out(site):
    index = (site / "searchindex.js").read_text()
    names = re.findall(r'"docnames":\[(.*?)\]', index)[0].replace('"', "").split(",")
    quick = names.index("notebooks/rebuilt/22_errors")
    listed = re.findall(r'"terms":\{(.*?)\}', index)[0]
    numbers = [int(number) for number in re.findall(r"\d+", re.sub(r'"[^"]*":', "", listed))]
    assert quick not in numbers
    assert names.index("notebooks/reference/22_errors") in numbers


def test_a_claim_says_what_speaks_against_its_verdict():
    row = judge_claims([]).iloc[0].copy()
    assert describe_claim(row).objection == ""
    row["objection"] = "the grid ends there; it would be short, but wide"
    assert describe_claim(row).objection == row["objection"]


def test_a_claim_names_the_comparison_that_decides():
    """The name of a network may have the words that stand between networks and task."""
    about = Compared("LEM on its own and LSTM", "PTB")
    row = judged_row("lem-5-ptbchar-lead", Estimate(0.07, 0.06, 0.08, about=about))
    assert (row["decided_by"], row["decided_on"]) == about
    judged = judge_claims([]).iloc[0].copy()
    assert describe_claim(judged).decided_by == ""
    judged[["decided_by", "decided_on"]] = about
    assert describe_claim(judged).decided_by == "LEM on its own and LSTM on PTB"


def test_withdrawn_verdicts_are_marked():
    table = judge_claims([])
    rows = table.assign(counted="agrees", corrected="undecided", low=0.1, high=1.0, estimate=0.5)
    claim = describe_claim(rows.iloc[0])
    assert claim.withdrawn and "withdrawn" in claim.css
    assert claim.status == "Undecided (before Holm's correction: agrees)"


@pytest.mark.parametrize(
    ("region", "estimate", "inside"),
    [
        (Region(above=0.5), 0.7, True),
        (Region(above=0.5), 0.3, False),
        (Region(below=2), 1.0, True),
        (Region(above=0.5, below=2), 1.9, True),
    ],
)
def test_intervals_are_drawn_on_their_side(region, estimate, inside):
    row = pd.Series({"estimate": estimate, "low": estimate - 0.05, "high": estimate + 0.05})
    row["published"] = math.nan
    place = place_interval(row, region)
    assert bool(place.estimate > 50) is inside
    assert place.low < place.estimate < place.high


def test_a_sentence_with_another_verdict_is_not_used():
    finding = read_findings().questions[0].findings[0]
    measured = {"estimate": 0.0033, "low": 0.0024, "high": 0.0041, "published": 0.003}
    agreed = {"counted": finding.verdict, "corrected": finding.verdict}
    table = judge_claims([]).assign(**measured, **agreed).set_index("id", drop=False)
    row = table.loc[finding.claim]
    assert (
        "percentage points less test accuracy (0.24 to 0.41; published: 0.30;"
        in write_sentence(finding, row).text
    )
    withdrawn = table.assign(corrected="undecided").loc[finding.claim]
    assert write_sentence(finding, withdrawn).text.startswith("A larger adjoint metric")


def test_a_sentence_about_another_reading_needs_its_verdict():
    findings = [finding for each in read_findings().questions for finding in each.findings]
    finding = next(finding for finding in findings if finding.other_reading)
    measured = {"estimate": 900.0, "low": 742.0, "high": math.inf, "published": 300.0}
    verdict = {"counted": finding.verdict, "corrected": finding.verdict}
    table = judge_claims([]).assign(**measured, **verdict, cause="")
    row = table.set_index("id", drop=False).loc[finding.claim]
    other = ReadingVerdict("minus", "", finding.other_reading.verdict, "", 172.5, 143, 202, "")
    assert "it needs 172 (143 to 202)." in write_sentence(finding, row, [other]).text
    alone = write_sentence(finding, row).text
    assert "172" not in alone
    assert write_sentence(finding, row, [replace(other, verdict="undecided")]).text == alone


def test_an_estimate_of_zero_has_no_decimals():
    finding = read_findings().by_claim["diss-3.4-terminal-quartile"]
    numbers = {"estimate": 0.0, "low": 0.0, "high": 0.0926, "published": 0.08}
    size = {"replicates": 5.0, "steps": 200.0, "paper_steps": 1000.0}
    verdict = {"counted": finding.verdict, "corrected": finding.verdict, "caveat": ""}
    table = judge_claims([]).assign(**numbers, **size, **verdict, cause="too small")
    row = table.set_index("id", drop=False).loc[finding.claim]
    assert "their odds of that are 0 times those of the other" in write_sentence(finding, row).text


def test_a_main_finding_with_another_verdict_has_only_its_numbers():
    finding = read_findings().questions[0].findings[0]
    measured = {"estimate": 0.0033, "low": 0.0024, "high": 0.0041, "published": 0.003}
    size = {"replicates": 5.0, "steps": 200.0, "paper_steps": 1000.0}
    verdict = {"counted": finding.verdict, "corrected": finding.verdict, "caveat": "short runs"}
    table = judge_claims([]).assign(**measured, **size, **verdict, cause="")
    agreed = table.set_index("id", drop=False)
    brief = write_brief(finding, agreed)
    link = f"(notebooks/{finding.notebook}.ipynb)"
    assert brief.startswith(f"*{finding.claimed}* **[Agrees†]{link}:** ")
    assert "0.33 percentage points" in brief and "0.24 to 0.41; published: 0.30" in brief
    withdrawn = write_brief(finding, agreed.assign(corrected="undecided"))
    assert f"**[Undecided†]{link} (before the correction: agrees):** 0.00330" in withdrawn


def test_every_finding_is_about_a_claim():
    findings = read_findings()
    listed = set(claim_table().index)
    for question in findings.questions:
        assert {finding.claim for finding in question.findings} <= listed
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    for finding in findings.main:
        assert finding.claimed and finding.brief and finding.notebook in notebooks


def test_missing_inputs_are_named(tmp_path, capsys):
    assert main(["--data", str(tmp_path / "none"), "--out", str(tmp_path / "report")]) == 1
    assert "no executed notebook" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r'"quick"', '"<b>quick"', "profile is '<b>quick'"),
        (r"^{", '{"learned": "yes",', "learned is 'yes' .*boolean"),
        (r"(?s).+", "{", "Invalid JSON"),
        (r"(?s).+", "[]", "expected an object"),
        (r"(?s).+", '{"artifact": "diss-tab-1.7"}', "kind is missing"),
        (r'"table"', '"figure"', "promises diss-tab-1.7"),
    ],
)
def test_damaged_manifest_is_named(copied, old, new, message):
    path = copied / "made" / "22_errors" / "rebuilt" / "tables" / "diss-tab-1.7.json"
    path.write_text(re.sub(old, new, path.read_text()))
    with pytest.raises(ReportError, match=message):
        load_artifacts(copied)


def test_coverage_has_one_row_per_result(data):
    listed = artifacts()
    coverage = count_coverage(load_artifacts(data), listed)
    assert tuple(coverage) == COLUMNS
    assert list(dict.fromkeys(coverage["id"])) == list(listed["id"])
    rows = coverage[coverage["id"] == "diss-tab-1.7"]
    assert list(zip(rows["profile"], rows["runs"], strict=True)) == [("quick", 12), ("real", 3456)]
    assert rows["file"].str.endswith("diss-tab-1.7.csv").all(), "a companion was counted"
    missing = coverage[coverage["id"] == "diss-tab-A19"]
    assert missing[["profile", "file", "runs"]].to_numpy().tolist() == [["", "", 0]]
    summary = summarize_coverage(coverage, listed)
    assert summary["total"].sum() == DIFFERENT
    assert summary.loc["dissertation", [*STATES]].tolist() == [2, 2, 2, 0]


@pytest.mark.parametrize(
    ("names", "evidence", "counts"),
    [
        (["diss-tab-3.8"], {"learned": False}, [1, 0, 0, 0]),
        (["diss-tab-1.7"], {"stand_in": True, "published_scale": True}, [1, 1, 0, 0]),
        (["diss-tab-1.7"], {}, [1, 1, 1, 0]),
        (["diss-tab-1.7"], {"published_scale": True, "profile": "quick"}, [1, 1, 1, 0]),
        # Pictures of a table's data count with the table.
        (["diss-fig-2.4"], {"published_scale": True}, [1] * 4),
        (["diss-fig-2.4", "diss-tab-2.2"], {"published_scale": True}, [1] * 4),
    ],
)
def test_an_artifact_counts_for_its_best_results(tmp_path, names, evidence, counts):
    made = Artifacts(tmp_path, notebook="n", result_set="reference", profile="real", runs=1)
    vars(made).update({"learned": True, **evidence})
    for name, part in product(names, ("a", "b")):
        made.save_table(error_rates(), name, part=part, caption="of one table")
    for other in ("rebuilt", "short"):  # one is read before, one after
        made = Artifacts(tmp_path, notebook="n", result_set=other, profile="quick", runs=1)
        made.save_table(error_rates(), names[0], part="a", caption="nobody learned")
    summary = summarize_coverage(count_coverage(load_artifacts(tmp_path), artifacts()), artifacts())
    assert summary.loc["dissertation", [*STATES]].tolist() == counts


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([1.0, 20000.0, None], ["1", "20,000", "–"]),
        ([0.12345, 2.0], ["0.123", "2.000"]),
        ([1234.56, 1.5], ["1,234.6", "1.5"]),
        ([97.2, 98.65], ["97.20", "98.65"]),
        ([0.00691, 0.004], ["0.00691", "0.00400"]),
        ([2.0, 0.00123, 97.2], ["2", "0.00123", "97.2"]),
        ([2670.8, 0.0591], ["2,671", "0.0591"]),
        ([0.1, 0.00001], ["0.1", "0.00001"]),
        ([0.079, 0.00288], ["0.0790", "0.0029"]),
        ([0.5, 0.00012], ["0.5", "0.00012"]),
        ([0.5, 0.0, 1.2e-9], ["5.00e-01", "0", "1.20e-09"]),
        ([0.5, 0.25, 0.0, -1.5, -1.2e-9], ["0.50", "0.25", "0", "-1.50", "≈ 0"]),
        ([float("-inf"), 0.5], ["−∞", "0.5"]),
    ],
)
def test_numbers_are_written_for_reading(values, written):
    column = pd.Series(values)
    assert list(map(formatter(column), column)) == written


def test_truth_values_with_gaps_are_words():
    column = pd.Series([True, None, False], dtype=object)
    assert list(map(formatter(column), column)) == ["yes", "–", "no"]


def test_p_values_are_written_without_powers():
    column = pd.Series([0.5, 0.012345, 3e-12, None], name="robust_p")
    assert list(map(formatter(column), column)) == ["0.5", "0.012", "< 0.0001", "–"]


def test_stored_results_name_their_data_and_length():
    stored = {"pixels": "MNIST, 196 time steps", "latching": "40 time steps"}
    for name, description in stored.items():
        with xr.open_dataset(ROOT / f"data/reference/real/{name}.nc") as ds:
            assert data_and_length(ds) == description


def test_a_publication_has_the_words_of_the_tally():
    counts = pd.Series({"agree": 26, "differ": 1, "experiment too small": 6})
    row = counts.reindex(TALLY, fill_value=0)
    assert tally_in_words(row) == "26 agree; 1 differs; 6 experiment too small"


def test_verdicts_are_counted_in_words():
    assert counts_in_words(pd.Series({"agrees": 26, "differs": 1})) == "26 agree, 1 differs"
    table = judge_claims([])
    assert describe_claim(table.iloc[0]).null == ""
    null = "the value of no effect, 0, lies outside the interval"
    assert describe_claim(table.assign(null=0.0, null_is="outside").iloc[0]).null == null
    null = "the value of no effect, 0, lies between the interval and the threshold"
    assert describe_claim(table.assign(null=0.0, null_is="between").iloc[0]).null == null


@pytest.mark.parametrize(
    ("verdict", "cause", "kind", "status"),
    [
        (UNTESTABLE, "too small", "experiment too small", "Experiment too small"),
        (UNTESTABLE, "no data", "not testable for other reasons", "Not testable: no data"),
        (NOT_JUDGED, "", "not testable for other reasons", "Not judged yet"),
        (AGREES, "", "agree", "Agrees with the paper"),
        (UNDECIDED, "", "undecided", "Undecided"),
        (NO_EFFECT, "", "little or no effect, as claimed", "Little or no effect, as claimed"),
    ],
)
def test_kinds_of_verdicts(verdict, cause, kind, status):
    table = judge_claims([]).assign(counted=verdict, corrected=verdict, cause=cause)
    claim = describe_claim(table.iloc[0])
    assert (claim.kind, claim.status) == (kind, status)
    assert bool(claim.why_untested) == bool(cause)
    assert tally(table).loc["all", kind] == len(table)
    causes = count_causes(table).loc["all"]
    assert causes["total"] == (len(table) if cause else 0)


def test_a_short_lead_is_quoted_with_its_caveat():
    listed = [finding for question in read_findings().questions for finding in question.findings]
    (finding,) = (each for each in listed if each.claim == "lem-5-ptbchar-gated")
    measured = {"estimate": 0.07, "low": 0.06, "high": 0.09, "paper_steps": 200_000.0}
    measured |= {"verdict": AGREES, "counted": AGREES, "corrected": AGREES}
    table = judge_claims([]).assign(**measured).set_index("id", drop=False)
    ends = {474.0: " paper's 200,000 steps: the lead may only reflect faster learning."}
    for steps in (474.0, 200_000.0):
        text = write_sentence(finding, table.assign(steps=steps).loc[finding.claim]).text
        assert text.endswith(ends.get(steps, "published: 0.11)."))
    table["caveat"] = "tuned less; not robust: one run decides"
    text = write_sentence(finding, table.assign(steps=200_000.0).loc[finding.claim]).text
    assert text.endswith("published: 0.11). Not robust: one run decides.")


def test_scale_names_the_data_of_its_task():
    stored = load(ROOT / "data/reference/real/language.nc")  # words, too
    scale = scale_of_networks(Networks(stored, "PTB characters"), "LEM", "LSTM")
    description = describe_claim(judge_claims([]).assign(**scale.columns()).iloc[0]).scale
    assert description.startswith("5,000 sequences of 100 time steps, ")
    assert "words" not in description
    assert description.endswith("Penn Treebank, characters")


def test_tables_pair_our_numbers_with_published_ones():
    assert paired_html(error_rates()) is None, "a single key"
    assert paired_html(counts().drop(columns="published")) is None, "nothing to compare"
    assert paired_html(counts().assign(quartile=range(8))) is None, "most cells would be empty"
    html = paired_html(counts())
    assert '<span class="ours">1,007</span><span class="theirs">2,007</span>' in html
    assert html.count("again") == 2, "keys that repeat the row above, no numbers"
    unnamed = counts().replace({"quartile": {2: np.nan}})
    assert paired_html(unnamed).count("theirs") == 8, "a level without a name hides no number"
    levels = pd.MultiIndex.from_product([("adjoint", "lstm"), (20, 100)], names=["method", "width"])
    table = pd.DataFrame({"missing": 0, "ours": 0.5, "published": 0.6}, levels).reset_index()
    assert key_columns(table) == ["method", "width"], "counts do not run across"


@pytest.mark.parametrize(
    ("steps", "paper_steps", "words"),
    [
        (474.0, 200000.0, "474 of the paper's 200,000 training steps"),
        (1600.0, 1600.0, "the paper's 1,600 training steps"),
        (53500, 53400.0, "53,500 training steps (53,400 in the paper)"),
        (474, "not printed", "474 training steps"),
        (math.nan, math.nan, ""),
    ],
)
def test_scale_names_the_training_steps(steps, paper_steps, words):
    row = judge_claims([]).assign(steps=steps, paper_steps=paper_steps).iloc[0]
    assert describe_claim(row).scale == words


def test_the_length_of_sequences_is_not_named_as_data():
    row = judge_claims([]).assign(time_steps=75.0, data="75 time steps").iloc[0]
    assert describe_claim(row).scale == "75 time steps"


def test_tables_show_spread_runs_and_chance():
    more = {"spread": 1.5, "n": 5, "guess": 10.0}
    html = paired_html(counts().assign(**more))
    assert '<span class="spread">± 1.5, n = 5</span>' in html
    assert ">chance</th>" in html and ">10</td>" in html


def test_our_numbers_have_no_more_decimals_than_their_spread_warrants():
    tasks = ["pixel", "permuted", "pixel", "permuted"]
    table = pd.DataFrame({"task": tasks, "network": ["LSTM", "LSTM", "iRNN", "iRNN"]})
    table = table.assign(ours=[49.48, 52.06, 83.22, 11.4], published=[96.44, 92.68, None, 95.62])
    html = paired_html(table.assign(spread=[6.121, 1.896, 0.986, 0.0], guess=11.35))
    assert '"ours">49.5</span><span class="theirs">96.44</span>' in html
    assert ">± 6.1<" in html and ">± 0.0<" in html and ">11.4<" in html
    assert html.count("theirs") == 3, "a number that is not published leaves no dash"
    small = table.assign(ours=[0.00262, 0.0051, 0.021, 0.05], spread=[0.0003, 0.01, 0.02, 0.03])
    assert '"ours">0.0026</span>' in paired_html(small), "two digits of the smallest number"


def test_many_networks_are_rows():
    networks = [f"network {number}" for number in range(8)]
    levels = pd.MultiIndex.from_product([("a", "b"), networks], names=["task", "network"])
    table = pd.DataFrame({"ours": 0.5, "published": 0.6, "guess": 0.1}, levels).reset_index()
    html = paired_html(table)
    assert re.findall(r'<th scope="col".*?>(.*?)</th>', html) == ["network", "a", "b"]
    assert re.findall(r"<td>(.*?)</td>", html) == ["chance", *networks]


def test_a_verdict_follows_the_names_and_repeats_no_row():
    rows = {"id": ["a", "a"], "reading": ["x", "y"], "cause": "", "verdict": "agrees", "n": 1}
    html = to_html(pd.DataFrame(rows)[["id", "reading", "verdict", "cause", "n"]])
    headers = re.findall(r'<th scope="col".*?>(.*?)</th>', html)
    assert headers == ["id", "reading", "verdict", "cause", "n"]
    assert html.count("again") == 1, "the id, not the verdict"
    counts = dict.fromkeys("nmkl", 1)
    html = to_html(pd.DataFrame({"border": [5, 10], **counts, "verdict": "agrees"}))
    assert html.index(">border<") < html.index(">verdict<") < html.index(">n<")
    coefficients = {"name": ["metric"], "ours": 0.1, "published": 0.2, "verdict": "above 0"}
    html = to_html(pd.DataFrame(coefficients))
    assert html.index(">published<") < html.index(">verdict<"), "it is near enough"


def test_long_texts_have_several_lines():
    html = to_html(pd.DataFrame({"id": ["a"], "n": [1], "note": ["a note of many words " * 3]}))
    assert html.count('<td class="long">') == 1


def test_a_caption_names_the_panels_of_its_data(tmp_path):
    made = Artifacts(tmp_path, notebook="n", result_set="reference", profile="real", runs=1)
    data = pd.DataFrame({"task": ["N=200", "N=200", "N=2000"], "step": [1, 2, 1]})
    made.show_figure(drawing(), "lem-fig-adding", data=data, caption="Errors.")
    (item,) = load_artifacts(tmp_path)
    assert panels(item) == "N=200, N=2000"
    named = item.model_copy(update={"caption": "Errors at N=200 and N=2000."})
    assert panels(named) == ""


def test_texts_of_tables_are_escaped():
    html = to_html(pd.DataFrame({"what": ["a < b", "<script>"], "value": [0.1, np.nan]}))
    assert "a &lt; b" in html and "&lt;script&gt;" in html
