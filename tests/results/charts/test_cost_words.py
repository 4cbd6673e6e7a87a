from dph.results.charts.tables import cost_document, cost_words
from dph.runs.stage_costs import RunCost, StageCost


def test_the_stages_that_the_time_lacks_are_named():
    drawn = StageCost(stage="pre-sampling", answers=100, tokens=900, seconds=None)
    training = StageCost(stage="training", answers=20, tokens=300, seconds=61.0)
    words = cost_words(cost_document(RunCost([drawn, training])))
    assert words == "120 answers, 1,200 tokens, 1 min 1 s (without the time of pre-sampling)"


def test_of_nothing_nothing_is_said():
    assert cost_words(cost_document(RunCost([]))) == ""
