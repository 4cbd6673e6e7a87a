"""The report in a browser, used as a person would: clicking, typing, and reading what is there."""

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from browser import MISSING, needs_browser, wait_until
from dph.results.report.answers import Limits
from dph.results.report.page import write_report
from report_runs import HOSTILE, HOSTILE_ID, LOST, SETS

TIMES = "\N{MULTIPLICATION SIGN}"
axe_sync = pytest.importorskip("axe_playwright_python.sync_playwright", reason=MISSING)
pytestmark = needs_browser


def texts(page, selector):
    return page.eval_on_selector_all(selector, "found => found.map(e => e.textContent)")


def listed_ids(page):
    return texts(page, "#list .rows .id")


def test_the_overview_begins_with_verdicts_that_lead_to_what_was_lost(open_report):
    page = open_report()
    assert page.inner_text("h1") == "dph report"
    assert texts(page, "#overview tbody th .run")[:3] == ["Base model", "DPH-F", "GRPO"]
    wait_until(page, "document.querySelectorAll('#overview .chart svg.marks').length >= 2")
    assert texts(page, "#run-rows .group")[0].startswith("in domain")
    said = texts(page, ".verdicts li")
    assert " ".join(said[0].split()).startswith("GRPO ")
    assert "cannot be distinguished from Base model" in said[1]
    page.click(".verdicts a")
    page.wait_for_selector("#list .rows .row")
    assert listed_ids(page) == [LOST]


def test_the_table_of_runs_is_sorted_searched_and_its_columns_chosen_in_the_address(open_report):
    page = open_report()
    runs = "#run-rows tbody th .run"
    page.click("[data-sort='in_domain/lost']")
    assert texts(page, runs)[0] == "GRPO"
    page.click("summary:has-text('Columns')")
    assert "objective." in page.inner_text("fieldset:has-text('settings that differ')")
    page.uncheck("input[value='in_domain/greedy']")
    page.check("input[value='run/seed']")
    page.fill("#run-table [name=find]", "objective.name=nothing")
    assert page.inner_text("#run-rows") == "No run has these words."
    page.fill("#run-table [name=find]", "seed=0 grpo")
    assert texts(page, runs) == ["GRPO"]
    page.check("[name=intervals]")
    assert "95%: " in page.inner_text("#run-rows tbody")
    again = open_report("#" + page.url.partition("#")[2])
    assert texts(again, runs) == ["GRPO"]
    heads = texts(again, "#run-rows thead .sorter")
    assert "seed" in heads
    assert sum("first try" in head for head in heads) == 1
    assert "95%: " in again.inner_text("#run-rows tbody")


def test_a_word_has_its_meaning_behind_a_question_mark(open_report):
    page = open_report()
    page.click("#run-rows .what[data-word=lost]")
    assert "more than two draws of one model would show" in page.inner_text("#meaning")
    page.keyboard.press("Escape")
    assert page.is_hidden("#meaning")


def test_a_run_that_is_switched_off_is_gone_from_tables_charts_and_lists(open_report):
    page = open_report()
    wait_until(page, "document.querySelector('.chart svg.marks') !== null")
    lines = "document.querySelector('.chart svg').querySelectorAll('.mark-line path').length"
    wait_until(page, f"{lines} === 3")
    page.keyboard.press("3")
    wait_until(page, f"{lines} === 2")
    assert texts(page, "#run-rows tbody th .run") == ["Base model", "DPH-F"]
    assert page.is_hidden(".verdicts .of-r2")
    page.click("nav >> text=Problems")
    assert page.get_attribute("#list", "data-runs") == "2"
    page.click("label:has-text('GRPO')")
    wait_until(page, "document.getElementById('list').dataset.runs === '3'")


