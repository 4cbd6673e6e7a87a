"""A cookbook without models: its corpora from files to mixtures and rows, again after a kill."""

import shutil
from pathlib import Path

import pytest

from dph._base.files import read_json
from dph.errors import DataError
from dph.runs.progress import Silent
from dph_corpus.cookbook.run import run_cookbook
from dph_corpus.cookbook.settings import load_cookbook
from small_corpora import rows_file

TOML = Path(__file__).with_name("corpora.toml")
FUNCTION = TOML.with_name("area.txt").read_text()


def function(n):
    """A function whose words are its own, so that no two share ten in a row."""
    text = FUNCTION.format(n)
    for word in ("width", "height", "margin", "inner", "total", "step"):
        text = text.replace(word, f"{word}{n}")
    return text


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("cookbook")


@pytest.fixture(scope="module")
def cookbook(home):
    (home / "files").mkdir()
    rows = [{"path": f"{n}.py", "text": function(n)} for n in range(12)]
    rows += [{"path": "copy.py", "text": function(0)}, {"path": "tiny.py", "text": "x = 1\n"}]
    rows_file(home / "files" / "code.jsonl", rows)
    rows_file(home / "tests.jsonl", [{"prompt": function(7)}])
    rows_file(home / "rows.jsonl", [{"prompt": f"p{n}", "response": f"r{n}"} for n in range(9)])
    shutil.copy(TOML, home / "cookbook.toml")
    return load_cookbook(home / "cookbook.toml")


@pytest.fixture(scope="module")
def made(cookbook, home):
    """Digests of the stages, in ``home / "a"``."""
    return run(cookbook, home / "a")


def run(cookbook, directory):
    return run_cookbook(cookbook, directory, Silent(), workers=1)


def test_it_keeps_what_is_finished_and_makes_the_rest_as_before(cookbook, home, made, tmp_path):
    assert list(made) == [
        "ingest",
        "dedup",
        "transform",
        "filter",
        "decontaminate",
        "mix",
        "instruct",
    ]
    assert made == read_json(home / "a" / "digests.json")
    shards = sorted((home / "a").rglob("kept/*.parquet"))
    written = [shard.stat().st_mtime_ns for shard in shards]
    assert run(cookbook, home / "a") == made
    assert [shard.stat().st_mtime_ns for shard in shards] == written
    shutil.copytree(home / "a", tmp_path / "b")
    for directory in ("filter", "mixtures"):  # as a kill leaves it: no manifest yet
        for manifest in (tmp_path / "b").rglob(f"*{directory}*/**/manifest.json"):
            manifest.unlink()
    assert run(cookbook, tmp_path / "b") == made


@pytest.mark.usefixtures("made")
def test_the_report_tells_what_was_dropped_with_an_example(home):
    report = (home / "a" / "report.md").read_text()
    assert "| ingest | 14 |" in report
    assert "| dedup | 13 |" in report
    assert "| dedup | `exact` | 1 | 1 | `code/" in report
    assert "`words:secret`" in report
    assert "| only | own | 9 | 5 | 0 | quota 4 |" in report
    costs = read_json(home / "a" / "costs.json")
    assert all(cost["seconds"] >= 0 <= cost["cpu_seconds"] for cost in costs.values())
    assert costs["filter"]["cpu_seconds"] > 0, "processor time of children counts"


def test_another_setting_does_again_what_depends_on_it_and_no_more(cookbook, home, made, tmp_path):
    shutil.copytree(home / "a", tmp_path / "a")
    filtered = next((tmp_path / "a").rglob("filter/kept/*.parquet"))
    written = filtered.stat().st_mtime_ns
    other = cookbook.model_copy(
        update={
            "mixtures": {
                "pretraining": cookbook.mixtures["pretraining"].model_copy(update={"budget": 900})
            }
        }
    )
    again = run(other, tmp_path / "a")
    assert {name for name in made if made[name] != again[name]} == {"mix"}
    assert filtered.stat().st_mtime_ns == written


@pytest.mark.usefixtures("cookbook")
def test_a_pattern_without_a_file_is_told(home, tmp_path):
    shutil.copytree(home, tmp_path / "none", ignore=shutil.ignore_patterns("a"))
    (tmp_path / "none" / "files" / "code.jsonl").unlink()
    cookbook = load_cookbook(tmp_path / "none" / "cookbook.toml")
    with pytest.raises(DataError, match=r"no file matches .*files/\*\.jsonl"):
        run(cookbook, tmp_path / "a")
