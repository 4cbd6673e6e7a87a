"""A vLLM for tests: the part of its interface in ``vllm_contract``, on a model of transformers."""

import importlib.machinery
import os
import sys
import types
from dataclasses import make_dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from vllm_contract import ENGINE_ARGS, LLM_PARAMETERS, SAMPLING_PARAMS

SamplingParams = make_dataclass(
    "SamplingParams", [(name, object, default) for name, default in SAMPLING_PARAMS.items()]
)


class RequestOutputKind(Enum):
    CUMULATIVE = 0
    FINAL_ONLY = 2


class LLM:
    """Keeps what it was started with and what became of it, for tests to look at."""

    started = ()
    longest = None
    """What "the longest that fits" is; None: what the model allows."""

    def __init__(self, model, **options):
        unknown = options.keys() - {*LLM_PARAMETERS, *ENGINE_ARGS}
        if unknown:
            raise TypeError(f"LLM got unexpected keyword arguments {sorted(unknown)}")
        others = {path.name for path in Path(model).glob("*.safetensors")} - {"model.safetensors"}
        if others:  # all of them are weights to it, where no index says which
            raise ValueError(f"There is no module or parameter for {sorted(others)}")
        os.environ["LD_PRELOAD"] = "libgomp.so"  # as the real one does on CPUs
        self.options = options
        self.llm_engine = LLMEngine(model, options, self.longest)
        LLM.started = (*LLM.started, self)


class LLMEngine:
    def __init__(self, model, options, longest):
        self._model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        context = self._model.config.max_position_embeddings
        if options["max_model_len"] > context:
            raise ValueError(f"max_model_len is greater than the derived {context}")
        asked = options["max_model_len"] if options["max_model_len"] > 0 else longest
        self.model_config = types.SimpleNamespace(max_model_len=min(context, asked or context))
        self.engine_core = types.SimpleNamespace(
            shutdown=lambda timeout: self.aborted.append("shutdown")  # noqa: ARG005
        )
        self.mode = options["logprobs_mode"]
        self.requests, self.parameters, self.aborted = {}, [], []

    def add_request(self, request_id, prompt, params):
        assert prompt["type"] == "token"
        assert isinstance(prompt["prompt_token_ids"], list)
        assert request_id not in self.requests
        assert params.output_kind is RequestOutputKind.FINAL_ONLY
        assert params.ignore_eos
        assert params.logprobs == 0
        self.requests[request_id] = (prompt["prompt_token_ids"], params)
        self.parameters.append(params)
        return f"{request_id}-internal"

    def step(self):
        name = list(self.requests)[-1]
        prompt, params = self.requests.pop(name)
        ids, tables, reason = self._draw(prompt, params)
        completion = types.SimpleNamespace(token_ids=ids, logprobs=tables, finish_reason=reason)
        unfinished = types.SimpleNamespace(request_id="other", outputs=[], finished=False)
        done = types.SimpleNamespace(request_id=name, outputs=[completion], finished=True)
        return [unfinished, done]

    def abort_request(self, request_ids):
        self.aborted += request_ids
        for name in request_ids:
            self.requests.pop(name, None)

    @torch.no_grad()
    def _draw(self, prompt, params):
        numbers = torch.Generator().manual_seed(params.seed)
        ids, tables = [], []
        for _ in range(params.max_tokens):
            logits = self._model(torch.tensor([[*prompt, *ids]])).logits[0, -1].float()
            processed = processed_logits(logits, params)
            if params.temperature == 0:
                token = int(processed.argmax())
            else:
                token = int(torch.multinomial(processed.softmax(-1), 1, generator=numbers))
            table = (logits if self.mode == "raw_logprobs" else processed).log_softmax(-1)
            ids.append(token)
            tables.append({token: types.SimpleNamespace(logprob=float(table[token]))})
            if token in params.stop_token_ids:
                return ids, tables, "stop"
        return ids, tables, "length"


def processed_logits(logits, params):
    """After temperature and top-p; greedy is before the temperature, as in vLLM."""
    if params.temperature == 0:
        return logits
    logits = logits / params.temperature
    ordered, order = logits.softmax(-1).sort(descending=True)
    outside = order[ordered.cumsum(-1) - ordered >= params.top_p]
    return logits.index_fill(0, outside, float("-inf"))


def install(monkeypatch, *, cuda=True, versions=None):
    """Make ``import vllm`` find the fake, on a machine with a GPU as far as torch says.

    ``versions`` are those of its packages: the release for CUDA unless others are given.
    """
    versions = {"vllm": "0.32.0"} if versions is None else versions

    def version(package):
        if package not in versions:
            raise PackageNotFoundError(package)
        return versions[package]

    monkeypatch.setattr("dph.model.sampler.vllm.version", version)
    LLM.started = ()
    vllm = types.ModuleType("vllm")
    vllm.__spec__ = importlib.machinery.ModuleSpec("vllm", None)
    vllm.LLM, vllm.SamplingParams = LLM, SamplingParams
    inputs = types.ModuleType("vllm.inputs")
    inputs.tokens_input = lambda ids: {"type": "token", "prompt_token_ids": ids}
    parameters = types.ModuleType("vllm.sampling_params")
    parameters.RequestOutputKind = RequestOutputKind
    for module in (vllm, inputs, parameters):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    # A build for CUDA would ask the driver for its stream before each step of an optimizer.
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *_, **__: None)
    for name in ("STREAM", "LEVEL"):
        monkeypatch.delenv(f"VLLM_LOGGING_{name}", raising=False)
    monkeypatch.delenv("VLLM_NO_USAGE_STATS", raising=False)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    return LLM
