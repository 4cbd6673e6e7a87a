"""How quickly ``dph view`` answers on runs with a million answers, and in how much memory."""
