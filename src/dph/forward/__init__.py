"""The training forward: log-probs of completions, with what rows begin with alike computed once."""
