"""Rows of data sets: those that datasets saved, and those of a Hub on loopback."""

import json
import os
import subprocess
import sys

import datasets
import pytest

from dph.errors import SettingsError
from dph_corpus.ingest.hub_rows import HubRows
from dph_corpus.ingest.run import ingest
from dph_corpus.ingest.sources import plan
from dph_corpus.shards import open_corpus
from dph_corpus.tables import read_table
from hub_server import Hub

ROWS = [{"text": f"x = {n}\n", "path": f"{n}.py", "stars": n} for n in range(70)]
ROWS[3]["text"] = None


def texts(corpus):
    return {document.id: document.text for document in corpus.documents()}


EXPECTED = {f"code/{n}.py": f"x = {n}\n" for n in range(70) if n != 3}


def test_a_directory_that_datasets_saved_is_read_as_rows(tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "code", num_shards=3)
    made = ingest(plan([str(tmp_path / "code")]), tmp_path / "out")
    assert texts(made) == EXPECTED
    assert {document.stars for document in made.documents()} == set(range(70)) - {3}
    (skipped,) = read_table(tmp_path / "out" / "skipped.parquet")
    assert (skipped["reason"], skipped["path"]) == ("no_text", "row 4")


def test_a_file_of_arrow_that_is_cut_off_says_so(tmp_path):
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "code")
    (file,) = (tmp_path / "code").glob("*.arrow")
    file.write_bytes(file.read_bytes()[:300])
    ingest(plan([str(file)]), tmp_path / "out")
    (skipped,) = read_table(tmp_path / "out" / "skipped.parquet")
    assert skipped["reason"] == "file_damaged"


def test_a_name_says_revision_configuration_and_split():
    name = "hf://datasets/org/name@refs%2Fpr%2F1?config=python&split=test"
    assert HubRows.of(name) == HubRows("org", "name", "refs/pr/1", "python", "test")
    assert HubRows.of("hf:/datasets/org/name") == HubRows("org", "name")
    pinned = HubRows.of(name).at("0" * 40)
    assert HubRows.of(pinned) == HubRows("org", "name", "0" * 40, "python", "test")


@pytest.mark.parametrize(
    "name",
    [
        "hf://org/name",
        "hf://datasets/name",
        "hf://datasets/org/name?splits=test",
        "hf://datasets/org/name?split=train[:10]",
        "hf://datasets/org/name?split=a&split=b",
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(SettingsError, match="rows on the Hub must be named hf://datasets/"):
        plan([name])


_OWN = {"HF_HUB_DISABLE_XET": "1", "USE_TORCH": "0"}
"""Nothing but HTTP, and no import of torch in each process."""


def around():
    """The environment without what tests of engines tell the Hub's library for a whole session."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HF_")} | _OWN


def dph(words, home, **environment):
    """The command in a process of its own: huggingface_hub reads its environment once."""
    own = {"HF_HOME": str(home), **environment}
    return subprocess.run(
        [sys.executable, "-m", "dph_corpus", *words, "--workers", "1"],
        env=around() | own,
        capture_output=True,
        text=True,
        check=False,
    )


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.slow
def test_rows_of_the_hub_are_streamed_at_a_commit_and_read_from_the_cache_without_it(tmp_path):
    hub = Hub()
    files = {"train-0.jsonl": lines(ROWS[:40]), "train-1.jsonl": lines(ROWS[40:])}
    commit = hub.push("org/code", files, kind="datasets")
    name, home, online = "hf://datasets/org/code", tmp_path / "home", {"HF_ENDPOINT": hub.url}
    done = dph(["ingest", name, "--out", str(tmp_path / "streamed")], home, **online)
    assert done.returncode == 0, done.stderr
    streamed = open_corpus(tmp_path / "streamed")
    assert texts(streamed) == EXPECTED
    sources = streamed.manifest.history[0]["sources"]
    assert {source["version"] for source in sources} == {f"{commit}  train"}
    assert len(sources) == 2
    # Nothing was downloaded as a whole.
    assert not list(home.rglob("*.arrow"))

    fill = "import datasets; datasets.load_dataset('org/code', split='train')"
    own = {"HF_HOME": str(home), **online}
    subprocess.run([sys.executable, "-c", fill], env=around() | own, check=True)
    hub.close()
    words = ["filter", "--input", name, "--out", str(tmp_path / "filtered")]
    done = dph(words, home, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert open_corpus(tmp_path / "filtered" / ".input").manifest.documents == len(EXPECTED)

    done = dph(["ingest", f"{name}2", "--out", str(tmp_path / "none")], home, HF_HUB_OFFLINE="1")
    assert done.returncode == 2
    assert "hf://datasets/org/code2@main?split=train: Couldn't reach" in done.stderr
    assert not (tmp_path / "none").exists()
