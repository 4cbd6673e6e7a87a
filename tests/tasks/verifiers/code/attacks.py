"""Programs that try to be right without being right, or to do something else, for a sum of two.

MARK stands for a file that does not exist, VICTIM for one that does.
"""

import os

WRONG, INVALID, LATE, OVER, RIGHT = "WRONG", "INVALID", "TIMED_OUT", "OVER_LIMIT", "CORRECT"
FAILED = f"{WRONG} {INVALID} {LATE} {OVER}"


def by_name(table):
    """The programs of a table by outcomes, by name, each with the outcomes that it may have."""
    return {
        name: (text, ends.split()) for ends, some in table.items() for name, text in some.items()
    }


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
    WRONG: {
        "an int that equals all": body(
            "class X(int):", "    __eq__ = lambda s, o: True", "return X()"
        ),
        "an object that equals all": body(
            "class X:", "    __eq__ = lambda s, o: True", "return X()"
        ),
        "equal the other way round": body(
            "class X:", "    __eq__ = __req__ = __ne__ = lambda s, o: True", "return X()"
        ),
        "a true object": body("class X:", "    __bool__ = lambda s: True", "return X()"),
        "a function": body("return lambda *a: True"),
        "nothing": body("return None"),
        "not a number": body("return float('nan')"),
        "the text of it": body("return str(a + b)"),
        "a list of it": body("return [a + b]"),
        "a generator of it": body("yield a + b"),
        "exit 0 in the call": body("os._exit(0)"),
        "sys.exit in the call": body("sys.exit(0)"),
        "exit when exiting": first("import atexit", "atexit.register(os._exit, 0)"),
        "KeyboardInterrupt": body("raise KeyboardInterrupt"),
        "GeneratorExit": body("raise GeneratorExit"),
        "StopIteration": body("raise StopIteration(a + b)"),
        "a raised AssertionError": body("raise AssertionError"),
        "an own BaseException": body("class E(BaseException): pass", "raise E"),
        "an exception without text": body(
            "class E(Exception):", "    def __str__(s): raise E", "raise E"
        ),
        "builtins replaced": first(
            "import builtins", "builtins.AssertionError = builtins.ValueError = Exception"
        ),
        "all comparisons replaced": first(
            "import operator, builtins", "operator.eq = builtins.all = lambda *a: True"
        ),
        "encode patched": first(
            "import dph._processes.sandbox.program as p", "p.encode = lambda *a: 5"
        ),
        "frames searched": body(
            "import types",
            "frame, found = sys._getframe(), []",
            "while frame:",
            "    found += [str(v) for v in frame.f_locals.values()]",
            "    frame = frame.f_back",
            "return 5 if any('assert' in t for t in found) else None",
        ),
        "the heap searched": body(
            "import gc",
            "for each in gc.get_objects():",
            "    if isinstance(each, dict) and ('tests' in each or 'calls' in each):",
            "        return 5 if 'assert add' in repr(each) else None",
        ),
        "memory searched": tried("assert 'assert add' in open('/proc/self/mem', 'rb').read(1)"),
        "its argument emptied": body("a.clear() if hasattr(a, 'clear') else 0", "return a"),
        "a name that cannot be called": "add = 5",
    },
    FAILED: {
        "a class that claims to be int": body(
            "class X:", "    __class__ = int", "    __eq__ = lambda s, o: True", "return X()"
        ),
        "the judge patched": first(
            "for name, module in list(sys.modules.items()):",
            "    for key in dir(module) if name.startswith('dph') else ():",
            "        try: setattr(module, key, lambda *a, **k: ('CORRECT', ''))",
            "        except Exception: pass",
        ),
        "json patched": first("import json", "json.dumps = lambda *a, **k: '[\"value\", 5, null]'"),
        "a verdict on every descriptor": first(
            "import json, struct",
            "data = json.dumps(['verdict', 'CORRECT', '']).encode()",
            "for fd in range(256):",
            "    try: os.write(fd, struct.pack('<Q', len(data)) + data)",
            "    except OSError: pass",
        ),
        "answers before the questions": first(
            "import json, struct",
            "for value in (5, 5, 5, 5):",
            "    data = json.dumps(['value', value, None]).encode()",
            "    os.write(4, struct.pack('<Q', len(data)) + data)",
        ),
        "garbage on the channel": first("os.write(4, os.urandom(4096))"),
        "an endless message": first(
            "import struct", "os.write(4, struct.pack('<Q', 1 << 62))", "os.write(4, b'x')"
        ),
        "deep JSON on the channel": first(
            "import struct", "d = b'[' * 900000", "os.write(4, struct.pack('<Q', len(d)) + d)"
        ),
        "a callback that is none": first(
            "import json, struct",
            "d = json.dumps(['function', 10**9, []]).encode()",
            "os.write(4, struct.pack('<Q', len(d)) + d)",
        ),
        "values of no type": first(
            "import dph._processes.sandbox.program as p",
            "p.encode = lambda *a: {'code': 'x', 'y': 1}",
        ),
    },
    INVALID: {
        "exit 0 at once": first("os._exit(0)"),
        "sys.exit at once": first("sys.exit(0)"),
        "the channel closed": first("os.close(4)"),
        "all descriptors closed": first("os.closerange(0, 4096)"),
        "another name": "def plus(a, b): return a + b",
        "del": "def add(a, b): return a + b\ndel add",
        "globals cleared": first("globals().clear()") + "globals().clear()",
    },
}

