#!/usr/bin/env python3
"""The tasks that tuner_search.py searches, and the machine that it searches for.

  tools/tuner/tuner_tasks.py     of each task, whether the shipped model has learned from a workload that computes the same (needs TVM)
"""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE / "measure"))

from tasks import searched_tasks  # noqa: E402


def tensor(name, *shape):
    """An input of a program."""
    from tvm import te

    return te.placeholder(shape, name=name)  # TVM's word


def conv2d():
    from tvm import topi

    data, kernel = tensor("data", 1, 28, 28, 96), tensor("kernel", 3, 3, 96, 128)
    bias = tensor("bias", 1, 1, 1, 128)
    out = topi.nn.conv2d_nhwc(data, kernel, stride=1, padding=1, dilation=1, out_dtype="float32")
    return [data, kernel, bias, topi.nn.relu(topi.add(out, bias))]


def conv2d_strided():
    from tvm import topi

    data, kernel = tensor("data", 1, 48, 60, 60), tensor("kernel", 64, 48, 5, 5)
    return [data, kernel, topi.nn.conv2d_nchw(data, kernel, stride=2, padding=2, dilation=1, out_dtype="float32")]


def depthwise_conv2d():
    from tvm import topi

    data, kernel = tensor("data", 1, 56, 56, 144), tensor("kernel", 5, 5, 144, 1)
    return [data, kernel, topi.nn.relu(topi.nn.depthwise_conv2d_nhwc(data, kernel, stride=1, padding=2, dilation=1))]


def dense():
    from tvm import topi

    data, weight = tensor("data", 64, 768), tensor("weight", 1024, 768)
    bias = tensor("bias", 1024)
    return [data, weight, bias, topi.nn.relu(topi.nn.dense(data, weight, bias))]


def batch_matmul():
    from tvm import topi

    left, right = tensor("left", 16, 96, 128), tensor("right", 16, 160, 128)
    return [left, right, topi.nn.batch_matmul(left, right)]


def softmax():
    from tvm import topi

    data = tensor("data", 1024, 1000)
    return [data, topi.nn.softmax(data, axis=1)]


def max_pool():
    from tvm import topi

    data = tensor("data", 1, 96, 71, 71)
    return [data, topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (0, 0, 0, 0), pool_type="max", layout="NCHW")]


def avg_pool():
    from tvm import topi

    data = tensor("data", 1, 64, 64, 96)
    return [data, topi.nn.pool2d(data, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), pool_type="avg", layout="NHWC")]


TASKS = {
    function.__name__: function
    for function in (conv2d, conv2d_strided, depthwise_conv2d, dense, batch_matmul, softmax, max_pool, avg_pool)
}
DRAWN = searched_tasks()  # of networks that no training has seen


# The first LLVM that knows a processor. An older one takes any name that it does not know for a processor of the year 2003.
FIRST_LLVM = {
    "znver3": 12,
    "sapphirerapids": 12,
    "alderlake": 12,
    "znver4": 16,
    "graniterapids": 16,
    "emeraldrapids": 16,
    "znver5": 19,
}
# Of a CPU.
NO_LIMITS = {
    name: 0
    for name in (
        "max_shared_memory_per_block",
        "max_local_memory_per_block",
        "max_threads_per_block",
        "max_vthread_extent",
        "warp_size",
    )
}


def host_target(llvm):
    """LLVM for this machine's vectors, with a name that this version of it knows."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
        flags = set(text.split("flags", 1)[1].split("\n", 1)[0].split())
    except (OSError, IndexError):
        return "llvm"
    flags.add("amd" if "AuthenticAMD" in text and llvm >= FIRST_LLVM["znver4"] else "")
    for needed, cpu in (
        ({"amd", "avx512f", "avx512_bf16", "avx512_vnni", "avx512_vbmi2"}, "znver4"),
        ({"avx512f", "avx512bw", "avx512vl", "avx512dq"}, "skylake-avx512"),
        ({"avx2", "fma"}, "core-avx2"),
    ):
        if needed <= flags:
            return "llvm -mcpu=" + cpu
    return "llvm"


def vector_bytes(target):
    return 64 if "avx512" in target or "znver4" in target else 32 if "avx2" in target else 16


def installed_llvm():
    import tvm

    return tvm.target.codegen.llvm_version_major()


def check_target(target):
    """Ends the program where TVM's LLVM is older than a processor that FIRST_LLVM has."""
    llvm = installed_llvm()
    for cpu, first in FIRST_LLVM.items():
        if f"-mcpu={cpu}" in target.split() and llvm < first:
            sys.exit(
                f"--target {target}: {cpu} needs LLVM {first}, TVM has {llvm}; on this machine: {host_target(llvm)}"
            )


def search_task(tensors, target, **options):
    """A task of auto_scheduler for one core; options: those of SearchTask, and limits of GPUs."""
    from tvm import auto_scheduler
    from tvm.auto_scheduler.workload_registry import register_workload_tensors

    dag = auto_scheduler.ComputeDAG(tensors)
    key = register_workload_tensors(dag.workload_key(), tensors)
    limits = {name: options.pop(name, limit) for name, limit in NO_LIMITS.items()}
    hardware = auto_scheduler.HardwareParams(
        num_cores=1, vector_unit_bytes=vector_bytes(str(target)), cache_line_bytes=64, **limits
    )
    return auto_scheduler.SearchTask(
        compute_dag=dag, workload_key=key, target=target, hardware_params=hardware, **options
    )


def make_task(name, target):
    """The task of TASKS or DRAWN with this name."""
    import tvm

    check_target(target)
    target = tvm.target.Target(target)
    if name not in DRAWN:
        return search_task(TASKS[name](), target)
    from operators import OPERATORS

    with target:
        return search_task(OPERATORS[DRAWN[name]["operator"]](**DRAWN[name]["arguments"]), target)


def main():
    root = HERE.parent
    sys.path.insert(0, str(root / "python"))
    from foretime.compute_dag import compute_dag
    from workloads import computation, computations

    known = set(
        computations(*root.glob("samples/ansor/dags.jsonl.gz"), *root.glob("measured/*/dags.jsonl.gz")).values()
    )
    for name in [*DRAWN, *TASKS]:
        task = make_task(name, "llvm")
        print(name, "learned from" if computation(compute_dag(task.compute_dag, task.workload_key)) in known else "new")


if __name__ == "__main__":
    main()
