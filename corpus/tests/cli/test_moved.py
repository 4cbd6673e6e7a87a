import sys

import dph_corpus.cli
from dph import __version__
from dph.cli import main


def test_the_verb_of_dph_says_its_new_name_and_runs(capsys):
    assert main(["corpus", "rules", "--preset", "sql"]) == 0
    assert "is `dph-corpus` of the package dph-corpus" in capsys.readouterr().err
    assert main(["corpus", "rules", "--preset", "none"]) == 2


def test_modules_of_the_former_name_are_the_modules_themselves():
    import dph.corpus.shards  # noqa: PLC0415
    from dph.corpus.transform.cleaning import clean  # noqa: PLC0415

    import dph_corpus.shards  # noqa: PLC0415
    from dph.corpus import open_corpus  # noqa: PLC0415

    assert dph.corpus.shards is dph_corpus.shards is sys.modules["dph.corpus.shards"]
    assert open_corpus is dph_corpus.shards.open_corpus
    assert clean.__module__ == "dph_corpus.transform.cleaning"
    assert dph_corpus.shards.__spec__.name == "dph_corpus.shards"


def test_its_version_is_that_of_the_package(capsys):
    assert dph_corpus.cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"dph-corpus {__version__}\n"