RESOURCES = {
    LATE: {
        "an endless loop": body("while True: pass"),
        "an endless loop at once": first("while True: pass"),
        "sleep": body("import time", "time.sleep(1000)"),
        "wait for a signal": body("import signal", "signal.pause()"),
        "a deadlock": body(
            "import threading", "t = threading.Lock()", "t.acquire()", "t.acquire()"
        ),
        "all signals blocked": body(
            "import signal", "signal.pthread_sigmask(0, range(1, 65))", "while True: pass"
        ),
        "SIGXCPU ignored": body(
            "import signal", "signal.signal(24, signal.SIG_IGN)", "while True: pass"
        ),
        "a regex without end": body("import re", "re.match('(a+)+$', 'a' * 64 + 'b')"),
    },
    f"{LATE} {OVER} {WRONG}": {"a number without end": body("return 10 ** 10 ** 9")},
    OVER: {
        "a list": body("return [0] * 10 ** 10"),
        "bytes": body("return bytes(10 ** 11)"),
        "memory at once": first("x = bytearray(10 ** 11)"),
    },
    f"{OVER} {LATE}": {
        "a growing list": body("x = [0]", "while True: x = x + x"),
        "a text that is too long": body("return 'x' * 100_000_000"),
    },
    FAILED: {
        "memory mapped": body(
            "import mmap", "return [mmap.mmap(-1, 1 << 28) for _ in range(1000)]"
        ),
        "recursion without limit": body("sys.setrecursionlimit(10 ** 9)", "return [add(a, b)]"),
        "many threads": body(
            "import threading, time",
            "for _ in range(10 ** 5): threading.Thread(target=time.sleep, args=(99,)).start()",
        ),
        "small threads": body(
            "import threading, time",
            "threading.stack_size(32768)",
            "for _ in range(10 ** 5): threading.Thread(target=time.sleep, args=(99,)).start()",
        ),
        "many files": body("for i in range(10 ** 6): open(str(i), 'w').close()"),
        "deep directories": body(
            "for i in range(10 ** 6):", "    os.mkdir('d')", "    os.chdir('d')"
        ),
    },
    WRONG: {
        "recursion": body("return add(a, b)"),
        "a list in itself": body("x = []", "x.append(x)", "return x"),
        "a deep list": body("x = []", "for _ in range(10 ** 5): x = [x]", "return x"),
        "many descriptors": body("return [open('/dev/null') for _ in range(10 ** 5)]"),
        "a file that is too big": body(
            "f = open('big', 'wb')", "while True: f.write(b'x' * 10 ** 6)"
        ),
        "a crash": body("import ctypes", "ctypes.string_at(0)"),
        "abort": body("os.abort()"),
        "input": body("return int(input())"),
    },
    f"{RIGHT} {LATE}": {
        "threads that go on": (
            "import threading\ndef forever():\n    while True: pass\n"
            "threading.Thread(target=forever).start()\ndef add(a, b): return a + b"
        )
    },
    INVALID: {"a crash at once": first("import ctypes", "ctypes.string_at(0)")},
}

