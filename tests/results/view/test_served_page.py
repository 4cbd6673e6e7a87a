"""The served page in a browser, used as a person would, and while a run trains."""

import json
from urllib.parse import quote

import pyarrow as pa
import pytest

from browser import needs_browser, open_browser, wait_until
from dph.recipe import save_recipe
from dph.runs.evaluate.progress_file import PROGRESS, write_progress_file
from live_server import serving
from report_runs import HOSTILE, HOSTILE_ID, LOST, SETS, make_runs, recipe

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser():
    with open_browser(offline=False) as context:
        yield context


@pytest.fixture
def open_page(browser):
    """Open a server's page at an address; it may load from there alone, and says nothing."""
    pages = []

    def open_at(server, address="#/"):
        page, said = browser.new_page(), []
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(server.address) else said.append(asked.url),
        )
        page.goto(server.address + address)
        page.wait_for_selector("html[data-ready=yes]")
        pages.append((page, said))
        return page

    yield open_at
    for page, said in pages:
        page.close()
        assert said == []


def counted(page, text):
    wait_until(page, f"document.getElementById('counted').textContent === {text!r}")


def test_the_page_reads_its_parts_from_the_server_to_the_last_letter(server, open_page):
    page = open_page(server)
    assert page.inner_text("#run-rows .group").startswith("in domain")
    assert page.locator(".verdicts li").count() == 2
    wait_until(page, "document.querySelectorAll('#overview .chart svg.marks').length >= 2")
    page.click("nav >> text=Problems")
    counted(page, f"{SETS['in_domain'] + 1} of 25 problems")
    page.select_option("#by-change", "lost")
    page.select_option("#by-run", "r2")
    counted(page, "1 of 25 problems")
    assert page.locator("#list .rows .id").all_text_contents() == [LOST]
    page.click("#filters button[type=reset]")
    page.fill("#by-q", '"above 7 of"')
    counted(page, "1 of 25 problems")
    page.click("#list .rows .row:first-child a")
    page.wait_for_selector("#problem .column")
    page = open_page(server, f"#/problem/in_domain/{quote(HOSTILE_ID, safe='')}")
    page.wait_for_selector("#problem .answer")
    assert page.evaluate("window.hit") is None
    column = "#problem .column.of-r0"
    assert HOSTILE[0] in "".join(page.locator(f"{column} pre").all_text_contents())
    page.click(f"{column} button:has-text('show all 1,000,000 characters')")
    longest = f"[...document.querySelectorAll('{column} pre')].map(e => e.textContent.length)"
    wait_until(page, f"Math.max(...{longest}) === 1000000")


def test_a_run_that_trains_shows_its_next_step_and_what_is_measured(tmp_path, open_page):
    run = training_run(tmp_path / "run")
    with serving([run]) as server:
        page = open_page(server, "#/training")
        steps = "document.querySelectorAll('#training .chart svg .mark-symbol path').length"
        wait_until(page, f"{steps} > 0")
        before = page.evaluate(steps)
        with (run / "metrics.jsonl").open("a") as file:
            file.write(line(4))
        wait_until(page, f"{steps} > {before}")
        before = page.locator("#training figure").count()
        rows = [progress(step, i) for step in (0, 2) for i in range(4)]
        table = pa.Table.from_pylist(rows, schema=PROGRESS)
        write_progress_file(run / "progress.parquet", table, digest="made")
        measured = line(2, **{"eval/dev/mean": 0.5})
        (run / "metrics.jsonl").write_text(line(1) + measured + line(3) + line(4))
        wait_until(page, f"document.querySelectorAll('#training figure').length > {before}")
        page.close()  # before the server, which it would miss


def test_an_evaluation_that_comes_later_is_offered_and_shown(tmp_path, open_page):
    made = make_runs(tmp_path / "made", sets={"dev": 4})
    run = training_run(tmp_path / "run")
    with serving([run]) as server:
        page = open_page(server)
        assert page.locator("nav >> text=Problems").count() == 0
        for name in ("samples.parquet", "evaluation.json"):
            (made / "grpo" / name).rename(run / name)
        wait_until(page, "!document.getElementById('fresh').hidden")
        page.click("#fresh")
        page.click("nav >> text=Problems")
        wait_until(page, "document.getElementById('counted')?.textContent === '4 of 4 problems'")
        page.close()


def training_run(run):
    run.mkdir(parents=True)
    save_recipe(recipe(run.parent, "run", "grpo", ("dev",), 0), run / "recipe.toml")
    (run / "metrics.jsonl").write_text("".join(line(step) for step in range(1, 4)))
    return run


def line(step, **more):
    row = {"step": step, "reward": step / 10, "entropy": 1 / step, "seconds": 1.0, **more}
    return json.dumps(row) + "\n"


def progress(step, place):
    row = dict.fromkeys(PROGRESS.names)
    known = {"step": step, "set": "dev", "problem_id": f"p{place}", "samples": 8, "correct": place}
    return {**row, **known, "reward": place / 8, "cut_off": 0, "styles": []}
