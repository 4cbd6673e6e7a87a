"""Run directories as pages that a person reads in a browser: ``dph report`` makes one HTML file."""