PROCESSES = {
    WRONG: {
        "fork": tried("os.fork()"),
        "a fork bomb": body("while True:", "    try: os.fork()", "    except OSError: return"),
        "vfork by hand": called(58),
        "clone by hand": called(56, 17, 0, 0, 0, 0),
        "clone3 by hand": called(435, 0, 0),
        "system": body("return a + b if os.system('true') == 0 else None"),
        "subprocess": tried("import subprocess; subprocess.run(['true'])"),
        "multiprocessing": tried(
            "import multiprocessing as m; p = m.Process(target=print); p.start()"
        ),
        "posix_spawn": tried("os.posix_spawn('/bin/true', ['true'], {})"),
        "exec": body("os.execv('/bin/true', ['true'])"),
        "exec of memory": tried("os.execve(os.memfd_create('x'), ['x'], {})"),
        "a terminal": tried("import pty; pty.fork()"),
        "kill the parent": tried("os.kill(os.getppid(), 9)"),
        "tgkill": called(234, 1, 1, 9),
        "ptrace": called(101, 16, "__import__('os').getppid()", 0, 0),
        "another's memory": called(310, 1, 0, 0, 0, 0, 0),
        "another's descriptor": called(438, 3, 0, 0),
        "pidfd": tried("os.pidfd_open(os.getppid())"),
        "a session of its own": tried("os.setsid()"),
        "outlive the parent": called(157, 1, 0, 0, 0, 0),
        "limits lifted": tried("import resource as r; r.setrlimit(r.RLIMIT_CPU, (9999, 9999))"),
        "others' limits": called(302, "__import__('os').getppid()", 7, 0, 0),
        "be root": tried("os.setuid(0)"),
        "chroot": tried("os.chroot('.')"),
        "unshare": called(272, 0x10000000),
        "mount": called(165, 0, 0, 0, 0, 0),
        "bpf": called(321, 0, 0, 0),
        "io_uring": called(425, 8, 0),
        "keys": called(250, 0, -3, 0, 0, 0),
        "a higher priority": tried("os.setpriority(os.PRIO_USER, 0, 5)"),
        "shared memory": called(29, 0, 4096, 0o1600),
    },
    FAILED: {
        "kill the group": tried("os.killpg(0, 9)"),
        "kill all": tried("os.kill(-1, 9)"),
        "kill the first": tried("os.kill(1, 9)"),
        "a signal to come": tried("import fcntl; fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())"),
    },
}

FILES = {
    WRONG: {
        "write": tried("open('MARK', 'w').write('x')"),
        "append": tried("open('VICTIM', 'a').write('x')"),
        "cut off": tried("os.truncate('VICTIM', 0)"),
        "open and cut off": tried("os.open('VICTIM', os.O_RDONLY | os.O_TRUNC)"),
        "remove": tried("os.unlink('VICTIM')"),
        "remove all": tried("import shutil; shutil.rmtree(os.path.dirname('VICTIM'))"),
        "rename": tried("os.rename('VICTIM', 'MARK')"),
        "link": tried("os.link('VICTIM', 'MARK')"),
        "symbolic link": tried("os.symlink('VICTIM', 'MARK')"),
        "through a link": tried("os.symlink('VICTIM', 'here'); open('here', 'a').write('x')"),
        "directory": tried("os.mkdir('MARK')"),
        "pipe": tried("os.mkfifo('MARK')"),
        "mode": tried("os.chmod('VICTIM', 0)"),
        "owner": tried("os.chown('VICTIM', 1, 1)"),
        "time": tried("os.utime('VICTIM', (0, 0))"),
        "attribute": tried("os.setxattr('VICTIM', 'user.x', b'x')"),
        "shared memory file": tried("open('/dev/shm/MARKED', 'w')"),
        "home": tried("open(os.path.expanduser('~root/MARKED'), 'w')"),
        "read the victim": tried("open('VICTIM').read()"),
        "read passwords": tried("open('/etc/passwd').read()"),
        "read the environment": tried("open('/proc/self/environ').read()"),
        "read the parent": tried("open(f'/proc/{os.getppid()}/cmdline').read()"),
        "list the root": tried("os.listdir('/')"),
        "a disk": tried("open('/dev/vda', 'rb')"),
        "a terminal's input": tried("import fcntl; fcntl.ioctl(3, 0x5412, b'x')"),
    }
}

