import errno
import json
import sys

import pytest
from huggingface_hub import HfApi, constants
from huggingface_hub.utils import (
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)

from dph.errors import DataError, ModelError
from dph.model.hub import bars_for_people, dataset_file, model_snapshot, said_plainly
from dph.recipe.places import HubFile, hub_file

PLAIN = {"config.json": b"{}", "model.safetensors": b"weights", "tokenizer.json": b"{}"}


def of(path="train.jsonl", *, repo="org/data", revision=None):
    return HubFile(repo=repo, revision=revision, path=path)


def test_a_model_is_fetched_once_without_what_it_does_not_need_and_found_without_the_hub(hub):
    others = {"consolidated.safetensors": b"", "onnx/model.json": b"", "pytorch_model.bin": b""}
    commit = hub.push("org/tiny", {**PLAIN, **others})
    directory = model_snapshot("org/tiny", None, fetch=True)
    assert directory.name == commit
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == PLAIN
    asked = len(hub.requests)
    assert model_snapshot("org/tiny", commit, fetch=True) == directory
    assert model_snapshot("org/tiny", None, fetch=False) == directory
    assert len(hub.requests) == asked


def test_a_branch_and_a_commit_name_what_they_name(hub):
    first = hub.push("org/tiny", PLAIN)
    second = hub.push("org/tiny", {**PLAIN, "config.json": b'{"v": 2}'})
    other = hub.push("org/tiny", {**PLAIN, "config.json": b'{"v": 3}'}, branch="v3")
    named = [model_snapshot("org/tiny", name, fetch=True).name for name in (first, None, "v3")]
    assert named == [first, second, other]


def test_a_file_of_a_data_set_and_its_commit(hub):
    commit = hub.push("org/data", {"a/b/train.jsonl": b"{}\n"}, kind="datasets")
    file = of("a/b/train.jsonl")
    path = dataset_file(file, fetch=True)
    assert path.read_bytes() == b"{}\n"
    assert path.parts[-4:-3] == (commit,)
    asked = len(hub.requests)
    assert dataset_file(file.at(commit), fetch=True) == path
    assert len(hub.requests) == asked


@pytest.mark.parametrize("state", ["offline", "unreachable"])
def test_without_a_network_a_branch_is_what_it_was_last(request, hub, state):
    commit = hub.push("org/tiny", PLAIN)
    model_snapshot("org/tiny", "main", fetch=True)
    if state == "offline":  # a connection that is still open would be answered
        hub.push("org/tiny", {"config.json": b"new"})
    request.getfixturevalue(state)()
    assert model_snapshot("org/tiny", None, fetch=True).name == commit


MODELS = {
    "org/none": r"the model org/none: http://\S+ has no such repository",
    "org/tiny@v9": r"org/tiny at v9: the repository has no such revision",
    "org/private": r"org/private: .* or it is private: .* or log in",
    "org/gated": r"org/gated: access is gated: ask for it .* log in",
    "org/bare": r"org/bare: .* has no weights \(\*\.safetensors\)",
    "org/a--b": r"org/a--b: .*--",
}
FILES = {
    "org/none/train.jsonl": "no such repository",
    "org/data@v9/train.jsonl": "no such revision",
    "org/data/test.jsonl": "the repository has no such file",
    "org/gated/train.jsonl": "access is gated",
}


def test_what_cannot_be_fetched_is_told_in_a_line(hub):
    hub.push("org/tiny", PLAIN)
    hub.push("org/private", PLAIN, private=True)
    hub.push("org/gated", PLAIN, gated=True)
    hub.push("org/bare", {"config.json": b"{}", "pytorch_model.bin": b""})
    for gated in (False, True):
        name = "org/gated" if gated else "org/data"
        hub.push(name, {"train.jsonl": b"{}\n"}, kind="datasets", gated=gated)
    for named, message in MODELS.items():
        name, _, revision = named.partition("@")
        with pytest.raises(ModelError, match=message) as refusal:
            model_snapshot(name, revision or None, fetch=True)
        assert "\n" not in str(refusal.value)
    for name, message in FILES.items():
        with pytest.raises(DataError, match=f"hf://datasets/{name}: .*{message}"):
            dataset_file(hub_file(f"hf://datasets/{name}"), fetch=True)


@pytest.mark.parametrize(
    ("state", "reason"),
    [("offline", "HF_HUB_OFFLINE is set"), ("unreachable", r"http://\S+ cannot be reached")],
)
def test_what_is_not_in_the_cache_is_told_without_a_network(request, state, reason):
    request.getfixturevalue(state)()
    with pytest.raises(ModelError, match=rf"not in the cache .*, and {reason}"):
        model_snapshot("org/tiny", None, fetch=True)
    with pytest.raises(DataError, match=rf"not in the cache .*, and {reason}"):
        dataset_file(of(), fetch=True)


def test_a_part_of_a_model_is_not_taken_for_the_whole(hub):
    parts = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    index = json.dumps({"weight_map": parts}).encode()
    files = {"config.json": b"{}", "model.safetensors.index.json": index, parts["a"]: b"1"}
    hub.push("org/tiny", files)
    with pytest.raises(ModelError, match=r"1 weight files are missing .* model-2\.safetensors"):
        model_snapshot("org/tiny", None, fetch=True)


def test_a_full_disk_stays_what_it_is_and_a_server_in_trouble_is_told_with_its_answer(hub):
    with pytest.raises(OSError, match="full") as refusal, said_plainly("a model", ModelError):
        raise OSError(errno.ENOSPC, "full")
    assert refusal.value.errno == errno.ENOSPC
    hub.server.RequestHandlerClass.tell_about = lambda self, *_: self.refuse(418, "Teapot")
    with (
        pytest.raises(DataError, match=r"a thing: http://\S+ answered 418"),
        said_plainly("a thing", DataError),
    ):
        HfApi(endpoint=hub.url).repo_info("org/any")


@pytest.mark.parametrize(
    ("terminal", "off", "shown"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_bars_are_shown_on_a_terminal_alone_and_afterwards_as_before(
    monkeypatch, terminal, off, shown
):
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    before = are_progress_bars_disabled()
    try:
        (disable_progress_bars if off else enable_progress_bars)()
        with bars_for_people():
            assert are_progress_bars_disabled() is not shown
        assert are_progress_bars_disabled() is off
    finally:
        (disable_progress_bars if before else enable_progress_bars)()
