import subprocess
import sys


def test_without_trl_the_error_says_what_to_install():
    code = "import sys; sys.modules['trl'] = None; import dph.engines.trl"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "dph-rl[trl]" (trl>=1.12,<2)' in done.stderr
