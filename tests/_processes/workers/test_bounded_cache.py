from dph._processes.workers.handler import BoundedCache


def test_what_was_used_least_recently_is_forgotten():
    cache = BoundedCache(2)
    cache.put(1, "one")
    cache.put(2, "two")
    assert cache.get(1) == "one"
    cache.put(3, "three")
    assert [cache.get(key) for key in (1, 2, 3)] == ["one", None, "three"]


def test_a_key_is_kept_once():
    cache = BoundedCache(2)
    for value in range(5):
        cache.put("same", value)
    cache.put("other", 0)
    assert cache.get("same") == 4
