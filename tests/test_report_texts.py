"""Parts of the report's pages that need no site: answers, names, orders, pictures and the menu."""

import base64
import io
import json
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image
from study.report import notebook_outputs, tables
from study.report.__main__ import write_metrics
from study.report.answers import answer
from study.report.claim_words import begin_sentence, where_words
from study.report.conf import entries_above
from study.report.contents import Artifact, Notebook
from study.report.groups import Group, choose_evidence, group_artifacts
from study.report.notebook_outputs import code_cell_html
from study.report.notebook_page import NotebookPage
from study.report.notebooks import short_name
from study.report.questions import Question, tables_by_question
from study.report.readings import read_readings
from study.report.restricted import caption_html, clean_html
from study.report.titles import chapter_name, own_name, part_name


@pytest.fixture
def answer_of(tmp_path):
    """Return a function from the cells of a notebook to its answer."""

    def find(*cells):
        path = tmp_path / "20_why.ipynb"
        nbformat.write(new_notebook(cells=list(cells)), path)
        return answer(Notebook(path, "rebuilt", "Why?"))

    return find


def displayed(markdown):
    """Return a code cell that displays Markdown."""
    return new_code_cell(
        "show()", outputs=[new_output("display_data", {"text/markdown": markdown})]
    )


EARLIER = new_markdown_cell("## An earlier answer\n\nNo.")
ANSWER = new_markdown_cell("## Answer\n\nThe table says it.")
NOT_ANSWERED = new_markdown_cell("## What this does not answer\n\nMuch.")


def test_an_output_below_the_last_answer_comes_first(answer_of):
    output = displayed("- a claim\n- another claim\n\n**Yes**, [as claimed](x.md).")
    assert answer_of(EARLIER, ANSWER, output, NOT_ANSWERED) == "Yes, as claimed."


def test_without_outputs_the_prose_is_the_answer(answer_of):
    assert answer_of(EARLIER, ANSWER, new_code_cell("1"), NOT_ANSWERED) == "The table says it."


def test_asterisks_of_formulas_and_code_stay(answer_of):
    output = displayed("The best is **$h^*$**, *not* `a*b*c`.")
    assert answer_of(ANSWER, output) == "The best is $h^*$, not `a*b*c`."


def test_a_notebook_may_have_no_answer(answer_of):
    assert answer_of(displayed("Yes."), NOT_ANSWERED) == ""


def test_a_long_answer_is_cut_after_a_sentence(answer_of):
    assert answer_of(ANSWER, displayed("It is short. It is " + "very " * 80 + "long.")) == (
        "It is short."
    )


def test_a_long_sentence_is_cut_between_words(answer_of):
    text = answer_of(ANSWER, displayed("word " * 80))
    *words, end = text.split(" ")
    assert (set(words), end) == ({"word"}, "…")
    assert 290 < len(text) <= 302


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("22_numerical_errors", "22 · Numerical errors"),
        ("57_lem_adding", "57 · LEM adding"),
        ("51_memory_of_unicornn", "51 · Memory of UnICORNN"),
        ("18_problems", "18 · Problems"),  # not probLEMs
    ],
)
def test_short_names_write_architectures_as_papers_do(file, name):
    assert short_name(file) == name


@pytest.mark.parametrize(
    ("paper", "chapter", "name"),
    [
        ("dissertation", "3", "Dissertation, chapter 3"),
        ("lem", "5", "LEM, section 5"),
        ("lem", "B", "LEM, appendix B"),
        ("irnn", "", "iRNN"),
    ],
)
def test_chapters_sections_and_appendices_are_named(paper, chapter, name):
    assert chapter_name(paper, chapter) == name


def test_verdicts_under_other_readings_are_read(tmp_path):
    path = tmp_path / "own-irnn-claims.csv"
    path.write_text(
        "id,reading,verdict,cause,estimate,low,high,note\n"
        'irnn-4.2-300,printed,not testable at this scale,no data,,,,"not trained: iRNN K=10"\n'
        "irnn-4.2-300,minus,agrees,,172.5,143,202,\n"
    )
    table = artifact("reference", name="own-irnn-claims").model_copy(
        update={"manifest": path.with_suffix(".json")}
    )
    printed, minus = read_readings([table])["irnn-4.2-300"]
    assert (printed.verdict, printed.cause) == ("not testable at this scale", "no data")
    assert printed.words == "not trained: iRNN K=10"
    assert (minus.cause, minus.words) == ("", "172 (143 to 202) training steps")
    quick = table.model_copy(update={"profile": "quick"})
    assert read_readings([quick]) == read_readings([]) == {}


