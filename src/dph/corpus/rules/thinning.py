"""The coin of thinned rules, thrown by a hash: the same file always falls alike."""

import hashlib

DROP_PROBABILITY = 0.8


def thinned_drops(document_id: str, rule: str) -> bool:
    """Whether a thinned rule that fires on a document drops it.

    Equation: SHA-256(rule, 0, id) / 2**256 < 0.8. Over ids it is a coin that falls so in 4 of 5
    cases, independently for every rule.
    Differs from the released filter: that draws anew, without a seed, in each run.
    """
    head = hashlib.sha256(f"{rule}\0{document_id}".encode()).digest()[:8]
    return int.from_bytes(head, "big") < DROP_PROBABILITY * 2**64
