#!/usr/bin/env python3
"""Writes the programs of MetaSchedule's databases as save_json text, with their run times: JSON lines for `foretime data pack-tir`.

  tools/data/export_metaschedule.py DATABASE ... -o OUT.jsonl.gz  folders with database_workload.json and database_tuning_record.json

A database holds each workload's module once, and of each measured program the trace of its schedule; the program is what the trace makes
of the module. TVM itself replays the traces here, so that every instruction and post-processing step of its version is known. A record
that it cannot replay is left out and told. Measurements that failed are kept as such. Runs with the TVM that wrote the database, 0.10 to
0.20 (later ones write programs in another form); was run with 0.14, and is tested with a stand-in for TVM.
"""
import argparse
import collections
import gzip
import json
import math
import os
import pathlib
import sys

try:
    import tvm
    from tvm import tir
    from tvm.ir import save_json
    from tvm.meta_schedule.database import TuningRecord, Workload
except ImportError as error:
    sys.exit(f"export_metaschedule.py: needs a Python with TVM (0.10 to 0.20): {error}")

NEWEST = (0, 20)
FAILED = 1e10  # seconds that TVM writes for a measurement that failed


def program_text(module):
    """save_json text of a module's PrimFunc; of the module where it has several functions."""
    functions = [function for _, function in module.functions.items() if isinstance(function, tir.PrimFunc)]
    return save_json(functions[0] if len(functions) == 1 else module)


def outcome(seconds):
    """What a record says of its run times; None where it was not measured."""
    if seconds is None:
        return None
    values = [float(value) for value in seconds]
    known = [value for value in values if math.isfinite(value) and 0 < value < FAILED]
    return {"runtime": sum(known) / len(known)} if known else {"failed": True}


def lines_of(path):
    """(line from 1, its JSON)"""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    sys.exit(f"export_metaschedule.py: {path}:{number}: no JSON: {error}")


def programs_of(folder, left_out):
    """The programs of a database as JSON objects; what is left out, and why, goes to `left_out`."""
    folder = pathlib.Path(folder)
    workloads = []
    for number, content in lines_of(folder / "database_workload.json"):
        try:
            workloads.append((Workload.from_json(content), content[0]))
        except Exception as error:  # pylint: disable=broad-except
            why = (str(error).strip().splitlines() or [repr(error)])[-1][:200]
            sys.exit(
                f"export_metaschedule.py: {folder / 'database_workload.json'}:{number}: no workload that this TVM reads: {why}"
            )
    records = folder / "database_tuning_record.json"
    for number, (index, content) in lines_of(records):
        try:
            workload, key = workloads[int(index)]
            record = TuningRecord.from_json(content, workload)
            measured = outcome(content[1])
            if measured is None:
                raise ValueError("it was not measured")
            schedule = tir.Schedule(workload.mod)
            record.trace.apply_to_schedule(schedule, remove_postproc=False)
            text = program_text(schedule.mod)
        except Exception as error:  # pylint: disable=broad-except
            left_out[(str(error).strip().splitlines() or [repr(error)])[-1][:200]].append(f"{records}:{number}")
            continue
        yield {"workload": key, "id": f"{folder.name}:{number - 1}", **measured, "program": text}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", "--output", required=True, help="file to write, .jsonl or .jsonl.gz")
    parser.add_argument("--force", action="store_true", help="replace the file of --output if it exists")
    parser.add_argument("databases", nargs="+", help="folders of databases (work_dir of a tuning)")
    arguments = parser.parse_args()
    if tuple(int(part) for part in tvm.__version__.split(".")[:2]) > NEWEST:
        sys.exit(
            f"export_metaschedule.py: TVM {tvm.__version__} writes programs in another form, expected 0.10 to 0.20"
        )
    if not arguments.force and os.path.exists(arguments.output) and os.path.getsize(arguments.output):
        sys.exit(f"export_metaschedule.py: {arguments.output}: exists; name another file, or replace it with --force")
    for folder in map(pathlib.Path, arguments.databases):
        for name in ("database_workload.json", "database_tuning_record.json"):
            if not (folder / name).is_file():
                sys.exit(
                    f"export_metaschedule.py: {folder / name}: no such file; a database is a folder with both of them (work_dir of a tuning)"
                )
    left_out, written, failed = collections.defaultdict(list), 0, 0
    unfinished = arguments.output + ".part"
    with (gzip.open if arguments.output.endswith(".gz") else open)(unfinished, "wt", encoding="utf-8") as out:
        for folder in arguments.databases:
            for program in programs_of(folder, left_out):
                out.write(json.dumps(program) + "\n")
                written, failed = written + 1, failed + ("failed" in program)
    if written:
        os.replace(unfinished, arguments.output)
        print(f"{arguments.output}: {written} programs, {failed} of which failed, TVM {tvm.__version__}")
    else:
        os.remove(unfinished)
        print(
            f"export_metaschedule.py: no program in {', '.join(arguments.databases)}; {arguments.output} is not written",
            file=sys.stderr,
        )
    total = sum(map(len, left_out.values()))
    if total:
        share = 100 * total / (total + written)
        print(
            f"export_metaschedule.py: {total} of {total + written} records ({share:.1f} %) left out:", file=sys.stderr
        )
        for why, places in sorted(left_out.items(), key=lambda item: -len(item[1])):
            print(f"  {len(places)}, the first {places[0]}: {why}", file=sys.stderr)
    return 0 if written else 3


if __name__ == "__main__":
    sys.exit(main())