NETWORK = {
    WRONG: {
        "tcp": tried("import socket; socket.create_connection(('127.0.0.1', 22), 1)"),
        "a server": tried("import socket; socket.create_server(('127.0.0.1', 0))"),
        "udp": tried("import socket; socket.socket(type=socket.SOCK_DGRAM)"),
        "unix": tried("import socket; socket.socket(socket.AF_UNIX)"),
        "netlink": tried("import socket; socket.socket(socket.AF_NETLINK, 3)"),
        "datagrams": tried("import socket; socket.socketpair(type=socket.SOCK_DGRAM)"),
        "http": tried("import urllib.request as u; u.urlopen('http://127.0.0.1:1', timeout=1)"),
    }
}

TEXTS = {
    INVALID: {
        "nothing at all": "",
        "no Python": "I cannot do that.",
        "NUL": "def add(a, b):\n    return a + b\0",
        "indentation": "".join(" " * i + "if 1:\n" for i in range(200)),
        "a coding": "# coding: rot13\nqrs nqq(n, o): erghea n + o",
    },
    FAILED: {
        "half of a pair": "x = '\ud800'\ndef add(a, b): return x",
        "a long line": "x = 1" + "+1" * 500_000,
        "a constant": "x = 1 << (1 << 40)\ndef add(a, b): return x",
    },
    f"{INVALID} {OVER}": {"parentheses": "(" * 100_000, "minuses": "x = " + "-" * 100_000 + "1"},
}


SCRIPTS = {
    WRONG: {
        "prints nothing": "pass",
        "prints and fails": "print(5)\n1 / 0",
        "prints and exits with 1": "print(5)\nexit(1)",
        "prints and crashes": "print(5, flush=True)\nimport ctypes\nctypes.string_at(0)",
        "all that could be right": "for i in range(100): print(i)",
        "a not-number": "print('nan')",
        "the right one in words": "print('5 apples')",
        "reads on": "input(); input(); print(5)",
    },
    f"{OVER} {LATE}": {"prints too much": "while True: print('x' * 10 ** 6)"},
    LATE: {
        "complains too much": "import sys\nwhile True: sys.stderr.write('x' * 10 ** 6)",
        "prints and goes on": "print(5, flush=True)\nwhile True: pass",
        "closes and goes on": "import os\nprint(5, flush=True)\nos.close(1)\nwhile True: pass",
        "a thread goes on": (
            "import threading\ndef f():\n    while True: pass\n"
            "threading.Thread(target=f).start()\nprint(5)"
        ),
    },
    f"{INVALID} {WRONG}": {"exit 97": "print(5)\nimport os\nos._exit(97)"},
}

# Scripts that do something odd and are right.
HARMLESS = {
    RIGHT: {
        "an exit handler": (
            "import atexit\natexit.register(lambda: print(sum(map(int, input().split()))))"
        ),
        "a daemon goes on": (
            "import threading\ndef f():\n    while True: pass\n"
            "threading.Thread(target=f, daemon=True).start()\nprint(5)"
        ),
        "sys.exit": "import sys\nprint(5.0)\nsys.exit()",
        "raw output": "import os\nos.write(1, b'5')\nos._exit(0)",
        "a big stack": (
            "import threading\nthreading.stack_size(1 << 27)\n"
            "t = threading.Thread(target=lambda: print(sum(map(int, input().split()))))\n"
            "t.start()\nt.join()"
        ),
        "a file of its own": "open('x', 'w').write('5')\nprint(open('x').read())",
        "an event loop": (
            "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\n"
            "print(asyncio.run(f()))"
        ),
    }
}

FORGED, RESOURCES, PROCESSES, FILES = map(by_name, (FORGED, RESOURCES, PROCESSES, FILES))
NETWORK, TEXTS, SCRIPTS, HARMLESS = map(by_name, (NETWORK, TEXTS, SCRIPTS, HARMLESS))
FUNCTIONS = {**FORGED, **RESOURCES, **PROCESSES, **FILES, **NETWORK, **TEXTS}
