"""A policy that says what a script says, and a tokenizer of bytes with a chat template."""

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from dph.model.prompts import TurnEncoder
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.episodes import EpisodeSampler
from dph.records import Completion

START, END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(template=TEMPLATE):
    """A token a byte, and two special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token=END, additional_special_tokens=[START]
    )
    made.chat_template = template
    return made


def call(tool, **arguments):
    return f"<tool_call>{json.dumps({'name': tool, 'arguments': arguments})}</tool_call>"


def by_steps_of(size):
    """A policy that adds ``size`` times its number until it is told the target."""

    def script(prompt, index):
        target = prompt.split("Increment to ")[-1].split(".")[0]
        *_, last, _ = prompt.split(START)  # before the turn that begins
        told = "" if "Increment to" in last else "".join(filter(str.isdigit, last))
        done = told and int(told) >= int(target)
        return "Done." if done else call("increment", step=size * (index + 1))

    return script


def make_draw(tokenizer, environment, script, *, max_tokens=200, tokens=1000, **more):
    return EpisodeSampler(
        sampler=ScriptedSampler(tokenizer, script),
        environment=environment,
        encoder=TurnEncoder(tokenizer, environment.tools, chat=True),
        parameters=SamplingParameters(
            max_tokens=max_tokens, stop_token_ids=(tokenizer.eos_token_id,)
        ),
        tokens=tokens,
        **more,
    )


class ScriptedSampler:
    """``script(prompt text, sample index)`` is each turn's text; log-probs tell turns apart."""

    def __init__(self, tokenizer, script):
        self.tokenizer, self.script = tokenizer, script
        self.calls = []

    def sample(self, requests, parameters, *, seed, on_progress=None, on_completion=None):
        self.calls.append((seed, [request.first_index for request in requests]))
        drawn = []
        for position, request in enumerate(requests):
            text = self.script(self.tokenizer.decode(request.prompt_ids), request.first_index)
            ids = self.tokenizer.encode(text, add_special_tokens=False)
            ids = (*ids, self.tokenizer.eos_token_id)
            finished = len(ids) <= parameters.max_tokens
            ids = ids[: parameters.max_tokens]
            completion = Completion(
                problem_id=request.problem_id,
                sample_index=request.first_index,
                token_ids=ids,
                logprobs=(-float(len(self.calls)),) * len(ids),
                finished=finished,
                text=text,
            )
            drawn.append([completion])
            if on_completion:
                on_completion(position, completion)
        if on_progress:
            on_progress(len(drawn))
        return drawn
