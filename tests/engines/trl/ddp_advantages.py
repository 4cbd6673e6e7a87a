"""Two processes share one group of sixteen; each leaves the rewards and advantages that it saw."""

import sys
from pathlib import Path

import torch

from dph.engines.trl import DPHTrainer
from engines.trl.small import make_trainer, plain


class Watched(DPHTrainer):
    """Keeps the advantages before TRL shuffles them."""

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        self.kept = {name: value.clone() for name, value in batch.items() if value.dim()}
        return batch


def main():
    directory = Path(sys.argv[1])
    args = plain(
        directory,
        objective={"advantage": {"kind": sys.argv[2]}},
        num_generations=16,
        per_device_train_batch_size=8,
        max_steps=1,
        ddp_backend="gloo",
    )
    trainer = make_trainer(args, trainer=Watched)
    trainer.train()
    seen = {"rewards": trainer._rewards, **trainer.kept}
    torch.save(seen, directory / f"rank{trainer.accelerator.process_index}.pt")


if __name__ == "__main__":
    main()
