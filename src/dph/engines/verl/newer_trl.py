"""verl next to TRL 1.16 and later, without the critic that verl 0.9 patches in every TRL.

Workers import this before they build a model (``launch``). Rehearsal has no critic.
"""

from importlib import import_module

from verl.models.transformers import monkey_patch


def _has_critic(place: str) -> bool:
    try:
        return hasattr(import_module(place), "AutoModelForCausalLMWithValueHead")
    except ImportError:
        return False


if not (_has_critic("trl.experimental.ppo") or _has_critic("trl")):
    monkey_patch.is_trl_available = lambda: False
