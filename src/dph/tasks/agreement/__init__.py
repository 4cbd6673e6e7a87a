"""Agreement: answers to one prompt compared with each other, without a gold answer."""

from dph.tasks.agreement.base import Comparer
from dph.tasks.agreement.keys import KeyComparer
from dph.tasks.agreement.verified import VerifierComparer, compares

__all__ = ["Comparer", "KeyComparer", "VerifierComparer", "compares"]
