from dph_corpus.rules.presets import thinned_drops


def test_the_coin_falls_in_four_of_five_cases_and_alike_every_time():
    ids = [f"repo/file{n}.py" for n in range(5000)]
    drops = [thinned_drops(i, "rule") for i in ids]
    # 0.8 plus or minus four standard deviations of 5,000 draws
    assert abs(sum(drops) / len(drops) - 0.8) < 4 * (0.16 / 5000) ** 0.5
    assert drops == [thinned_drops(i, "rule") for i in ids]


def test_the_coins_of_two_rules_are_independent():
    ids = range(5000)
    both = sum(thinned_drops(str(i), "a") and thinned_drops(str(i), "b") for i in ids) / 5000
    assert abs(both - 0.64) < 4 * (0.64 * 0.36 / 5000) ** 0.5
