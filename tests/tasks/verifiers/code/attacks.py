"""Programs that try to be right without being right, or to do something else: name, source, ends.

``add(a, b)`` is asked for, and in scripts the sum of two numbers. MARK stands for a file that is
not there, VICTIM for one that is.
"""

import os

from dph.records import Outcome

WRONG, INVALID = {Outcome.WRONG}, {Outcome.INVALID}
LATE, OVER, RIGHT = {Outcome.TIMED_OUT}, {Outcome.OVER_LIMIT}, {Outcome.CORRECT}
FAILED = WRONG | INVALID | LATE | OVER

SYSCALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"


def body(*lines):
    """A function ``add`` with these lines; the name ``os`` and ``sys`` are there."""
    return "import os, sys\ndef add(a, b):\n" + "".join(f"    {line}\n" for line in lines)


def first(*lines):
    """These lines when the program is loaded, and then a wrong ``add``."""
    return "import os, sys\n" + "\n".join(lines) + "\ndef add(a, b): return a - b\n"


def tried(action):
    """An ``add`` that is right only if an action that has to fail did not fail."""
    return (
        f"import os, sys\ndone = False\ntry:\n    {action}\n    done = True\n"
        "except BaseException: pass\ndef add(a, b): return a + b if done else None\n"
    )


def called(number, *arguments):
    """As ``tried``, by a bare system call; the numbers are those of one architecture."""
    if os.uname().machine != "x86_64":
        return tried("os.fork()")
    given = ", ".join(map(str, (number, *arguments)))
    return tried(f"import ctypes; assert ctypes.CDLL(None).syscall({given}) >= 0")


