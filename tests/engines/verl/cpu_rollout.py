"""A rollout for verl on a CPU: the package's own sampler behind verl's replica interface."""

import asyncio
import os

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from dph.model.loading import load_model, load_tokenizer
from dph.model.sampler.base import SampleRequest, SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler


def _name(rank):
    return f"dph_torch_{ray.get_runtime_context().get_job_id()}_{rank}"


class Server:
    """Answers requests in batches; an answer depends on its seed alone, not on the batch."""

    def __init__(self, path, response_length):
        torch.set_num_threads(1)
        self.model, self.tokenizer = load_model(path, device="cpu"), load_tokenizer(path)
        self.response_length, self.steps = response_length, 0
        self.queue, self.task = [], None

    async def generate(self, request_id, prompt_ids, sampling_params, **_):
        answer = asyncio.get_running_loop().create_future()
        name = str(sampling_params.get("seed", request_id))
        self.queue.append((name, tuple(prompt_ids), sampling_params, answer))
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._work())
        completion = await answer
        return TokenOutput(
            token_ids=list(completion.token_ids),
            log_probs=list(completion.logprobs),
            stop_reason="completed",
            extra_fields={"global_steps": self.steps},
        )

    async def _work(self):
        while self.queue:
            await asyncio.sleep(0.02)  # let more of a step's requests arrive
            batch, self.queue = self.queue, []
            done = await asyncio.to_thread(self._sample, batch)
            for (*_, answer), completion in zip(batch, done, strict=True):
                answer.set_result(completion)

    def _sample(self, batch):
        params = batch[0][2]
        parameters = SamplingParameters(
            max_tokens=params.get("max_tokens", self.response_length),
            stop_token_ids=(self.tokenizer.eos_token_id,),
            temperature=params["temperature"] or 1.0,
            top_p=params["top_p"],
            greedy=params["temperature"] == 0,
        )
        requests = [
            SampleRequest(problem_id=name, prompt_ids=prompt, samples=1)
            for name, prompt, *_ in batch
        ]
        drawn = TorchSampler(self.model, self.tokenizer).sample(requests, parameters, seed=0)
        return [completion for (completion,) in drawn]

    async def load_weights(self, state, steps):
        self.model.load_state_dict(state, strict=not self.model.config.tie_word_embeddings)
        self.steps = self.steps if steps is None else steps

    async def nothing(self, *_, **__):
        return None

    wake_up = sleep = abort_all_requests = resume_generation = nothing
    clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class TorchReplica(RolloutReplica):
    """One server a rank."""

    async def launch_servers(self):
        name = _name(self.replica_rank)
        actor = ray.remote(Server).options(name=name, num_cpus=0, max_concurrency=1000)
        server = actor.remote(self.model_config["path"], self.config.response_length)
        await server.nothing.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class Pushed(BaseRollout):
    """Lives in the training worker and pushes its weights to the server."""

    async def resume(self, tags):
        pass

    async def release(self):
        pass

    async def update_weights(self, weights, global_steps=None, **_):
        state = {n: v.detach().to("cpu", torch.float32).clone() for n, v in weights}
        server = ray.get_actor(_name(int(os.environ["RANK"])))
        await server.load_weights.remote(state, global_steps)
