"""Stands in for the agent: gives the answers it was given, and keeps a record of its orders.

`MPTUNE_FAKE_ANSWERS` is a file with answers by action; `MPTUNE_FAKE_HEARD` gets the orders.
"""

import json
import os
import sys
from pathlib import Path

answers = json.loads(Path(os.environ["MPTUNE_FAKE_ANSWERS"]).read_text())
for line in sys.stdin:
    order = json.loads(line)
    with Path(os.environ["MPTUNE_FAKE_HEARD"]).open("a") as heard:
        heard.write(json.dumps([sys.argv[1], order]) + "\n")
    sys.stdout.write(json.dumps(answers[order["action"]]) + "\n")
    sys.stdout.flush()
