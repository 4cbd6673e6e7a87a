"""Studies: methods, strengths, seeds and worlds compared by a rule that was fixed before."""
