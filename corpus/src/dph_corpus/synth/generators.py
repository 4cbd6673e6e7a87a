"""Generators of text: a user-defined function, or a server that speaks OpenAI's protocol.

A model of ours, sampled here, is ``dph_corpus.cookbook.writers``; this package loads no torch.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from dph._base.import_path import load_callable
from dph.errors import SettingsError, StageError

_MOST_BYTES = 4_000_000
_TRIES, _PAUSE = 5, 2.0


class GeneratorError(StageError):
    """The generator could not be reached, or answered with something else than texts."""


class Generator(Protocol):
    """Writes an answer to each prompt, decided by its seed."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that its answers depend on but prompts and seeds, as JSON."""
        ...

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """The answers, in order."""
        ...


class OwnFunction:
    """``module:function`` in ``directories``: takes prompts and seeds, returns as many texts."""

    def __init__(self, path: str, directories: Sequence[Path] = ()) -> None:
        self.identity: Mapping[str, Any] = {"function": path}
        self._function: Callable[[Sequence[str], Sequence[int]], Sequence[str]]
        self._function = load_callable(path, directories)

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """As ``Generator``."""
        answers = list(self._function(prompts, seeds))
        if len(answers) != len(prompts) or not all(isinstance(each, str) for each in answers):
            raise GeneratorError(
                f"{self.identity['function']} must return {len(prompts)} texts, "
                f"got {len(answers)} values: {answers!r:.80}"
            )
        return answers


class Server:
    """A server with OpenAI's ``/v1/chat/completions``, such as vLLM's, llama.cpp's or Ollama's."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        max_tokens: int = 2048,
        temperature: float = 1.0,
        key: str = "",
        together: int = 16,
        timeout: float = 600.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise SettingsError(
                f"a server's address must begin with http:// or https://, got {url!r}"
            )
        self.identity: Mapping[str, Any] = {
            "server": model,
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        self._url = f"{url.rstrip('/').removesuffix('/v1')}/v1/chat/completions"
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._together, self._timeout = together, timeout

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """As ``Generator``."""
        with ThreadPoolExecutor(self._together) as threads:
            return list(threads.map(self._answer, prompts, seeds))

    def _answer(self, prompt: str, seed: int) -> str:
        body = {
            "model": self.identity["server"],
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self.identity["max_tokens"],
            "temperature": self.identity["temperature"],
            "seed": seed % 2**31,
        }
        data = self._post(json.dumps(body).encode())
        try:
            content = json.loads(data)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise GeneratorError(f"{self._url} answered {data[:200]!r}") from error
        return content if isinstance(content, str) else ""

    def _post(self, data: bytes) -> bytes:
        for left in reversed(range(_TRIES)):
            request = urllib.request.Request(self._url, data, self._headers)
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as reply:
                    found: bytes = reply.read(_MOST_BYTES)
                    return found
            except urllib.error.HTTPError as error:
                if error.code not in (429, 500, 502, 503, 504) or not left:
                    said = error.read(200).decode("utf-8", "replace")
                    raise GeneratorError(f"{self._url}: {error.code} {said}") from error
            except (OSError, http.client.HTTPException) as error:
                if not left:
                    raise GeneratorError(f"{self._url} cannot be reached: {error}") from error
            time.sleep(_PAUSE * (_TRIES - left) / _TRIES)
        raise AssertionError("the last try either returned or raised")
