"""The figures and tables of arXiv:2509.07430, made from your run directories."""
