"""The answers to one prompt as a tree: what begins alike is one path."""

from collections.abc import Sequence
from dataclasses import dataclass

ROOT = 0


@dataclass(frozen=True, slots=True)
class AnswerTrie:
    """Nodes are beginnings of answers, numbered as the answers reach them; the root is 0.

    Attributes:
        paths: the nodes of each answer, from the root to its whole: one more than its tokens.
        parents: of each node; the root is its own.
        children: of each node, by the token that leads there.
    """

    paths: tuple[tuple[int, ...], ...]
    parents: tuple[int, ...]
    children: tuple[dict[int, int], ...]

    @property
    def inner(self) -> tuple[int, ...]:
        """The nodes where some answer goes on: those that have a next-token distribution."""
        return tuple(node for node, children in enumerate(self.children) if children)


def answer_trie(answers: Sequence[Sequence[int]]) -> AnswerTrie:
    """The tree of ``answers``, token ids each.

    >>> trie = answer_trie([(5, 7), (5, 8), (5, 7)])
    >>> trie.paths, trie.children
    (((0, 1, 2), (0, 1, 3), (0, 1, 2)), ({5: 1}, {7: 2, 8: 3}, {}, {}))
    """
    parents, children = [ROOT], [dict[int, int]()]
    paths = []
    for answer in answers:
        node, path = ROOT, [ROOT]
        for token in answer:
            below = children[node].get(token)
            if below is None:
                below = children[node][token] = len(parents)
                parents.append(node)
                children.append({})
            node = below
            path.append(node)
        paths.append(tuple(path))
    return AnswerTrie(tuple(paths), tuple(parents), tuple(children))
