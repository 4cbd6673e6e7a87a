"""Pools of the arms: whole repositories without copies, and the order of steps."""

import json

import pytest

from corpus.tests.cookbook.test_run import function
from dph.runs.progress import Silent
from dph_corpus.ablation.arms import FAMILIES, make_pools, unique_repositories
from dph_corpus.ablation.settings import AblationSettings
from dph_corpus.ingest.run import open_input
from dph_corpus.settings import preset


def files(repo, numbers, **more):
    return [
        {"id": f"{repo}/{n}.py", "repo": repo, "path": f"{n}.py", "text": function(n)} | more
        for n in numbers
    ]


@pytest.fixture
def corpus(tmp_path):
    """Two equal repositories, and one that shares half of its files with them."""
    rows = files("a", range(8)) + files("b", range(8), stars=5) + files("c", range(4, 12))
    path = tmp_path / "files.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_input(path, tmp_path / "opened")


def test_a_repository_goes_as_a_whole_and_shares_files_with_others_that_stay(corpus, tmp_path):
    found = unique_repositories(corpus, tmp_path / "out", nearness=preset("opencoder"))
    assert sorted({document.repo for document in found.documents()}) == ["a", "c"]
    assert found.manifest.documents == 16
    again = unique_repositories(corpus, tmp_path / "out", nearness=preset("opencoder"))
    assert again.manifest == found.manifest


def test_arms_of_deduplication_keep_what_their_steps_say(corpus, tmp_path):
    settings = AblationSettings(arms="deduplication", filter="fixed")
    pools = make_pools(corpus, tmp_path, settings, Silent(), workers=1)
    kept = {arm: pool.manifest.documents for arm, pool in pools.items()}
    assert kept == {
        "none": 24,
        "exact": 12,
        "file": 12,
        "repository": 16,
        "repository, file": 12,
        "file, repository": 12,
    }


@pytest.mark.parametrize(
    ("rules", "of_a_language"),
    [
        ("opencoder", {"qsc_codepython_cate_ast", "qsc_codego_cate_testfile"}),
        ("fixed", {"python_parses", "go_test_file"}),
        ("sql", {"python_parses", "sql_parsed_share"}),
    ],
)
def test_general_rules_are_those_that_read_no_single_language(
    corpus, tmp_path, rules, of_a_language
):
    settings = AblationSettings(arms="filtering", filter=rules)
    pools = make_pools(corpus, tmp_path, settings, Silent(), workers=1)
    general, code = (pools[arm].manifest.history[-1] for arm in ("general", "code"))
    left_out = general["settings"]["thresholds"]
    assert of_a_language <= set(left_out)
    assert not {"qsc_code_num_words", "qsc_code_frac_words_unique"} & set(left_out)
    assert set(left_out.values()) == {""}
    assert "thresholds" not in code["settings"]


def test_rules_of_a_file_are_an_arm_as_those_of_a_preset_are(corpus, tmp_path):
    (tmp_path / "mine.toml").write_text('base = "fixed"\n')
    dropped = []
    for number, rules in enumerate(("fixed", str(tmp_path / "mine.toml"))):
        settings = AblationSettings(arms="filtering", filter=rules)
        pools = make_pools(corpus, tmp_path / str(number), settings, Silent(), workers=1)
        dropped.append({arm: pool.manifest.content for arm, pool in pools.items()})
    assert dropped[0] == dropped[1]


def test_every_comparison_names_arms_of_its_family():
    for family in FAMILIES.values():
        for each in family.comparisons:
            assert {each.arm, each.against} <= set(family.arms)
