"Work that is killed at any instant: it is forked off a process that has loaded everything already."

import subprocess, time

HATCH = """
import os, signal, sys, time, traceback
{code}
print("ready", flush=True)
for line in sys.stdin:
    delay, *args = line.rstrip("\\n").split("\\t")
    pid = os.fork()
    if not pid:
        try:
            work(*args)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if delay:
        time.sleep(float(delay))
        os.kill(pid, signal.SIGKILL)
    print(os.waitpid(pid, 0)[1], flush=True)
"""


class Hatchery:
    "A process that does `work`, a function of texts that its code defines, again and again."

    def __init__(self, spawn, code: str):
        self.process: subprocess.Popen = spawn(HATCH.format(code=code))
        self.heard("ready\n")

    def heard(self, *lines: str) -> str:
        line = self.process.stdout.readline()
        assert line in lines, (line, self.process.communicate())
        return line

    def work(self, *args: object, kill_after: float | None = None) -> bool:
        "Work, and kill that after so many seconds; whether it came to its end."
        delay = "" if kill_after is None else kill_after
        print(delay, *args, sep="\t", file=self.process.stdin, flush=True)
        return self.heard("0\n", "9\n") == "0\n"

    def seconds(self, *args: object) -> float:
        "Work to the end, and how long that took."
        begun = time.monotonic()
        assert self.work(*args)
        return time.monotonic() - begun
