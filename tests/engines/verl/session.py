"""Running the two commands as a user would, with what a machine without an accelerator needs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

from engines.verl.small_world import MAX_TOKENS

FLOAT32 = "{param_dtype: fp32, reduce_dtype: fp32, buffer_dtype: fp32}"
CPU = [
    "actor_rollout_ref.model.external_lib=engines.verl.cpu_workers",
    "actor_rollout_ref.model.use_remove_padding=False",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    *(
        f"{plus}actor_rollout_ref.{role}.{key}"
        for role in ("actor", "ref")
        for plus, key in (
            ("", "strategy=fsdp2"),
            ("", "use_torch_compile=False"),
            ("", "fsdp_config.use_torch_compile=False"),
            ("+", f"fsdp_config.mixed_precision={FLOAT32}"),
        )
    ),
    "actor_rollout_ref.rollout.name=dph_torch",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "actor_rollout_ref.rollout.free_cache_engine=False",
    "actor_rollout_ref.rollout.calculate_log_probs=True",
    "reward.num_workers=1",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "trainer.device=cpu",
    "trainer.val_before_train=False",
    "data.dataloader_num_workers=0",
    "ray_kwargs.ray_init.num_cpus=8",
    "+ray_kwargs.ray_init.include_dashboard=False",
    "trainer.logger=[console,file]",
]


@contextmanager
def dph_run(directory, recipe="small.toml"):
    """A function that runs ``dph run`` with verl in ``directory`` and returns what it prints.

    All runs share a Ray, which is killed in the end.
    """
    ray = tempfile.mkdtemp(prefix="dph", dir="/tmp")
    environment = os.environ | {
        "RAY_TMPDIR": ray,
        "RAY_raylet_start_wait_time_s": "300",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "dph", "run", recipe, "--engine", "verl", "--json"]

    def run():
        done = subprocess.run(
            [*command, "--out", "out"],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=1500,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    try:
        yield run
    finally:
        Session(directory, ray, [])._kill_ray()
        shutil.rmtree(ray, ignore_errors=True)


class Session:
    """Commands that share a directory, overrides, and a Ray of their own."""

    def __init__(self, directory, ray, overrides):
        self.directory, self.ray, self.overrides = Path(directory), str(ray), list(overrides)

    def run(self, module, *overrides, ranks, name, timeout=600):
        """Run a command to its end; returns the metrics of its steps, by step."""
        with self.started(module, *overrides, ranks=ranks, name=name) as process:
            code = process.wait(timeout=timeout)
            assert code == 0, self.log(name).read_text()[-6000:]
            self._wait_until_nothing_is_left()
        return self.metrics(name)

    @contextmanager
    def started(self, module, *overrides, ranks, name):
        """A command that runs; whatever of it and its Ray is left afterwards is killed."""
        words = [
            *(sys.executable, "-m", f"dph.engines.verl.{module}"),
            *CPU,
            f"trainer.n_gpus_per_node={ranks}",
            f"+ray_kwargs.ray_init.num_gpus={ranks}",
            f"trainer.default_local_dir={self.directory}/checkpoints",
            f"hydra.run.dir={self.directory}/hydra",
            *self.overrides,
            *overrides,
        ]
        environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "RAY_TMPDIR": self.ray,
            "VERL_FILE_LOGGER_PATH": str(self.directory / f"{name}.jsonl"),
        }
        with self.log(name).open("w") as log:
            process = subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            self._kill_ray()

    def log(self, name):
        """What a command wrote."""
        return self.directory / f"{name}.log"

    def metrics(self, name):
        """The metrics of a command's steps, by step."""
        path = self.directory / f"{name}.jsonl"
        *lines, _half = path.read_text().split("\n") if path.exists() else [""]
        return {row["step"]: row["data"] for row in map(json.loads, lines)}

    def _wait_until_nothing_is_left(self, seconds=120):
        """Ray and the verifiers' workers end by themselves when a command does."""
        deadline = time.monotonic() + seconds
        while (left := self._processes()) and time.monotonic() < deadline:
            psutil.wait_procs(left, timeout=1)
        assert not left, [process.cmdline() for process in left]

    def _kill_ray(self):
        """A killed driver leaves processes behind; ours name our own directory."""
        deadline = time.monotonic() + 20
        while (left := self._processes()) and time.monotonic() < deadline:
            for process in left:
                process.kill()
            psutil.wait_procs(left, timeout=2)
        assert not left

    def _processes(self):
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("RAY_TMPDIR") == self.ray:
                    found.append(process)
            except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        return [process for process in found if process.pid != os.getpid()]


def small_session(world, ray):
    """Commands on the small world in ``world``, two of its problems in a mini-batch."""
    return Session(
        world,
        ray,
        [
            f"data.train_files={world}/problems.parquet",
            f"data.val_files={world}/problems.parquet",
            f"actor_rollout_ref.model.path={world}/model",
            "data.train_batch_size=4",
            "data.max_prompt_length=64",
            f"data.max_response_length={MAX_TOKENS}",
            "actor_rollout_ref.rollout.n=4",
            "actor_rollout_ref.actor.ppo_mini_batch_size=2",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
            "actor_rollout_ref.actor.optim.lr=1e-4",
            "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8",
            "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8",
            f"dph.pool={world}/pool",
            "dph.chat=false",
            "dph.verifier=sql",
            f"dph.databases={world}/world/databases",
        ],
    )