FORGED = {
    "an int that equals all": (
        body("class X(int):", "    __eq__ = lambda s, o: True", "return X()"),
        WRONG,
    ),
    "an object that equals all": (
        body("class X:", "    __eq__ = lambda s, o: True", "return X()"),
        WRONG,
    ),
    "equal the other way round": (
        body("class X:", "    __eq__ = __req__ = __ne__ = lambda s, o: True", "return X()"),
        WRONG,
    ),
    "a class that claims to be int": (
        body("class X:", "    __class__ = int", "    __eq__ = lambda s, o: True", "return X()"),
        FAILED,
    ),
    "a true object": (body("class X:", "    __bool__ = lambda s: True", "return X()"), WRONG),
    "a function": (body("return lambda *a: True"), WRONG),
    "nothing": (body("return None"), WRONG),
    "not a number": (body("return float('nan')"), WRONG),
    "the text of it": (body("return str(a + b)"), WRONG),
    "a list of it": (body("return [a + b]"), WRONG),
    "a generator of it": (body("yield a + b"), WRONG),
    "exit 0 at once": (first("os._exit(0)"), INVALID),
    "exit 0 in the call": (body("os._exit(0)"), WRONG),
    "sys.exit at once": (first("sys.exit(0)"), INVALID),
    "sys.exit in the call": (body("sys.exit(0)"), WRONG),
    "exit when exiting": (first("import atexit", "atexit.register(os._exit, 0)"), WRONG),
    "KeyboardInterrupt": (body("raise KeyboardInterrupt"), WRONG),
    "GeneratorExit": (body("raise GeneratorExit"), WRONG),
    "StopIteration": (body("raise StopIteration(a + b)"), WRONG),
    "a raised AssertionError": (body("raise AssertionError"), WRONG),
    "an own BaseException": (body("class E(BaseException): pass", "raise E"), WRONG),
    "an exception without text": (
        body("class E(Exception):", "    def __str__(s): raise E", "raise E"),
        WRONG,
    ),
    "builtins replaced": (
        first("import builtins", "builtins.AssertionError = builtins.ValueError = Exception"),
        WRONG,
    ),
    "all comparisons replaced": (
        first("import operator, builtins", "operator.eq = builtins.all = lambda *a: True"),
        WRONG,
    ),
    "the judge patched": (
        first(
            "for name, module in list(sys.modules.items()):",
            "    for key in dir(module) if name.startswith('dph') else ():",
            "        try: setattr(module, key, lambda *a, **k: ('CORRECT', ''))",
            "        except Exception: pass",
        ),
        FAILED,
    ),
    "json patched": (
        first("import json", "json.dumps = lambda *a, **k: '[\"value\", 5, null]'"),
        FAILED,
    ),
    "encode patched": (
        first("import dph._processes.sandbox.program as p", "p.encode = lambda *a: 5"),
        WRONG,
    ),
    "a verdict on every descriptor": (
        first(
            "import json, struct",
            "data = json.dumps(['verdict', 'CORRECT', '']).encode()",
            "for fd in range(256):",
            "    try: os.write(fd, struct.pack('<Q', len(data)) + data)",
            "    except OSError: pass",
        ),
        FAILED,
    ),
    "answers before the questions": (
        first(
            "import json, struct",
            "for value in (5, 5, 5, 5):",
            "    data = json.dumps(['value', value, None]).encode()",
            "    os.write(4, struct.pack('<Q', len(data)) + data)",
        ),
        FAILED,
    ),
    "garbage on the channel": (first("os.write(4, os.urandom(4096))"), FAILED),
    "an endless message": (
        first("import struct", "os.write(4, struct.pack('<Q', 1 << 62))", "os.write(4, b'x')"),
        FAILED,
    ),
    "deep JSON on the channel": (
        first("import struct", "d = b'[' * 900000", "os.write(4, struct.pack('<Q', len(d)) + d)"),
        FAILED,
    ),
    "a callback that is none": (
        first(
            "import json, struct",
            "d = json.dumps(['function', 10**9, []]).encode()",
            "os.write(4, struct.pack('<Q', len(d)) + d)",
        ),
        FAILED,
    ),
    "the channel closed": (first("os.close(4)"), INVALID),
    "all descriptors closed": (first("os.closerange(0, 4096)"), INVALID),
    "values of no type": (
        first(
            "import dph._processes.sandbox.program as p",
            "p.encode = lambda *a: {'code': 'x', 'y': 1}",
        ),
        FAILED,
    ),
    "frames searched": (
        body(
            "import types",
            "frame, found = sys._getframe(), []",
            "while frame:",
            "    found += [str(v) for v in frame.f_locals.values()]",
            "    frame = frame.f_back",
            "return 5 if any('assert' in t for t in found) else None",
        ),
        WRONG,
    ),
    "the heap searched": (
        body(
            "import gc",
            "for each in gc.get_objects():",
            "    if isinstance(each, dict) and ('tests' in each or 'calls' in each):",
            "        return 5 if 'assert add' in repr(each) else None",
        ),
        WRONG,
    ),
    "memory searched": (
        tried("assert 'assert add' in open('/proc/self/mem', 'rb').read(1)"),
        WRONG,
    ),
    "its argument emptied": (
        "def add(a, b):\n    a.clear() if hasattr(a, 'clear') else 0\n    return a\n",
        WRONG,
    ),
    "another name": ("def plus(a, b): return a + b", INVALID),
    "a name that cannot be called": ("add = 5", WRONG),
    "del": ("def add(a, b): return a + b\ndel add", INVALID),
    "globals cleared": (first("globals().clear()") + "globals().clear()", INVALID),
}

