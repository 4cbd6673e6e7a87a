"""The quickstart: methods compared on a small task that the package brings with it, in minutes."""
