"""Something in the place of Ray, for tests without it."""


class FakeRay:
    """Does a task when it is asked for; ``options`` are what tasks were made with."""

    def __init__(self):
        self.options, self.results, self.cancelled = {}, {}, []

    def cluster_resources(self):
        return {"CPU": 3.0}

    def remote(self, **options):
        self.options = options

        def decorate(function):
            class Task:
                @staticmethod
                def remote(payload):
                    reference = f"ref-{len(self.results)}"
                    self.results[reference] = (function, payload)
                    return reference

            return Task

        return decorate

    def wait(self, references, *, num_returns):
        return references[:num_returns], references[num_returns:]

    def get(self, reference):
        function, payload = self.results[reference]
        return function(payload)

    def cancel(self, reference, *, force):
        self.cancelled.append((reference, force))