RESOURCES = {
    "an endless loop": (body("while True: pass"), LATE),
    "an endless loop at once": (first("while True: pass"), LATE),
    "sleep": (body("import time", "time.sleep(1000)"), LATE),
    "wait for a signal": (body("import signal", "signal.pause()"), LATE),
    "a deadlock": (
        body("import threading", "t = threading.Lock()", "t.acquire()", "t.acquire()"),
        LATE,
    ),
    "all signals blocked": (
        body("import signal", "signal.pthread_sigmask(0, range(1, 65))", "while True: pass"),
        LATE,
    ),
    "SIGXCPU ignored": (
        body("import signal", "signal.signal(24, signal.SIG_IGN)", "while True: pass"),
        LATE,
    ),
    "a regex without end": (body("import re", "re.match('(a+)+$', 'a' * 64 + 'b')"), LATE),
    "a number without end": (body("return 10 ** 10 ** 9"), LATE | OVER | WRONG),
    "a list": (body("return [0] * 10 ** 10"), OVER),
    "a growing list": (body("x = [0]", "while True: x = x + x"), OVER | LATE),
    "bytes": (body("return bytes(10 ** 11)"), OVER),
    "a text that is too long": (body("return 'x' * 100_000_000"), OVER | LATE),
    "memory at once": (first("x = bytearray(10 ** 11)"), OVER),
    "memory mapped": (
        body("import mmap", "return [mmap.mmap(-1, 1 << 28) for _ in range(1000)]"),
        FAILED,
    ),
    "recursion": (body("return add(a, b)"), WRONG),
    "recursion without limit": (
        body("sys.setrecursionlimit(10 ** 9)", "return [add(a, b)]"),
        FAILED,
    ),
    "a list in itself": (body("x = []", "x.append(x)", "return x"), WRONG),
    "a deep list": (body("x = []", "for _ in range(10 ** 5): x = [x]", "return x"), WRONG),
    "many threads": (
        body(
            "import threading, time",
            "for _ in range(10 ** 5): threading.Thread(target=time.sleep, args=(99,)).start()",
        ),
        FAILED,
    ),
    "small threads": (
        body(
            "import threading, time",
            "threading.stack_size(32768)",
            "for _ in range(10 ** 5): threading.Thread(target=time.sleep, args=(99,)).start()",
        ),
        FAILED,
    ),
    "threads that go on": (
        "import threading\ndef forever():\n    while True: pass\n"
        "threading.Thread(target=forever).start()\ndef add(a, b): return a + b",
        RIGHT | LATE,
    ),
    "many descriptors": (
        body("return [open('/dev/null') for _ in range(10 ** 5)]"),
        WRONG,
    ),
    "a file that is too big": (
        body("f = open('big', 'wb')", "while True: f.write(b'x' * 10 ** 6)"),
        WRONG,
    ),
    "many files": (body("for i in range(10 ** 6): open(str(i), 'w').close()"), FAILED),
    "deep directories": (
        body("for i in range(10 ** 6):", "    os.mkdir('d')", "    os.chdir('d')"),
        FAILED,
    ),
    "a crash": (body("import ctypes", "ctypes.string_at(0)"), WRONG),
    "abort": (body("os.abort()"), WRONG),
    "a crash at once": (first("import ctypes", "ctypes.string_at(0)"), INVALID),
    "input": (body("return int(input())"), WRONG),
}