@pytest.mark.parametrize(
    ("part", "name"),
    [("by-learning-rate", "By learning rate"), ("ncifar", "nCIFAR-10"), ("", "")],
)
def test_parts_of_a_table_are_named(part, name):
    assert part_name(part) == name


def test_our_own_tables_are_named_as_papers_write():
    names = ["own-gpu-kernels", "own-irnn-jacobian", "own-slope-model-5", "own-shape-model-10"]
    read = ["GPU kernels", "iRNN Jacobian", "Slope, Model 5", "Shape, Models 10 to 12"]
    assert [own_name(name) for name in names] == read


def test_negative_numbers_in_captions_have_a_minus():
    assert caption_html("-1 in models 1-3, `x[-1]`") == "−1 in models 1-3, <code>x[-1]</code>"


def test_headers_of_tables_in_notebooks_have_a_scope():
    table = pd.DataFrame({"a": [1]}, index=["row"]).to_html()
    html = clean_html(table)
    assert html.count("<th ") == html.count('scope="') == 3
    assert '<th scope="row">row</th>' in html and '<th scope="col">a</th>' in html


def test_columns_of_words_in_notebooks_are_marked():
    table = pd.DataFrame({"n": [1, 2], "note": ["few runs", ""], "inf": [float("inf"), 1.0]})
    html = clean_html(table.to_html())
    assert '<th scope="col" class="words">note</th>' in html
    assert html.count('<td class="words">') == 2


def test_tables_of_models_are_listed_as_readers_count():
    names = ["own-rows-model-10", "own-rows-model-1", "own-rows-model-4"]
    read = ["own-rows-model-1", "own-rows-model-4", "own-rows-model-10"]
    listed = pd.DataFrame(columns=["id", "paper", "name", "what"])
    groups = group_artifacts([artifact("rebuilt", name=name) for name in names], listed)
    assert [group.id for group in groups] == read


@pytest.mark.parametrize(
    ("section", "page", "words"),
    [
        ("3.4", 65, "Section 3.4, page 65"),
        ("5, Table 1", "", "Section 5, Table 1"),
        ("A.6.3", "", "Appendix A.6.3"),
        ("C", "", "Appendix C"),
        ("appendix E, Table 7", "", "Appendix E, Table 7"),
    ],
)
def test_places_in_a_paper_are_named(section, page, words):
    assert where_words(section, page) == words


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("the interval is wide", "The interval is wide"),
        ("iRNN learns", "iRNN learns"),  # IRNN is another network
        ("lstm was tuned", "LSTM was tuned"),
        ("20 of 20 runs of lstm", "20 of 20 runs of lstm"),
        ("", ""),
    ],
)
def test_names_keep_their_spelling_at_the_beginning_of_a_sentence(text, sentence):
    assert begin_sentence(text) == sentence


def artifact(result_set, *, part="", profile="real", learned=True, kind="table", name="own-x"):
    return Artifact(
        artifact=name,
        part=part,
        kind=kind,
        profile=profile,
        runs=1,
        learned=learned,
        file="x.csv",
        caption="",
        result_set=result_set,
        notebook="20_why",
        manifest=Path("x.json"),
    )


def group(*items, paper=""):
    return Group(items[0].artifact, items[0].kind, paper, "a name", "", items)


def test_the_weightiest_results_come_first_and_quick_ones_last():
    quick = artifact("rebuilt", profile="quick")
    at_chance = artifact("short", learned=False)
    companion = artifact("reference", part="by-task")
    main = artifact("reference")
    ordered = group(quick, at_chance, companion, main).by_result_set()
    assert list(ordered) == ["reference", "short", "rebuilt"]
    assert ordered["reference"] == [main, companion]


def test_a_claim_shows_the_runs_that_judge_it():
    images = artifact("reference")
    reviews = artifact("reference", part="imdb").model_copy(update={"notebook": "64_reviews"})
    quick = artifact("rebuilt", profile="quick")
    table = group(images, reviews, quick)
    judge = reviews.model_copy(update={"kind": "claims", "runs": 60})
    assert choose_evidence([table], judge) == (table, reviews)
    same_runs = images.model_copy(update={"notebook": "47_longer"})
    assert choose_evidence([table], same_runs) == (table, images)
    others = same_runs.model_copy(update={"runs": 172})
    assert choose_evidence([table], others) is None
    assert choose_evidence([table], None) == (table, images)
    assert choose_evidence([], judge) is None
    short = artifact("short")  # another set, which judges although it is not the weightiest
    of_two = group(images, short)
    assert next(iter(of_two.by_result_set())) == "reference"
    assert choose_evidence([of_two], short) == (of_two, short)


