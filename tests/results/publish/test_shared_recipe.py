import tomllib

from dph.results.publish import read_finished_run, shared_recipe


def test_paths_lose_their_directories_and_names_on_the_hub_stay(finished):
    text = shared_recipe(read_finished_run(finished).recipe)
    table = tomllib.loads(text)
    assert table["data"]["train"] == "hf://datasets/org/words@v1/train.parquet"
    assert table["data"]["sets"]["dev"]["path"] == "dev.jsonl"
    assert table["data"]["modules"] == ["secret"]
    assert table["model"] == table["model"] | {"path": "org/base", "revision": "a" * 40}
    assert "/home/me" not in text
