"""Environments: classes whose tools a policy calls in turns before it answers."""

from dph.tasks.environments.calls import (
    FORMS,
    BadCall,
    ToolCall,
    fault_of,
    read_turns,
    tool_schema,
    turns_text,
)
from dph.tasks.environments.environment import (
    Environment,
    EnvironmentVerifier,
    Episode,
    EpisodeLimits,
    ToolResult,
)

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
