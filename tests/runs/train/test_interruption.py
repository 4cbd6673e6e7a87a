import os
import signal
import threading

import pytest

from dph.runs.train.loop import asked_to_stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_only_asks_and_handlers_are_put_back(number):
    before = signal.getsignal(number)
    with asked_to_stop() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
    assert signal.getsignal(number) is before


def test_the_second_ctrl_c_does_not_wait():
    with asked_to_stop() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_outside_the_main_thread_nobody_asks():
    answers = []

    def run():
        with asked_to_stop() as stop:
            answers.append(stop())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert answers == [False]
