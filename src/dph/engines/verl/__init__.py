"""DPH-RL on a cluster, in unmodified verl: two commands, and a pool that every node can read.

    python -m dph.engines.verl.presample <verl's overrides> dph.pool=pool ...
    python -m dph.engines.verl.train     <verl's overrides> dph.pool=pool dph.eta=0.01 ...

Needs the ``dph-rl[verl]`` extra, ideally in a separate environment (docs/guides/cluster.md).
verl's configuration, workers, agent loop and reward loop are unchanged. All additions use verl's
extension points: trainers (``register_trainer``), a loss (``set_loss_fn``), and an agent loop and
a reward manager (named in the configuration).
"""

from importlib.util import find_spec

for _name in ("verl", "transfer_queue"):
    if find_spec(_name) is None:
        raise ImportError(
            f"dph.engines.verl needs {_name}: install torch first, then "
            '"dph-rl[verl]" (verl>=0.9,<0.10)'
        )
