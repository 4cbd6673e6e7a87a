"""Two processes train together (gloo); each leaves what it saw and the gradient it took."""

import json
import sys
from pathlib import Path

import torch

from engines.trl.by_hand import record
from engines.trl.small import RECOMPUTE, make_config, make_trainer


def main():
    directory, accumulation, changes = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    args = make_config(
        directory,
        per_device_train_batch_size=8 // accumulation,
        gradient_accumulation_steps=accumulation,
        ddp_backend="gloo",
        **{RECOMPUTE: accumulation > 1},  # TRL's default, and the other
        **(json.loads(changes[0]) if changes else {}),
    )
    trainer = make_trainer(args)
    steps = [vars(step) for step in record(trainer)]
    torch.save(steps, directory / f"rank{trainer.accelerator.process_index}.pt")


if __name__ == "__main__":
    main()
