"""A child of a study that scores by arithmetic: instant, and always the same."""

import hashlib
import os
import random
import time
from pathlib import Path

from dph._base.files import make_directory, write_json
from dph.errors import StageError
from lab.study.rows import RunRow, Score, note_prepared, write_row_file


def score_of(run, name, metric):
    """Between 0 and 1, by a hash."""
    digest = hashlib.sha256(f"scored {run} {name} {metric}".encode()).digest()
    return round(digest[0] / 255, 3)


def row_of(payload):
    asked = payload.get("asked") or {}
    run = payload["run"]
    scores = [
        Score(set=name, metric=metric, k=k, value=score_of(run, name, (metric, k)), problems=10)
        for name in ("in_domain", "cross_domain")
        for metric, k in (("greedy", None), ("mean", None), ("pass_at_k", 1), ("pass_at_k", 16))
    ]
    scores += [
        Score(set=name, metric="styles", k=None, value=None, problems=10)
        for name in ("in_domain", "cross_domain")
    ]
    return RunRow(
        run=run,
        world=payload["site"]["name"],
        seed=payload["seed"],
        method=asked.get("method", "base"),
        strength=asked.get("strength"),
        learning_rate=asked.get("learning_rate"),
        interpolate=payload.get("interpolate"),
        steps=asked.get("steps") or 0,
        rule_sha256=payload.get("rule"),
        samples=16,
        rollouts=64 if asked else 0,
        stored=0,
        base_sha256=hashlib.sha256(
            f"{payload['site']['name']} {payload['seed']}".encode()
        ).hexdigest(),
        commit="0" * 40,
        versions="python 3.11.7, torch 2.13.0",
        scores=tuple(scores),
    )


def execute(payload):
    """What ``lab.study.execute`` does, without a model: costs, then the row, then the note."""
    costs = make_directory(Path(payload["costs"]))
    write_json(costs / f"{payload['run']}.json", {"train": 1.5})
    if payload["kind"] == "run":
        make_directory(Path(payload["work"]) / payload["training"] / "checkpoints")
    write_row_file(Path(payload["rows"]), row_of(payload))
    if payload["kind"] == "prepare":
        note_prepared(Path(payload["work"]), payload["run"], list(payload["pools"]))


def work(payload):
    """The entry of a child: slow enough to be killed, and it fails where it is told to."""
    time.sleep(random.random() * 0.05)
    if os.environ.get("STUDY_STUB_FAILS", "nothing") in payload["run"]:
        raise StageError("the stub was told to fail")
    execute(payload)
