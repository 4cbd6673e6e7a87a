"""Two processes measure held-out problems together (gloo), each a part of them."""

import sys
from pathlib import Path

from dph.engines.trl import PassAtKCallback
from engines.trl.small import make_trainer, plain, problems


def main():
    args = plain(Path(sys.argv[1]), per_device_train_batch_size=8, max_steps=1, ddp_backend="gloo")
    trainer = make_trainer(args)
    PassAtKCallback(problems(), "length_grader:grade", every=1, seed=3).attach(trainer)
    trainer.train()


if __name__ == "__main__":
    main()
