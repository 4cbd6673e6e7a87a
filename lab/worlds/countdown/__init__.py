"""Countdown: make a target of given numbers. Many derivations do, nothing ties them together."""
