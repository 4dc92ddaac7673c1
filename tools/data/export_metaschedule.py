#!/usr/bin/env python3
"""Writes the programs of MetaSchedule's databases with their run times: JSON lines for `foretime data pack-tir` and `finetune`.

  tools/data/export_metaschedule.py DATABASE ... -o OUT.jsonl.gz  folders with database_workload.json and database_tuning_record.json

A database holds each workload's module once, and of each measured program the trace of its schedule; the program is what the trace makes
of the module. TVM itself replays the traces here, so that every instruction and post-processing step of its version is known. A record
that it cannot replay is left out and told. Measurements that failed are kept as such. Runs with a TVM of the names of that which wrote
the database: 0.10 to 0.20, 0.21 to 0.23, or 0.24 on (foretime.tvm_names, foretime.tir_program).
"""
import argparse
import collections
import gzip
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

try:
    from foretime.meta_schedule_programs import RECORDS, WORKLOADS, read_database
    from foretime.tvm_names import find_names

    NAMES = find_names()
except ImportError as error:
    sys.exit(f"export_metaschedule.py: needs a Python with TVM and MetaSchedule, 0.10 or later: {error}")


def programs_of(folder, left_out):
    """The lines of a database's programs; places of what is left out, by why, go to `left_out`."""
    try:
        for program in read_database(NAMES, folder):
            if program.text is None:
                left_out[program.failure].append(program.place)
            else:
                yield program.line(), program.seconds is None
    except ValueError as error:
        sys.exit(f"export_metaschedule.py: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", "--output", required=True, help="file to write, .jsonl or .jsonl.gz")
    parser.add_argument("--force", action="store_true", help="replace the file of --output if it exists")
    parser.add_argument("databases", nargs="+", help="folders of databases (work_dir of a tuning)")
    arguments = parser.parse_args()
    if not arguments.force and os.path.exists(arguments.output) and os.path.getsize(arguments.output):
        sys.exit(f"export_metaschedule.py: {arguments.output}: exists; name another file, or replace it with --force")
    for folder in map(pathlib.Path, arguments.databases):
        for name in (WORKLOADS, RECORDS):
            if not (folder / name).is_file():
                sys.exit(
                    f"export_metaschedule.py: {folder / name}: no such file; a database is a folder with both of them (work_dir of a tuning)"
                )
    left_out, written, failed = collections.defaultdict(list), 0, 0
    unfinished = arguments.output + ".part"
    with (gzip.open if arguments.output.endswith(".gz") else open)(unfinished, "wt", encoding="utf-8") as out:
        for folder in arguments.databases:
            for line, has_failed in programs_of(folder, left_out):
                out.write(line + "\n")
                written, failed = written + 1, failed + has_failed
    if written:
        os.replace(unfinished, arguments.output)
        print(f"{arguments.output}: {written} programs, {failed} of which failed, TVM {NAMES.version}")
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
