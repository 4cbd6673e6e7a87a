"""Models and data by their names on the Hub: fetched once, pinned to a commit, found in the cache.

Files lie in huggingface_hub's own cache, and its settings hold (`HF_HOME`, `HF_ENDPOINT`,
`HF_TOKEN`, `HF_HUB_OFFLINE`). Only `resolve_names` may reach the network; huggingface_hub itself is
imported when a recipe names something on the Hub.
"""

from dph.model.hub.resolving import is_on_hub, model_directory, problems_file, uses_hub
from dph.model.hub.resolving import Resolved, resolve_names

__all__ = [
    "Resolved",
    "is_on_hub",
    "model_directory",
    "problems_file",
    "resolve_names",
    "uses_hub",
]
