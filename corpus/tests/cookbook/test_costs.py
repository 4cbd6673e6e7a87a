import subprocess
import sys
import time

from dph_corpus.cookbook.run import StageCosts


def test_costs_add_up_and_count_children(tmp_path):
    costs = StageCosts(tmp_path / "costs.json")
    busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    for _ in range(2):
        with costs.stage("work"):
            subprocess.run([sys.executable, "-c", busy], check=True)
    spent = costs.read()["work"]
    assert spent["cpu_seconds"] >= 0.6
    assert spent["seconds"] >= 0.6


def test_waiting_costs_time_and_no_processor(tmp_path):
    costs = StageCosts(tmp_path / "costs.json")
    with costs.stage("wait"):
        time.sleep(0.3)
    spent = costs.read()["wait"]
    assert spent["seconds"] >= 0.3 > spent["cpu_seconds"]
