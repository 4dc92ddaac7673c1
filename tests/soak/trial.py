#!/usr/bin/python3 -ES
"""Stands in for `foretime train` in the tests of the queue: speaks its progress protocol, writes its checkpoints, and does what its seed asks for.

  seed % 100   0..79   succeeds          80..87   exits with 2 (settings)      88..93   crashes in every attempt
               94..99  crashes in the first attempt
  seed >= 1000000      sleeps TRIAL_SLOW seconds in the first attempt, less afterwards
"""
import errno
import json
import os
import pathlib
import re
import select
import socket
import sys


def main():
    config = pathlib.Path(sys.argv[-1])
    text = config.read_text()
    seed = int(re.search(r"^ *seed: *(\d+)", text, re.M).group(1))
    steps = int(re.search(r"^ *steps: *(\d+)", text, re.M).group(1))
    resume = re.search(r"^ *resume: *\"?([^\"\n]+)", text, re.M).group(1)
    attempt = int(config.parent.name.split("-")[1])  # attempt-3, or attempt-3-TOKEN
    witness = pathlib.Path(os.environ.get("TRIAL_WITNESS", "."))
    first = int(resume.rpartition("step-")[2]) if "step-" in resume else 0
    # One line an attempt, written in one piece: who ran, from which step, for which seed.
    with open(witness / str(seed), "a") as file:
        file.write(
            json.dumps(
                {
                    "attempt": attempt,
                    "from": first,
                    "pid": os.getpid(),
                    "clean": not any(k.startswith("FORETIME_REDIS") for k in os.environ),
                }
            )
            + "\n"
        )

    channel = socket.socket(socket.AF_UNIX)
    channel.connect(os.environ["FORETIME_PROGRESS"])

    def send(**message):
        channel.sendall((json.dumps(message) + "\n").encode())

    send(type="hello", pid=os.getpid())
    kind = seed % 100 if seed < 1000000 else 0
    if 80 <= kind <= 87:
        print("settings: this seed is refused", flush=True)
        sys.exit(2)
    pause = 0.02
    if seed >= 1000000:
        pause = float(os.environ.get("TRIAL_SLOW" if attempt == 1 else "TRIAL_QUICK", "0.1")) / steps
    value = 100.0
    for step in range(first + 1, steps + 1):
        # Not time.sleep, which fails under libfaketime.
        asked = select.select([channel], [], [], pause)[0] and b"stop" in channel.recv(4096)
        value = (seed % 97) + 20.0 / step
        send(type="progress", step=step, total_steps=steps, loss=value, eta_seconds=(steps - step) * pause)
        print(f"step {step} of {steps}", flush=True)
        if step % 5 == 0:
            send(type="evaluation", step=step, iteration=step // 5, metrics={"holdout/mae": value})
            folder = config.parent / "checkpoints" / f"step-{step:08}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "manifest.json").write_text(json.dumps({"step": step}))
            send(type="checkpoint", step=step, path=str(folder))
        if step == 7 and (88 <= kind <= 93 or (kind >= 94 and attempt == 1)):
            os.abort()
        if asked:
            sys.exit(75)
    send(type="result", step=steps, metrics={"holdout/mae": value})


try:
    main()
except OSError as error:
    print(f"trial: {error}", flush=True)
    sys.exit(74 if error.errno in (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT, errno.ESTALE) else 1)
