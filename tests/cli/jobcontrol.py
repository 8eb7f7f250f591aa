"""Run a command as a job of a terminal, as a shell does: `jobcontrol.py COMMAND...`.

Whenever the job stops or ends, a line says so, and whether the terminal is as it was before; a stopped job goes on.
"""

import os
import signal
import sys
import termios


def take_terminal(group: int) -> None:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, group)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def say(what: str) -> None:
    same = "as before" if termios.tcgetattr(0) == BEFORE else "changed"
    sys.stdout.write(f"job {what}, terminal {same}\n")
    sys.stdout.flush()


BEFORE = termios.tcgetattr(0)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    take_terminal(os.getpgrp())
    os.execv(sys.argv[1], sys.argv[1:])
while os.WIFSTOPPED(status := os.waitpid(job, os.WUNTRACED)[1]):
    take_terminal(os.getpgrp())
    say("stopped")
    take_terminal(job)
    os.kill(job, signal.SIGCONT)
take_terminal(os.getpgrp())
say(f"ended with {os.waitstatus_to_exitcode(status)}")
