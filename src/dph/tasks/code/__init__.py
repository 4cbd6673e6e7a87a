"""Programming problems: HumanEval, MBPP and LiveCodeBench, and files of their shapes."""
