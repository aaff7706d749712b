"""A private PostgreSQL cluster, and a session to time statements in."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import psycopg2
from psycopg2.extensions import set_wait_callback
from psycopg2.extras import wait_select

# So that signals are seen to while a statement runs.
set_wait_callback(wait_select)

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
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    try:
        sys.exit(main())
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

    def start(self, name, *arguments, **how):
        """One of PostgreSQL's programs at work, as `program` has it; what it prints is to be read from its pipe."""
        return subprocess.Popen(self.program(name, *arguments, **how), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, cwd="/")

    def session(self, **settings):
        """A new session with these settings."""
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
    """One connection: one backend, whose caches stay warm from statement to statement."""

    def __init__(self, server, settings):
        self.server = server
        with self._told("connecting"):
            self.connection = psycopg2.connect(host=server.directory, user=OWNER, dbname="postgres",
                                               options="-c client_min_messages=warning")
        self.connection.autocommit = True
        self.set(**settings)

    def close(self):
        """Ends the session, or what is left of it."""
        self.connection.close()

    def set(self, **settings):
        """Replaces the session's settings by these."""
        self.query("RESET ALL")
        for name, value in settings.items():
            self.query(f"SET {name} = '{value}'")

    def query(self, statement):
        """The rows of the statement's answer, if it has one."""
        cursor, _ = self._run(statement)
        return cursor.fetchall() if cursor.description else []

    def value(self, statement):
        """The first value of the answer's first row; None if there is no row."""
        rows = self.query(statement)
        return rows[0][0] if rows else None

    def time(self, statement):
        """How many milliseconds the statement took."""
        return self._run(statement)[1]

    def explain(self, statement, *options):
        """The statement's plan nodes, outermost first."""
        options = ", ".join((*options, "FORMAT JSON"))
        nodes = [self.value(f"EXPLAIN ({options}) {statement}")[0]["Plan"]]
        for node in nodes:
            nodes += node.get("Plans", [])
        return nodes

    def _run(self, statement):
        """(a cursor that has the answer, the milliseconds until it was here)."""
        cursor = self.connection.cursor()
        with self._told(statement):
            started = time.perf_counter()
            cursor.execute(statement)
            return cursor, (time.perf_counter() - started) * 1000

    @contextlib.contextmanager
    def _told(self, what):
        """Makes a Failure of what PostgreSQL says against it."""
        try:
            yield
        except psycopg2.Error as error:
            raise Failure(f"{what} failed:\n{error}{self.server._log_tail()}") from error
