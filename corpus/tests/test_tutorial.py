"""The tutorial, word by word: its commands run, one after another."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import dph
from dph_corpus.cli import main

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"


def test_a_corpus_is_made_of_two_repositories(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_repositories(tmp_path)
    printed = []
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S):
        for line in block.splitlines():
            if not line.startswith("pip install"):
                assert main(words_of(line)) == 0, line
                printed.append(capsys.readouterr().out)
    *_, explained, _, mixed = printed
    assert explained.startswith("ingest (work/raw): kept (code, python")
    assert "mix: kept" in mixed


def words_of(line):
    """The words after the command, with patterns resolved."""
    command, *words = shlex.split(line, comments=True)
    assert command == "dph-corpus", line
    return [each for word in words for each in (sorted(map(str, Path().glob(word))) or [word])]


def write_repositories(place):
    """A git repository and a plain directory, and a test set."""
    source = Path(dph.__file__).parent
    app, tools = place / "repositories/app", place / "repositories/tools"
    (app / "app").mkdir(parents=True)
    tools.mkdir()
    shutil.copy(source / "records.py", app / "app/inventory.py")
    shutil.copy(source / "errors.py", tools / "errors.py")
    shutil.copy(source / "errors.py", tools / "copy.py")
    git = ["git", "-C", str(app), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    (place / "problems.jsonl").write_text('{"problem_id": "1", "prompt": "Add 1 and 2."}\n')
