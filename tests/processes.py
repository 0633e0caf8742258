"""Child processes, which may end at any moment."""

import psutil


def command_line(process):
    """Return the command line of a process, or nothing if it has ended."""
    try:
        return " ".join(process.cmdline()) if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.NoSuchProcess:
        return ""


def is_alive(pid):
    """Tell whether a process has not ended. A zombie has."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