PROCESSES = {
    "fork": (tried("os.fork()"), WRONG),
    "a fork bomb": (body("while True:", "    try: os.fork()", "    except OSError: return"), WRONG),
    "vfork by hand": (called(58), WRONG),
    "clone by hand": (called(56, 17, 0, 0, 0, 0), WRONG),
    "clone3 by hand": (called(435, 0, 0), WRONG),
    "system": (body("return a + b if os.system('true') == 0 else None"), WRONG),
    "subprocess": (tried("import subprocess; subprocess.run(['true'])"), WRONG),
    "multiprocessing": (
        tried("import multiprocessing as m; p = m.Process(target=print); p.start()"),
        WRONG,
    ),
    "posix_spawn": (tried("os.posix_spawn('/bin/true', ['true'], {})"), WRONG),
    "exec": (body("os.execv('/bin/true', ['true'])"), WRONG),
    "exec of memory": (tried("os.execve(os.memfd_create('x'), ['x'], {})"), WRONG),
    "a terminal": (tried("import pty; pty.fork()"), WRONG),
    "kill the parent": (tried("os.kill(os.getppid(), 9)"), WRONG),
    "kill the group": (tried("os.killpg(0, 9)"), FAILED),
    "kill all": (tried("os.kill(-1, 9)"), FAILED),
    "kill the first": (tried("os.kill(1, 9)"), FAILED),
    "tgkill": (called(234, 1, 1, 9), WRONG),
    "a signal to come": (
        tried("import fcntl; fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())"),
        FAILED,
    ),
    "ptrace": (called(101, 16, "__import__('os').getppid()", 0, 0), WRONG),
    "another's memory": (called(310, 1, 0, 0, 0, 0, 0), WRONG),
    "another's descriptor": (called(438, 3, 0, 0), WRONG),
    "pidfd": (tried("os.pidfd_open(os.getppid())"), WRONG),
    "a session of its own": (tried("os.setsid()"), WRONG),
    "outlive the parent": (called(157, 1, 0, 0, 0, 0), WRONG),
    "limits lifted": (
        tried("import resource as r; r.setrlimit(r.RLIMIT_CPU, (9999, 9999))"),
        WRONG,
    ),
    "others' limits": (called(302, "__import__('os').getppid()", 7, 0, 0), WRONG),
    "be root": (tried("os.setuid(0)"), WRONG),
    "chroot": (tried("os.chroot('.')"), WRONG),
    "unshare": (called(272, 0x10000000), WRONG),
    "mount": (called(165, 0, 0, 0, 0, 0), WRONG),
    "bpf": (called(321, 0, 0, 0), WRONG),
    "io_uring": (called(425, 8, 0), WRONG),
    "keys": (called(250, 0, -3, 0, 0, 0), WRONG),
    "a higher priority": (tried("os.setpriority(os.PRIO_USER, 0, 5)"), WRONG),
    "shared memory": (called(29, 0, 4096, 0o1600), WRONG),
}

FILES = {
    "write": (tried("open('MARK', 'w').write('x')"), WRONG),
    "append": (tried("open('VICTIM', 'a').write('x')"), WRONG),
    "cut off": (tried("os.truncate('VICTIM', 0)"), WRONG),
    "open and cut off": (tried("os.open('VICTIM', os.O_RDONLY | os.O_TRUNC)"), WRONG),
    "remove": (tried("os.unlink('VICTIM')"), WRONG),
    "remove all": (tried("import shutil; shutil.rmtree(os.path.dirname('VICTIM'))"), WRONG),
    "rename": (tried("os.rename('VICTIM', 'MARK')"), WRONG),
    "link": (tried("os.link('VICTIM', 'MARK')"), WRONG),
    "symbolic link": (tried("os.symlink('VICTIM', 'MARK')"), WRONG),
    "through a link": (
        tried("os.symlink('VICTIM', 'here'); open('here', 'a').write('x')"),
        WRONG,
    ),
    "directory": (tried("os.mkdir('MARK')"), WRONG),
    "pipe": (tried("os.mkfifo('MARK')"), WRONG),
    "mode": (tried("os.chmod('VICTIM', 0)"), WRONG),
    "owner": (tried("os.chown('VICTIM', 1, 1)"), WRONG),
    "time": (tried("os.utime('VICTIM', (0, 0))"), WRONG),
    "attribute": (tried("os.setxattr('VICTIM', 'user.x', b'x')"), WRONG),
    "shared memory file": (tried("open('/dev/shm/MARKED', 'w')"), WRONG),
    "home": (tried("open(os.path.expanduser('~root/MARKED'), 'w')"), WRONG),
    "read the victim": (tried("open('VICTIM').read()"), WRONG),
    "read passwords": (tried("open('/etc/passwd').read()"), WRONG),
    "read the environment": (tried("open('/proc/self/environ').read()"), WRONG),
    "read the parent": (tried("open(f'/proc/{os.getppid()}/cmdline').read()"), WRONG),
    "list the root": (tried("os.listdir('/')"), WRONG),
    "a disk": (tried("open('/dev/vda', 'rb')"), WRONG),
    "a terminal's input": (tried("import fcntl; fcntl.ioctl(3, 0x5412, b'x')"), WRONG),
}

