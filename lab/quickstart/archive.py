"""The archive that ``dph quickstart`` unpacks: worlds, base models, recipes, as one file.

    python -m lab.quickstart.archive train --work WORK     # base models, minutes
    python -m lab.quickstart.archive write --work WORK     # the archive and its digest

Training rounds differently on another kind of processor, so the weights are an input: the archive
that is there already has them, and ``write`` without WORK takes them from it.
"""

import argparse
import io
import tarfile
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save

from dph.quickstart.archive import ARCHIVE, TASKS, task_files
from lab.worlds import countdown, world_kind
from lab.worlds.countdown.kind import MAX_TOKENS as PUZZLE_TOKENS
from lab.worlds.countdown.kind import CountdownSizes
from lab.worlds.sql.kind import MAX_TOKENS as SQL_TOKENS
from lab.worlds.sql.kind import SQLWorldSizes

SEED = 0
"""Seed of worlds and base models."""
SIZES: Mapping[str, Any] = {
    "countdown": CountdownSizes(train=600, in_domain=500, cross_domain=500, unlabelled=1),
    "sql": SQLWorldSizes(),
}
PROBLEMS = ("train", "in_domain", "cross_domain")
WEIGHTS = "model/model.safetensors"
SQLITE = "3.40.1"
"""Release of SQLite that wrote the databases: another writes other bytes."""
MODEL_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
LICENCE = "Written by dph-rl from random numbers; Apache-2.0, as the package.\n"
NOTES: Mapping[str, str] = {
    "grpo": "GRPO, the baseline: reward alone.",
    "dph_f": "DPH-F: GRPO, and the forward KL divergence on stored answers.",
    "dph_js": "DPH-JS: GRPO, and the Jensen-Shannon divergence on stored answers.",
    "rkl": "GRPO with the usual penalty, the reverse KL divergence on new answers.",
}
STRENGTHS: Mapping[str, Mapping[str, str]] = {
    "countdown": {"dph_f": "eta = 3.0", "dph_js": "eta = 3.0", "rkl": "kl_coefficient = 0.1"},
    "sql": {"dph_f": "eta = 3.0", "dph_js": "eta = 3.0", "rkl": "kl_coefficient = 0.3"},
}
"""Chosen on development seeds (lab/studies/quickstart/README.md, docs/results.md)."""
DATA: Mapping[str, str] = {
    "countdown": """verifier = "verifier:grade"         # function of verifier.py
styles = "verifier:operator_order"  # ways of answering, for measurements only
modules = [".."]""",
    "sql": '''verifier = "sql"                    # execution match
styles = "sql"                      # ways of answering, for measurements only
databases = "../databases"''',
}
NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "countdown": {
        "tokens": PUZZLE_TOKENS,
        "presample": '''threshold = 2                       # a search is seldom right 7 times of 8
keep = 2
wrong_final = "explore"''',
        "rate": "2e-4",
    },
    "sql": {"tokens": SQL_TOKENS, "presample": "threshold = 7", "rate": "2e-4"},
}
RECIPE = """# {note}
#
#   dph run {name}.toml --out RUN
name = "{name}"
method = "{name}"

[model]
path = "../model"
device = "cpu"
threads = 1                         # weights depend on the number of threads
attention = "eager"

[data]
train = "../problems/train.jsonl"
{data}
[data.sets]
in_domain = "../problems/in_domain.jsonl"
cross_domain = "../problems/cross_domain.jsonl"
{objective}
[sampling]
max_tokens = {tokens}
max_rows = 1024
cache_tokens = 1048576

[presample]
pool = "../pool"                    # one pool for all recipes
seed = 0
samples = 8
{presample}

[train]
steps = 40
problems_per_step = 32
samples_per_problem = 8
rehearsal_per_step = 32
learning_rate = {rate}
eps = 1e-5
microbatch_tokens = 2048
checkpoint_every = 10

[evaluate]
seed = 0
samples = 16
k = [1, 2, 4, 8, 16]
"""


def recipe_text(task: str, method: str) -> str:
    """A shipped recipe."""
    strength = STRENGTHS[task].get(method)
    return RECIPE.format(
        note=NOTES[method],
        name=method,
        data=DATA[task],
        objective=f"\n[objective]\n{strength}\n" if strength else "",
        **NUMBERS[task],
    )


def train_base_models(work: Path) -> None:
    """Build each world and train its base model below ``work``; what is there is kept."""
    torch.set_num_threads(1)
    for task in TASKS:
        kind = world_kind(task)
        world = kind.build(work / task / "world", seed=SEED, sizes=SIZES[task])
        kind.train_base_model(world, work / task / "model", seed=SEED, steps=kind.base_steps)


def model_files(directory: Path) -> dict[str, bytes]:
    """A model's files with its weights in bfloat16, which is what the quickstart begins with."""
    weights = load_file(directory / "model.safetensors")
    narrow = {name: weights[name].to(torch.bfloat16) for name in sorted(weights)}
    files = {f"model/{name}": (directory / name).read_bytes() for name in MODEL_FILES}
    return {WEIGHTS: save(narrow, metadata={"format": "pt"}), **files}


def shipped_model(task: str) -> dict[str, bytes]:
    """The files of the model that the archive has already."""
    return {name: data for name, data in task_files(task).items() if name.startswith("model/")}


def world_files(task: str) -> dict[str, bytes]:
    """Problems, and what grades them."""
    files: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        world_kind(task).build(place, seed=SEED, sizes=SIZES[task])
        for name in PROBLEMS:
            files[f"problems/{name}.jsonl"] = (place / f"{name}.jsonl").read_bytes()
        for path in place.glob("databases/*/*.sqlite"):
            files[path.relative_to(place).as_posix()] = path.read_bytes()
    if task == "countdown":
        files["verifier.py"] = Path(countdown.__file__).with_name("verifier.py").read_bytes()
    return files


def archive_bytes(models: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """The archive with these files of models: a plain tar, in order, of no time and nobody."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for task in sorted(models):
            recipes = {f"recipes/{m}.toml": recipe_text(task, m).encode() for m in NOTES}
            files = {"LICENSE": LICENCE.encode(), **models[task], **world_files(task), **recipes}
            for name, content in sorted(files.items()):
                member = tarfile.TarInfo(f"{task}/{name}")
                member.size, member.mode = len(content), 0o644
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def main() -> None:
    """Train, or write the archive and print its size and digest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("train", "write"))
    parser.add_argument("--work", type=Path, help="directory of worlds and trained base models")
    asked = parser.parse_args()
    if asked.verb == "train":
        train_base_models(asked.work)
        return
    work: Path | None = asked.work
    models = {
        task: shipped_model(task) if work is None else model_files(work / task / "model")
        for task in TASKS
    }
    content = archive_bytes(models)
    ARCHIVE.write_bytes(content)
    print(f"{len(content)} bytes, sha256 {sha256(content).hexdigest()}")  # noqa: T201


if __name__ == "__main__":
    main()
