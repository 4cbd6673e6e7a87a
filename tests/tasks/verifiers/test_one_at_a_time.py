import threading
import time
from concurrent.futures import ThreadPoolExecutor

from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers.base import OneAtATime, Verifier


class Watched:
    name, version, settings = "watched", "3", {"rule": "strict"}

    def __init__(self):
        self.inside, self.most, self.closed = 0, 0, False
        self.lock = threading.Lock()

    def grade(self, problems, responses):
        assert len(problems) == len(responses)
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.01)
        with self.lock:
            self.inside -= 1
        return [Verdict(outcome=Outcome.WRONG, reward=0.0, reason=r) for r in responses]

    def close(self):
        self.closed = True


def test_threads_take_turns_and_each_gets_its_own_verdicts():
    watched = Watched()
    verifier = OneAtATime(watched)
    problem = Problem(problem_id="q", prompt="")
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda i: verifier.grade([problem], [str(i)]), range(16)))
    assert [verdicts[0].reason for verdicts in found] == [str(i) for i in range(16)]
    assert watched.most == 1


def test_it_is_a_verifier_with_the_identity_of_the_one_inside():
    watched = Watched()
    verifier = OneAtATime(watched)
    assert isinstance(verifier, Verifier)
    assert (verifier.name, verifier.version) == ("watched", "3")
    assert verifier.settings == {"rule": "strict"}
    verifier.close()
    assert watched.closed
