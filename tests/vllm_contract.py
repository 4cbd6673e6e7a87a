"""What the vLLM sampler relies on in vLLM, and a look at a source tree for what has moved."""

import ast
from pathlib import Path

LLM_PARAMETERS = (
    *("model", "skip_tokenizer_init", "dtype", "tensor_parallel_size"),
    *("gpu_memory_utilization", "enforce_eager"),
)
ENGINE_ARGS = (
    *("max_model_len", "max_num_seqs", "enable_prefix_caching", "enable_chunked_prefill"),
    *("logprobs_mode", "generation_config", "use_tqdm_on_load"),
)
"""What LLM hands on to EngineArgs."""

SAMPLING_PARAMS = {
    "temperature": 1.0,
    "top_p": 1.0,
    "seed": None,
    "max_tokens": 16,
    "stop_token_ids": None,
    "ignore_eos": False,
    "logprobs": None,
    "detokenize": True,
    "output_kind": None,
}
"""The fields, and the defaults of those of the fake."""

CALLABLES = {
    "entrypoints/llm.py": {"LLM.__init__": LLM_PARAMETERS},
    "engine/arg_utils.py": {"EngineArgs": ENGINE_ARGS},
    "sampling_params.py": {
        "SamplingParams": tuple(SAMPLING_PARAMS),
        "RequestOutputKind": ("FINAL_ONLY",),
    },
    "outputs.py": {
        "CompletionOutput": ("token_ids", "logprobs", "finish_reason"),
        "RequestOutput.__init__": ("request_id", "outputs", "finished"),
    },
    "logprobs.py": {"Logprob": ("logprob",)},
    "v1/engine/llm_engine.py": {
        "LLMEngine.add_request": ("request_id", "prompt", "params"),
        "LLMEngine.step": (),
        "LLMEngine.abort_request": ("request_ids",),
    },
    "v1/engine/core_client.py": {"EngineCoreClient.shutdown": ("timeout",)},
    "inputs/engine.py": {"tokens_input": ("prompt_token_ids",)},
}
"""By file: parameters of functions, fields of classes. A function may not require any other."""

WORDS = {
    "__init__.py": ('"LLM"', '"SamplingParams"'),
    "inputs/__init__.py": ('"tokens_input"',),
    "entrypoints/llm.py": ("self.llm_engine =",),
    "v1/engine/llm_engine.py": ("self.model_config =", "self.engine_core ="),
    "config/model.py": ('"raw_logprobs"', '"processed_logprobs"', "max_model_len: int"),
    "envs.py": ('"VLLM_LOGGING_STREAM"', '"VLLM_LOGGING_LEVEL"', '"VLLM_NO_USAGE_STATS"'),
}
"""By file: what has to be in its text."""


def moved(root: Path) -> list[str]:
    """What of the above is not where it was in the package directory ``root``."""
    found = [
        f"{file}: {problem}"
        for file, wanted in CALLABLES.items()
        for name, parameters in wanted.items()
        for problem in _problems(_tree(root / file), name, parameters)
    ]
    return found + [
        f"{file}: {word} is gone"
        for file, words in WORDS.items()
        for word in words
        if word not in _text(root / file)
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def _problems(tree: ast.Module, name: str, wanted: tuple[str, ...]) -> list[str]:
    node: ast.AST | None = tree
    for part in name.split("."):
        body = getattr(node, "body", [])
        node = next((each for each in body if getattr(each, "name", None) == part), None)
    if node is None:
        return [f"{name} is gone"]
    if isinstance(node, ast.ClassDef):
        fields, required = _fields(node), set()
    else:
        fields, required = _parameters(node)
    if name == "RequestOutput.__init__":  # which vLLM itself calls
        required = set()
    gone = [f"{name} has no {each} any more" for each in wanted if each not in fields]
    return gone + [f"{name} requires {each} now" for each in sorted(required - {*wanted, "self"})]


def _fields(node: ast.ClassDef) -> set[str]:
    targets = [
        target
        for each in node.body
        if isinstance(each, ast.Assign | ast.AnnAssign)
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
    ]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _parameters(node: ast.AST) -> tuple[set[str], set[str]]:
    """All parameters of a function, and those without a default."""
    assert isinstance(node, ast.FunctionDef)
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    required = {each.arg for each in plain[: len(plain) - len(arguments.defaults)]}
    required |= {
        each.arg
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    }
    return {each.arg for each in (*plain, *arguments.kwonlyargs)}, required
