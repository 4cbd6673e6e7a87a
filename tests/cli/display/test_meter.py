from dph.cli.display.output import Meter


def test_the_rate_is_units_over_seconds_and_the_rest_takes_the_rest(clock):
    meter = Meter(total=10, clock=clock)
    clock.now += 2.0
    meter.advance(4)
    assert meter.rate == 2.0
    assert meter.seconds_left == 3.0
    assert meter.seconds == 2.0


def test_what_a_continued_run_has_already_is_no_speed(clock):
    meter = Meter(total=10, clock=clock)
    meter.advance(6)
    assert meter.rate is None
    assert meter.seconds_left is None
    clock.now += 2.0
    meter.advance(2)
    assert meter.done == 8
    assert meter.rate == 1.0
    assert meter.seconds_left == 2.0


def test_more_than_the_total_leaves_no_negative_time(clock):
    meter = Meter(total=1, clock=clock)
    clock.now += 1.0
    meter.advance(2)
    assert meter.seconds_left == 0.0
