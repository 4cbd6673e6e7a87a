"""Results of runs: diagnosis, charts, figures, reports, the server and what is published."""
