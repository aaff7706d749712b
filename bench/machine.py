"""What the machine is that figures were measured on."""

import glob
import os
import platform
import shutil
import subprocess


def memory_mb():
    with open("/proc/meminfo", encoding="ascii") as lines:
        return int(next(line.split()[1] for line in lines if line.startswith("MemTotal"))) // 1024


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def word(path):
    """What a file of the system says; nothing where there is none."""
    try:
        with open(path, encoding="utf-8") as content:
            return content.read().strip()
    except OSError:
        return ""


def caches():
    """The first processor's caches, such as `L1d 32K`."""
    found = []
    for cache in sorted(glob.glob("/sys/devices/system/cpu/cpu0/cache/index*")):
        level, kind, size = (word(f"{cache}/{name}") for name in ("level", "type", "size"))
        if size and kind != "Instruction":
            found.append(f"L{level}{'d' if kind == 'Data' else ''} {size}")
    return found


def huge_pages():
    """When the system gives huge pages to memory that did not ask for them: always, madvise or never."""
    choices = word("/sys/kernel/mm/transparent_hugepage/enabled")
    return choices.partition("[")[2].partition("]")[0]


def compiler():
    if not shutil.which("rustc"):
        return ""
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False).stdout.strip()


def machine():
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "caches": caches(),
        "memory_mb": memory_mb(),
        "huge_pages": huge_pages(),
        "kernel": platform.release(),
        "compiler": compiler(),
    }
