"""Writers of rows: a function, a server, or a model of ours, by name."""

import os
from pathlib import Path

from dph.corpus.synth.generators import Generator, OwnFunction, Server
from dph.errors import SettingsError


def open_generator(
    *,
    function: str = "",
    model: str = "",
    server: str = "",
    key_env: str = "",
    max_tokens: int = 2048,
    temperature: float = 1.0,
) -> Generator:
    """The generator that is named; a model of ours is loaded.

    Args:
        function: ``module:function``; the others do not count.
        model: a directory or a name, on the Hub or on the server.
        server: the address of a server that speaks OpenAI's protocol.
        key_env: the environment variable that holds its key.
        max_tokens: of an answer.
        temperature: of sampling.

    Raises:
        SettingsError: the function, the server's address or its key is none.
        ModelError: the model cannot be had.
    """
    if function:
        return OwnFunction(function)
    if not server:
        return _own_model(model, max_tokens, temperature)
    if key_env and key_env not in os.environ:
        raise SettingsError(f"set {key_env} to the server's key")
    key = os.environ[key_env] if key_env else ""
    return Server(server, model, max_tokens=max_tokens, temperature=temperature, key=key)


def _own_model(name: str, max_tokens: int, temperature: float) -> Generator:
    # Loads torch: only where a model of ours writes.
    from dph.model.fingerprint import directory_fingerprint  # noqa: PLC0415
    from dph.model.hub import is_on_hub  # noqa: PLC0415
    from dph.model.loading import load_model, load_tokenizer  # noqa: PLC0415
    from dph.model.prompts import encode_prompt, stop_token_ids  # noqa: PLC0415
    from dph.model.sampler import SamplingParameters, TorchSampler  # noqa: PLC0415
    from dph.model.sampler.writer import ModelWriter  # noqa: PLC0415
    from dph.recipe.tables import ModelSettings  # noqa: PLC0415

    directory = Path(name)
    if is_on_hub(ModelSettings(path=name)):
        from dph.model.hub_cache import model_snapshot  # noqa: PLC0415

        directory = model_snapshot(name, None, fetch=True)
    tokenizer, model = load_tokenizer(directory), load_model(directory)
    return ModelWriter(
        TorchSampler(model, tokenizer),
        lambda prompt: encode_prompt(tokenizer, prompt, chat=tokenizer.chat_template is not None),
        SamplingParameters(
            max_tokens=max_tokens,
            temperature=temperature,
            stop_token_ids=stop_token_ids(tokenizer, model),
        ),
        {"model": directory_fingerprint(directory)},
    )