def test_pointing_at_a_chart_shows_every_runs_value(open_report):
    page = open_report("#/training")
    wait_until(page, "document.querySelector('#training .chart svg.marks') !== null")
    box = page.query_selector("#training .chart svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    wait_until(page, "!document.getElementById('tip').hidden")
    said = page.inner_text("#tip")
    assert "step" in said
    assert "DPH-F" in said
    assert "GRPO" in said


def test_charts_of_training_are_grouped_smoothed_and_zoomed_together(open_report):
    page = open_report("#/training")
    assert "step 40 of" in page.inner_text("#progress")
    assert texts(page, "#training > .charts > h3")[:2] == ["Outcome", "Diversity"]
    wait_until(page, "document.querySelectorAll('#training .chart svg.marks').length > 3")
    page.select_option("[name=smooth]", "5")
    page.fill("#chart-tools [name=from]", "10")
    page.check("#chart-tools [name=log]")
    assert page.url.endswith("#/training?smooth=5&log=1&from=10")
    again = open_report("#" + page.url.partition("#")[2])
    assert again.input_value("#chart-tools [name=from]") == "10"
    wait_until(again, "document.querySelectorAll('#training .chart svg.marks').length > 3")
    first = again.locator("#training .chart svg").first.bounding_box()
    again.mouse.move(first["x"] + first["width"] / 2, first["y"] + 50)
    wait_until(again, "document.querySelectorAll('.cross:not([hidden])').length > 3")


def test_lost_problems_are_found_by_the_filter_and_the_address_tells_it(open_report):
    page = open_report("#/problems")
    assert page.inner_text("#counted") == f"{SETS['in_domain'] + 1} of 25 problems"
    page.select_option("#by-change", "lost")
    page.select_option("#by-run", "r2")
    assert listed_ids(page) == [LOST]
    assert "change=lost" in page.url
    again = open_report(page.url.partition("#")[2].join(["#", ""]))
    assert listed_ids(again) == [LOST]
    page.click("#filters button[type=reset]")
    assert page.inner_text("#counted").startswith("25 of")


def test_search_finds_ids_prompts_gold_and_if_asked_answers(open_report):
    page, first = open_report("#/problems"), "document.querySelector('#list .id')?.textContent"
    page.fill("#by-q", '"above 7 of"')
    wait_until(page, f"{first} === 'in_domain-0007'")
    page.fill("#by-q", '"stars > 11"')  # of the gold statement alone
    wait_until(page, f"{first} === 'in_domain-0011'")
    assert listed_ids(page) == ["in_domain-0011"]
    page.fill("#by-q", '"with c" ">= 13"')
    assert listed_ids(page) == []
    page.check("#by-answers")
    wait_until(page, "document.querySelectorAll('#list .rows .id').length === 1")
    assert listed_ids(page) == ["in_domain-0013"]


def test_a_click_on_a_title_sorts_by_that_run(open_report):
    page = open_report("#/problems?set=cross_domain")
    page.click("#titles .of-r2 button")
    counts = texts(page, "#list .rows .of-r2 .count")
    shares = [int(count.split("/")[0]) for count in counts]
    assert shares == sorted(shares, reverse=True)
    assert page.get_attribute("#titles .of-r2", "aria-sort") == "descending"
    page.click("#titles .of-r2 button")
    shares = [int(count.split("/")[0]) for count in texts(page, "#list .rows .of-r2 .count")]
    assert shares == sorted(shares)


def test_outcomes_and_styles_filter_by_what_some_answer_has(open_report):
    page = open_report("#/problems?set=cross_domain")
    page.select_option("#by-run", "r2")
    page.select_option("#by-style", "nested")
    assert listed_ids(page) == []  # GRPO answers in one style
    page.select_option("#by-style", "cte")
    assert len(listed_ids(page)) == SETS["cross_domain"]
    page.select_option("#by-outcome", "WRONG")
    counts = texts(page, "#list .rows .of-r2 .count")
    assert counts
    assert "8/8" not in counts
    assert len(counts) == len(listed_ids(page)) < SETS["cross_domain"]
    page.click("#filters button[type=reset]")
    page.select_option("#by-set", "in_domain")
    assert page.inner_text("#counted").endswith("of 25 problems")
    page.select_option("#by-run", "r2")
    page.fill("#by-to", "0")
    assert LOST in listed_ids(page)
    assert all(c.startswith("0/") for c in texts(page, "#list .rows .of-r2 .count"))


def test_keys_walk_the_list_open_a_problem_and_come_back(open_report):
    page = open_report("#/problems")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#problem h2")
    assert page.inner_text("#problem h2") == "in_domain-0001"
    page.keyboard.press("j")
    wait_until(page, "document.querySelector('#problem h2').textContent === 'in_domain-0002'")
    page.keyboard.press("u")
    page.wait_for_selector("#list .row.current")
    page.keyboard.press("/")
    wait_until(page, "document.activeElement.id === 'by-q'")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("#help")


def test_a_deep_link_shows_prompt_gold_and_grouped_answers_that_are_compared_by_word(open_report):
    page = open_report(f"#/problem/in_domain/{LOST}")
    page.wait_for_selector("#problem .column")
    assert "show rooms above 0 of in_domain" in page.inner_text("#problem .question")
    assert "SELECT rooms FROM hotel WHERE stars > 0" in page.inner_text("#problem .fields")
    assert texts(page, "#problem .fields .sql-word") == ["SELECT", "FROM", "WHERE"]
    assert texts(page, "#problem .fields .sql-number") == ["0"]
    assert texts(page, "#problem .score b") == [f"{n} of 8 correct" for n in (8, 8, 0)]
    grpo = "#problem .column.of-r2"
    assert texts(page, f"{grpo} .answer .times") == ["8" + TIMES]
    assert page.inner_text(f"{grpo} .outcome").endswith("wrong")
    assert page.inner_text(f"{grpo} .reason") == "2 distinct rows, the gold has 1"
    assert page.inner_text(f"{grpo} .change") == "lost"
    times = [int(t.rstrip(TIMES)) for t in texts(page, "#problem .column.of-r0 .times")]
    assert times == sorted(times, reverse=True)
    assert sum(times) == 8
    page.click("#problem .column.of-r0 .answer >> nth=0 >> button:has-text('differs')")
    page.click("#problem .column.of-r2 .answer >> nth=0 >> button:has-text('differs')")
    difference = "#problem .column.of-r2 .difference"
    first = texts(page, "#problem .column.of-r0 .answer pre")[0]
    theirs = "found => found.map((one) => one.textContent).join('')"
    assert page.eval_on_selector_all(f"{difference} del, {difference} span", theirs) == first
    assert page.locator(f"{difference} ins").count() > 0


def test_notes_and_tags_are_kept_and_exported(open_report):
    page = open_report(f"#/problem/in_domain/{LOST}")
    page.click("summary:has-text('Your notes')")
    page.fill("[aria-label=Note]", "the gold is doubtful")
    page.fill("[aria-label=Tags]", "gold check")
    page.reload()
    page.wait_for_selector("#problem .answer")
    assert page.input_value("[aria-label=Note]") == "the gold is doubtful"
    with page.expect_download() as started:
        page.click("button:has-text('Export all notes')")
    (note,) = json.loads(Path(started.value.path()).read_text())
    assert note == {
        "set": "in_domain",
        "problem_id": LOST,
        "note": "the gold is doubtful",
        "tags": ["gold", "check"],
    }


def test_equal_answers_have_one_letter_and_are_marked_together(open_report):
    page = open_report("#/problem/in_domain/in_domain-0002")
    page.wait_for_selector("#problem .answer")
    by_text = page.eval_on_selector_all(
        "#problem .answer",
        "found => found.map(e => [e.dataset.letter, e.querySelector('pre').textContent])",
    )
    assert len({letter for letter, _ in by_text}) == len({text for _, text in by_text})
    letter = by_text[0][0]
    page.click("#problem .answer .letter")
    marked = [e for e in by_text if e[0] == letter]
    assert page.locator("#problem .answer.same").count() == len(marked)


def test_tokens_are_coloured_by_what_is_chosen_and_say_their_numbers(open_report):
    page = open_report(f"#/problem/in_domain/{LOST}")
    tokens = "#problem .column.of-r2 pre.tokens .token"
    page.wait_for_selector(tokens)
    pieces = texts(page, tokens)
    assert "".join(pieces).startswith("WITH c AS ( SELECT * FROM hotel")
    said = page.get_attribute(f"{tokens} >> nth=2", "title")
    assert said == "log-prob -2, entropy 0.5, log-ratio -1 (nats)"
    page.click(f"{tokens} >> nth=2")
    assert page.inner_text("#token-values") == f'" AS": {said}'
    page.keyboard.press("ArrowRight")  # a click put the focus there
    assert page.inner_text("#token-values").startswith('" (": log-prob -3')
    colours = {}
    for by in ("logprob", "entropy", "ratio"):
        page.select_option("#colouring", by)
        colours[by] = page.eval_on_selector_all(
            tokens, "found => found.map(e => getComputedStyle(e).backgroundColor)"
        )
    assert len({tuple(of) for of in colours.values()}) == 3
    assert len(set(colours["logprob"])) == 5  # 0 to -4 nats, and as much from there on
    assert len(set(colours["ratio"])) == 2  # 1 nat above and 1 below
    assert page.locator("#problem .column.of-r0 pre.tokens").count() == 0


def test_formulas_and_boxed_answers_are_marked_and_nothing_is_left_out(open_report):
    page = open_report(f"#/problem/in_domain/{quote(HOSTILE_ID, safe='')}")
    page.wait_for_selector("#problem .formula")
    column = "#problem .column.of-r0"
    shown = [text for text in texts(page, f"{column} pre") if "frac" in text]
    assert shown == [HOSTILE[4]]
    formulas = texts(page, f"{column} .formula")
    assert formulas == ["$\\frac{<b>1</b>}{2}$", "\\[ \\boxed{\\frac{4}{2}} \\]"]
    assert texts(page, f"{column} .boxed") == ["\\boxed{\\frac{4}{2}}"]


def test_a_problem_is_copied_as_json(open_report, browser):
    browser.grant_permissions(["clipboard-read", "clipboard-write"])
    page = open_report(f"#/problem/in_domain/{LOST}")
    page.click("#copy")
    wait_until(page, "document.getElementById('said').textContent === 'copied as JSON'")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert (copied["set"], copied["problem_id"]) == ("in_domain", LOST)
    assert copied["fields"]["gold_sql"] == "SELECT rooms FROM hotel WHERE stars > 0"
    assert copied["runs"]["GRPO"]["correct"] == 0
    answers = copied["runs"]["Base model"]["answers"]
    assert sorted(i for answer in answers for i in answer["samples"]) == [*range(-1, 8)]


def test_hostile_answers_do_nothing_and_are_readable(open_report):
    page = open_report(f"#/problem/in_domain/{quote(HOSTILE_ID, safe='')}")
    page.wait_for_selector("#problem .answer")
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main iframe, main [onload], main [onerror]").count() == 0
    assert page.locator("main a[href^='javascript']").count() == 0
    shown = "".join(texts(page, "#problem .column.of-r0 pre"))
    assert HOSTILE[0] in shown
    assert HOSTILE[1] in shown
    marks = texts(page, "#problem .column.of-r0 pre .mark")
    assert {"U+202E", "U+200B", "U+001B", "U+0007", "U+2066"} <= set(marks)
    assert "\u202e" not in page.inner_text("#problem h2")
    assert "50,000 of 1,000,000 characters" in page.inner_text("#problem .column.of-r0")
    page.click("#problem .column.of-r0 .more")
    assert "A" * 50_000 in texts(page, "#problem .column.of-r0 pre")


def test_a_diagnosis_ranks_the_runs_folds_sets_without_a_change_and_leads_to_problems(open_report):
    page = open_report("#/diagnosis")
    rows = texts(page, "#diagnosis > .scroll tbody th .run")
    assert rows == ["GRPO", "DPH-F"]
    articles = page.eval_on_selector_all("article", "found => found.map(e => e.dataset.run)")
    assert articles == ["r2", "r1"]
    folded = texts(page, "article.of-r1 .unchanged summary")
    assert folded[0].startswith("in domain")
    assert "nothing that two draws of one model would not show" in folded[0]
    page.click("#diagnosis .scroll a:has-text('DPH-F')")
    wait_until(page, "location.hash.startsWith('#/diagnosis?run=r1')")
    assert page.locator("article.of-r2 svg.draws").count() > 0
    page.click(f"article.of-r2 a:has-text('{LOST}')")
    page.wait_for_selector("#problem h2")
    assert page.inner_text("#problem h2") == LOST
    page = open_report("#/diagnosis")
    said = page.inner_text("article.of-r2")
    assert "more than chance" in said or "two draws of one model" in said
    for part in ("styles that died", "certainty in the others", "moved between them"):
        assert part in said
    kept = page.locator("article.of-r2 section").first.locator("tr:has(a .change.kept)")
    count = int(kept.locator("td").first.inner_text())
    kept.locator("a").click()
    page.wait_for_selector("#list .rows .row")
    assert page.inner_text("#counted") == f"{count} of 25 problems"


def test_a_limit_on_answers_says_how_many_of_how_many(data, tmp_path, open_report):
    few = write_report(data, tmp_path / "few.html", limits=Limits(most=1))
    page = open_report("#/problem/in_domain/in_domain-0002", path=few.path)
    page.wait_for_selector("#problem .kept")
    assert page.locator("#problem .column.of-r0 .answer").count() == 1
    kept = page.inner_text("#problem .column.of-r0 .kept")
    assert kept.startswith("the 1 most frequent of ")


def test_what_is_switched_off_stands_in_the_address_of_every_page(open_report):
    page = open_report()
    page.keyboard.press("3")
    wait_until(page, "location.hash === '#/?off=r2'")
    page.click("nav >> text=Problems")
    wait_until(page, "document.getElementById('list').dataset.runs === '2'")
    assert "off=r2" in page.url
    page.select_option("#by-change", "lost")
    assert "change=lost" in page.url
    assert "off=r2" in page.url
    again = open_report("#" + page.url.partition("#")[2])
    assert not again.is_checked("#runs input[value=r2]")
    assert again.get_attribute("#list", "data-runs") == "2"
    again.click("label:has-text('GRPO')")
    assert "off=" not in again.url


def test_a_list_without_problems_says_why_and_what_names_nothing_is_not_used(open_report):
    page = open_report("#/problems?q=nothinghasthis")
    assert "No problem matches these filters." in page.inner_text("#none")
    page.click("#none button")
    assert page.inner_text("#counted").startswith("25 of")
    assert page.inner_text("#none") == ""
    page = open_report("#/problem/in_domain/nobody")
    page.wait_for_selector("#problem .note")
    assert "There is no problem nobody" in page.inner_text("#problem")
    page = open_report("#/problems?change=banana")
    said = page.inner_text("#none")
    assert "change=banana" in said
    assert "lost, gained, kept, undecided, unsolved" in said
    assert page.inner_text("#counted").startswith("25 of")


def test_light_and_dark_and_a_phone_and_paper(open_report):
    page = open_report()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    page.click("#theme")  # light, whatever the system says
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light
    page.set_viewport_size({"width": 390, "height": 844})
    page.click("nav >> text=Problems")
    page.wait_for_selector("html[data-shown='#/problems']")
    sign = "getComputedStyle(document.querySelector('#list .change.lost'), '::after').content"
    assert "▼" in page.evaluate(sign)
    page.emulate_media(media="print")
    assert page.is_hidden("nav")


PAGES = ("#/", f"#/problem/in_domain/{LOST}", "#/training", "#/diagnosis", "#/problems")

# In light, test_many_runs looks at every page.
ALL = pytest.param("dark", PAGES, marks=pytest.mark.slow)


@pytest.mark.parametrize(("scheme", "pages"), [("light", PAGES[:2]), ALL])
def test_axe_finds_nothing_that_keeps_anybody_out(open_report, scheme, pages):
    page = open_report()
    page.emulate_media(color_scheme=scheme)
    for address in pages:
        page.evaluate("address => { location.hash = address }", address)
        page.wait_for_selector(f"html[data-shown='{address}']")
        found = axe_sync.Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == [], address
