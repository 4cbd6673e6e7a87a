"""Environments: classes whose tools a policy calls in turns before it answers."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.tasks.environments.calls import FORMS, BadCall, ToolCall, read_turns, turns_text
    from dph.tasks.environments.environment import (
        Environment,
        EnvironmentVerifier,
        Episode,
        EpisodeLimits,
        ToolResult,
    )
    from dph.tasks.environments.schema import fault_of, tool_schema

__all__ = [
    "FORMS",
    "BadCall",
    "Environment",
    "EnvironmentVerifier",
    "Episode",
    "EpisodeLimits",
    "ToolCall",
    "ToolResult",
    "fault_of",
    "read_turns",
    "tool_schema",
    "turns_text",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BadCall": "dph.tasks.environments.calls",
        "Environment": "dph.tasks.environments.environment",
        "EnvironmentVerifier": "dph.tasks.environments.environment",
        "Episode": "dph.tasks.environments.environment",
        "EpisodeLimits": "dph.tasks.environments.environment",
        "FORMS": "dph.tasks.environments.calls",
        "ToolCall": "dph.tasks.environments.calls",
        "ToolResult": "dph.tasks.environments.environment",
        "fault_of": "dph.tasks.environments.schema",
        "read_turns": "dph.tasks.environments.calls",
        "turns_text": "dph.tasks.environments.calls",
        "tool_schema": "dph.tasks.environments.schema",
    },
)