NETWORK = {
    "tcp": (tried("import socket; socket.create_connection(('127.0.0.1', 22), 1)"), WRONG),
    "a server": (tried("import socket; socket.create_server(('127.0.0.1', 0))"), WRONG),
    "udp": (tried("import socket; socket.socket(type=socket.SOCK_DGRAM)"), WRONG),
    "unix": (tried("import socket; socket.socket(socket.AF_UNIX)"), WRONG),
    "netlink": (tried("import socket; socket.socket(socket.AF_NETLINK, 3)"), WRONG),
    "datagrams": (tried("import socket; socket.socketpair(type=socket.SOCK_DGRAM)"), WRONG),
    "http": (
        tried("import urllib.request as u; u.urlopen('http://127.0.0.1:1', timeout=1)"),
        WRONG,
    ),
}

TEXTS = {
    "nothing at all": ("", INVALID),
    "no Python": ("I cannot do that.", INVALID),
    "NUL": ("def add(a, b):\n    return a + b\0", INVALID),
    "half of a pair": ("x = '\ud800'\ndef add(a, b): return x", FAILED),
    "parentheses": ("(" * 100_000, INVALID | OVER),
    "minuses": ("x = " + "-" * 100_000 + "1", INVALID | OVER),
    "indentation": ("".join(" " * i + "if 1:\n" for i in range(200)), INVALID),
    "a long line": ("x = 1" + "+1" * 500_000, FAILED),
    "a constant": ("x = 1 << (1 << 40)\ndef add(a, b): return x", FAILED),
    "a coding": ("# coding: rot13\nqrs nqq(n, o): erghea n + o", INVALID),
}

FUNCTIONS = {**FORGED, **RESOURCES, **PROCESSES, **FILES, **NETWORK, **TEXTS}

SCRIPTS = {
    "prints nothing": ("pass", WRONG),
    "prints too much": ("while True: print('x' * 10 ** 6)", OVER | LATE),
    "complains too much": ("import sys\nwhile True: sys.stderr.write('x' * 10 ** 6)", LATE),
    "prints and fails": ("print(5)\n1 / 0", WRONG),
    "prints and exits with 1": ("print(5)\nexit(1)", WRONG),
    "prints and crashes": (
        "print(5, flush=True)\nimport ctypes\nctypes.string_at(0)",
        WRONG,
    ),
    "prints and goes on": ("print(5, flush=True)\nwhile True: pass", LATE),
    "closes and goes on": ("import os\nprint(5, flush=True)\nos.close(1)\nwhile True: pass", LATE),
    "a thread goes on": (
        "import threading\ndef f():\n    while True: pass\n"
        "threading.Thread(target=f).start()\nprint(5)",
        LATE,
    ),
    "all that could be right": ("for i in range(100): print(i)", WRONG),
    "a not-number": ("print('nan')", WRONG),
    "the right one in words": ("print('5 apples')", WRONG),
    "reads on": ("input(); input(); print(5)", WRONG),
    "exit 97": ("print(5)\nimport os\nos._exit(97)", INVALID | WRONG),
}

HARMLESS = {
    "an exit handler": (
        "import atexit\natexit.register(lambda: print(sum(map(int, input().split()))))",
        RIGHT,
    ),
    "a daemon goes on": (
        "import threading\ndef f():\n    while True: pass\n"
        "threading.Thread(target=f, daemon=True).start()\nprint(5)",
        RIGHT,
    ),
    "sys.exit": ("import sys\nprint(5.0)\nsys.exit()", RIGHT),
    "raw output": ("import os\nos.write(1, b'5')\nos._exit(0)", RIGHT),
    "a big stack": (
        "import threading\nthreading.stack_size(1 << 27)\n"
        "t = threading.Thread(target=lambda: print(sum(map(int, input().split()))))\n"
        "t.start()\nt.join()",
        RIGHT,
    ),
    "a file of its own": ("open('x', 'w').write('5')\nprint(open('x').read())", RIGHT),
    "an event loop": (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\n"
        "print(asyncio.run(f()))",
        RIGHT,
    ),
}
"""Scripts that do something odd and are right."""
