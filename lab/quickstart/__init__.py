"""The quickstart: methods compared on a world that fits a CPU, in minutes."""
