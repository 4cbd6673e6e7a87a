"""Two processes train together (gloo); each leaves what it saw and the gradient it took."""

import json
import sys
from functools import partial
from pathlib import Path

import torch

from dph.engines.trl import shared
from dph.model.forward.logprobs import completion_scores
from engines.trl.by_hand import record
from engines.trl.small import RECOMPUTE, make_config, make_trainer


def main():
    directory, accumulation = Path(sys.argv[1]), int(sys.argv[2])
    changes = json.loads(sys.argv[3]) if sys.argv[3:] else {}
    sharing = changes.pop("shared_prompts", False)
    if sharing:  # rows of this small world run packed too
        shared.completion_scores = partial(completion_scores, sharing="always")
    args = make_config(
        directory,
        per_device_train_batch_size=8 // accumulation,
        gradient_accumulation_steps=accumulation,
        ddp_backend="gloo",
        **{RECOMPUTE: accumulation > 1},  # TRL's default, and the other
        **changes,
    )
    trainer = make_trainer(args, shared_prompts=sharing)
    steps = [vars(step) for step in record(trainer)]
    torch.save(steps, directory / f"rank{trainer.accelerator.process_index}.pt")


if __name__ == "__main__":
    main()
