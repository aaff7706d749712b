"""A private PostgreSQL cluster, and a psql session to time statements in."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile

OWNER = "postgres"
DROP_CACHES = "/proc/sys/vm/drop_caches"


class Failure(Exception):
    """Something the user has to know about; printed without a traceback."""


def as_owner(command):
    """The command, run as a user PostgreSQL accepts: it refuses to run as root."""
    if os.geteuid() == 0:
        return ["runuser", "-u", OWNER, "--", *command]
    return list(command)


def can_forget():
    """Whether this user may empty the system's cache of files."""
    return os.access(DROP_CACHES, os.W_OK)


def forget():
    """Empties the system's cache of files, which takes their being on the disk."""
    os.sync()
    with open(DROP_CACHES, "w", encoding="ascii") as caches:
        caches.write("3")


def run_main(main):
    """Runs main() so that SIGTERM and Ctrl-C unwind (and so clean up) and a Failure is one line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except Failure as failure:
        sys.exit(f"error: {failure}")


class Server:
    """A cluster in a temporary directory, reachable through a socket there only; gone with the `with` block."""

    def __init__(self, pg_config="pg_config", settings=None):
        bindir = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=True)
        self.bindir = bindir.stdout.strip()
        self.settings = settings or {}

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="fpbtree-")
        try:
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def program(self, name, *arguments, preload="", settings=None):
        """A command line for one of PostgreSQL's programs, as the cluster's owner, its sessions with these settings."""
        preload = [f"LD_PRELOAD={preload}"] if preload else []
        settings = {"client_min_messages": "warning", **(settings or {})}
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        return as_owner(["env", "-u", "RUST_BACKTRACE", "LC_ALL=C.UTF-8", f"PGHOST={self.directory}",
                         "PGDATABASE=postgres", f"PGUSER={OWNER}", f"PGOPTIONS={options}",
                         *preload, f"{self.bindir}/{name}", *arguments])

    def run(self, name, *arguments, **how):
        """Runs one of PostgreSQL's programs, as `program` has it, and returns what it printed."""
        done = subprocess.run(self.program(name, *arguments, **how), capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            raise Failure(f"{name} failed:\n{done.stdout}{done.stderr}{self._log_tail()}")
        return done.stdout

    def session(self, **settings):
        """A new psql session with these settings."""
        return Session(self, settings)

    def restart(self, cold=True, preload=""):
        """Restarts the server, whose sessions must be closed; cold means that the system's cache is emptied, too."""
        self._pg_ctl("-m", "fast", "stop")
        if cold:
            forget()
        self._pg_ctl("start", preload=preload)

    def crash(self):
        """Stops the server, whose sessions must be closed, as a crash would, and starts it again."""
        self._pg_ctl("-m", "immediate", "stop")
        self._pg_ctl("start")

    def log(self):
        """What the server has logged."""
        with open(os.path.join(self.directory, "log"), encoding="utf-8") as log:
            return log.read()

    def script(self, name, lines, end=";\n"):
        """Writes a file that PostgreSQL may read, of statements or other lines; returns its path."""
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(f"{line}{end}" for line in lines)
        os.chmod(path, 0o644)
        return path

    def compile(self, source):
        """Compiles a C file to a library that a server can preload; returns its path."""
        library = os.path.join(self.directory, os.path.basename(source).replace(".c", ".so"))
        done = subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"cannot compile {source}:\n{done.stderr}")
        return library

    def _pg_ctl(self, *arguments, preload=""):
        self.run("pg_ctl", "-D", self.data, "-l", os.path.join(self.directory, "log"), "-w", "-t", "600", *arguments,
                 preload=preload)

    def _start(self):
        if os.geteuid() == 0:
            owner = pwd.getpwnam(OWNER)
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
        self.data = os.path.join(self.directory, "data")
        self.run("initdb", "-D", self.data, "-U", OWNER, "-A", "trust", "--no-sync")
        settings = {"listen_addresses": "", "unix_socket_directories": self.directory, **self.settings}
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as conf:
            conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        self._pg_ctl("start")

    def _remove(self):
        if os.path.exists(os.path.join(self.directory, "data", "postmaster.pid")):
            subprocess.run(self.program("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop"),
                           stdout=subprocess.DEVNULL, cwd="/", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _log_tail(self):
        log = os.path.join(self.directory, "log")
        if not os.path.exists(log):
            return ""
        with open(log, encoding="utf-8", errors="replace") as lines:
            return "".join(lines.readlines()[-20:])


class Session:
    """One psql process: one backend, whose caches stay warm from statement to statement."""

    END = "end-of-answer"

    def __init__(self, server, settings):
        self.server = server
        self.psql = subprocess.Popen(server.program("psql", "-XqAt", "-v", "ON_ERROR_STOP=1"), text=True, cwd="/",
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._ask(r"\timing on")
        self.set(**settings)

    def close(self):
        """Ends the session, or what is left of it."""
        with contextlib.suppress(BrokenPipeError):
            self.psql.stdin.close()
        self.psql.wait()

    def set(self, **settings):
        """Replaces the session's settings by these."""
        self.query("RESET ALL")
        for name, value in settings.items():
            self.query(f"SET {name} = '{value}'")

    def query(self, statement):
        """The statement's answer, as text."""
        return self._ask(statement + ";")[0]

    def time(self, statement):
        """How many milliseconds the statement took."""
        return self._ask(statement + ";")[1]

    def explain(self, statement, *options):
        """The statement's plan nodes, outermost first."""
        options = ", ".join((*options, "FORMAT JSON"))
        pending = [json.loads(self.query(f"EXPLAIN ({options}) {statement}"))[0]["Plan"]]
        nodes = []
        while pending:
            nodes.append(pending.pop())
            pending.extend(reversed(nodes[-1].get("Plans", [])))
        return nodes

    def _ask(self, line):
        self.psql.stdin.write(f"{line}\n\\echo {self.END}\n")
        self.psql.stdin.flush()
        answer, milliseconds = [], 0.0
        for reply in self.psql.stdout:
            reply = reply.rstrip("\n")
            if reply == self.END:
                return "\n".join(answer), milliseconds
            if reply.startswith("Time: "):
                milliseconds = float(reply.split()[1])
            else:
                answer.append(reply)
        raise Failure("\n".join(["psql gave up on", line, *answer, self.server._log_tail()]))
