"""`ssh` to a host far away: another program's standard input and output, delayed.

Not a benchmark. Bytes in either direction arrive half a round trip later; logging in takes no longer.

    python -m benchmarks.systems._slow_ssh RTT_MS PROGRAM ARGUMENT...
"""

import os
import queue
import subprocess
import sys
import threading
import time


def carry(source: int, sink: int, delay_s: float) -> None:
    """Pass on what comes, and the end, each this much later."""
    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def read() -> None:
        while chunk := os.read(source, 1 << 16):
            waiting.put((time.monotonic() + delay_s, chunk))
        waiting.put((time.monotonic() + delay_s, b""))

    threading.Thread(target=read, daemon=True).start()
    while True:
        due, chunk = waiting.get()
        threading.Event().wait(max(0.0, due - time.monotonic()))
        rest = memoryview(chunk)
        try:
            while rest:
                rest = rest[os.write(sink, rest) :]
        except BrokenPipeError:
            return
        if not chunk:
            os.close(sink)
            return


def main() -> int:
    """Run the program."""
    delay_s = float(sys.argv[1]) / 2000
    pipe = subprocess.PIPE
    with subprocess.Popen(sys.argv[2:], stdin=pipe, stdout=pipe, bufsize=0) as program:
        assert program.stdin is not None and program.stdout is not None
        there = (0, os.dup(program.stdin.fileno()), delay_s)
        program.stdin.close()
        threading.Thread(target=carry, args=there, daemon=True).start()
        carry(program.stdout.fileno(), 1, delay_s)
        return program.wait()


if __name__ == "__main__":
    sys.exit(main())