def test_a_table_of_our_own_is_listed_with_its_first_question():
    ours = group(artifact("rebuilt", name="own-shared"))
    second = group(artifact("rebuilt", name="own-second"))
    published = group(artifact("rebuilt", name="diss-tab-1.7"), paper="dissertation")
    figure = group(artifact("rebuilt", name="own-figure", kind="figure"))
    questions = []
    for title, groups in (("Why?", [ours, published, figure]), ("How?", [ours, second])):
        copies = (Notebook(Path("20_why.ipynb"), "rebuilt", title),)
        questions.append(Question(copies, tuple(groups), 1, "ours", ()))
    assert tables_by_question(questions) == {"Why?": [ours], "How?": [second]}


def test_a_long_table_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_ROWS", 2)
    for rows, is_cut in ((2, False), (3, True)):
        path = tmp_path / "long.csv"
        pd.DataFrame({"what": [f"row {k}" for k in range(rows)]}).to_csv(path, index=False)
        prepared = tables.prepare_table(path)
        assert (prepared["rows"], prepared["cut"]) == (rows, is_cut)
        assert prepared["html"].count("row ") == 2


def test_metrics_count_verdicts_before_and_after_holm(tmp_path):
    verdicts = {"counted": ["agrees", "agrees", "differs"]}
    verdicts["corrected"] = ["agrees", "undecided", "differs"]
    pd.DataFrame(verdicts).to_csv(tmp_path / "claims.csv", index=False)
    assert write_metrics(tmp_path).to_dict() == {"agrees": 2, "differs": 1}
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics == {
        "claims": {"agrees": 2, "differs": 1},
        "claims after Holm": {"agrees": 1, "undecided": 1, "differs": 1},
    }


def encoded(kind, size=(3, 2)):
    """Return a picture of a kind as a notebook stores it."""
    file = io.BytesIO()
    Image.new("RGB", size).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


@pytest.fixture
def page(tmp_path):
    """A page whose warnings are in the list `warnings`."""
    warnings = []
    notebook = Notebook(tmp_path / "20_why.ipynb", "rebuilt", "Why?")
    page = NotebookPage(tmp_path, notebook, {}, warnings.append)
    page.warnings = warnings
    return page


def picture_cell(content, **metadata):
    output = new_output("display_data", {"image/png": content}, metadata={"image/png": metadata})
    return new_code_cell("plot()", outputs=[output])


def test_pictures_are_stored_and_shown_at_the_size_of_the_output(page, tmp_path):
    html = code_cell_html(picture_cell(encoded("PNG"), width=30, height=20), page)
    (path,) = tmp_path.rglob("*.png")
    assert path.parent == tmp_path / "files/outputs/rebuilt/20_why"
    assert f'src="../../{path.relative_to(tmp_path)}" width="30" height="20"' in html
    assert page.warnings == []


def test_a_picture_without_a_size_is_shown_at_its_own(page):
    assert 'width="3" height="2"' in code_cell_html(picture_cell(encoded("PNG")), page)


@pytest.mark.parametrize(
    ("kind", "size", "reason"),
    [
        ("GIF", (3, 2), "its picture is GIF, expected PNG or JPEG"),
        ("PNG", (4, 3), "its picture has 4 x 3 pixels"),
    ],
)
def test_other_and_huge_pictures_are_not_shown(page, tmp_path, monkeypatch, kind, size, reason):
    monkeypatch.setattr(notebook_outputs, "_MAX_PIXELS", 11)
    html = code_cell_html(picture_cell(encoded(kind, size)), page)
    assert f"This output cannot be shown: {reason}." in html and "<img" not in html
    (warning,) = page.warnings
    assert warning.endswith(f"cell 0: an output cannot be shown: {reason}")
    assert list(tmp_path.iterdir()) == []


MENU = SimpleNamespace(
    toctree_includes={
        "index": ["claims", "publications/lem"],
        "publications/lem": ["notebooks/reference/57_lem_adding"],
    },
    metadata={"notebooks/rebuilt/57_lem_adding": {"notebook": "57_lem_adding"}},
)
"""What Sphinx knows of the menu and of the pages that it does not list."""


@pytest.mark.parametrize(
    ("page", "above"),
    [
        ("index", []),
        ("claims", ["index"]),
        ("claims/lem-fhn-best", ["index", "claims"]),
        ("notebooks/reference/57_lem_adding", ["index", "publications/lem"]),
        (
            "notebooks/rebuilt/57_lem_adding",
            ["index", "publications/lem", "notebooks/reference/57_lem_adding"],
        ),
    ],
)
def test_the_menu_marks_the_entries_above_a_page(page, above):
    assert entries_above(MENU, page) == [*above, page]
