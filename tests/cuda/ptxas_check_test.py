"""ptxas_check.py passes on a good build and finds each planted fault."""

import os
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parent / "ptxas_check.py"
NORM, GEMV8 = "_ZN6banter4cuda4normENS0_8NormArgsE", "_ZN6banter4cuda4gemvILi8EEEvNS0_8GemvArgsE"
TABLE = "# Made by this test with nvcc 13.0.\nnorm 32 0 0\ngemv<*> 64 16 1024\n"


def kernel(name, card="sm_75", registers=32, stack=0, stores=0, loads=0, shared=0):
    smem = f", {shared} bytes smem" if shared else ""
    return (f"ptxas info    : Compiling entry function '{name}' for '{card}'\n"
            f"ptxas info    : Function properties for {name}\n"
            f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 1 barriers{smem}, 400 bytes cmem[0]\n")


GOOD = {"row.cu.o": "", "row.cu.o.ptxas": "ptxas info    : 0 bytes gmem\n" + kernel(NORM) + kernel(NORM, "sm_120", 30),
        "gemv.cu.o": "", "gemv.cu.o.ptxas": kernel(GEMV8, registers=64, stack=16, shared=1024) + kernel(GEMV8.replace("Li8", "Li1"), registers=40)}
# What differs from the good build, what must be said (None: it must pass), further arguments.
CASES = [
    ("a good build", {}, None, []),
    ("a register more", {"row.cu.o.ptxas": kernel(NORM, "sm_120", registers=33)}, "(sm_120): registers 33, the table allows 32", []),
    ("another nvcc's registers", {"row.cu.o.ptxas": kernel(NORM, registers=99)}, None, ["--nvcc", "12.4.1"]),
    ("another nvcc's spills", {"row.cu.o.ptxas": kernel(NORM, stores=4)}, "spills 4 bytes", ["--nvcc", "12.4.1"]),
    ("spill stores", {"row.cu.o.ptxas": kernel(NORM, stores=8)}, "spills 8 bytes", []),
    ("spill loads", {"row.cu.o.ptxas": kernel(NORM, loads=8)}, "spills 8 bytes", []),
    ("a stack", {"row.cu.o.ptxas": kernel(NORM, stack=8)}, "stack 8, the table allows 0", []),
    ("shared memory", {"row.cu.o.ptxas": kernel(NORM, shared=1)}, "shared 1, the table allows 0", []),
    ("an instance of a template", {"gemv.cu.o.ptxas": kernel(GEMV8, registers=65)}, "registers 65, the table allows 64", []),
    ("an unknown kernel", {"row.cu.o.ptxas": kernel(NORM) + kernel(NORM.replace("4norm", "4silu"))}, "silu: not in the table", []),
    ("a kernel that is gone", {"kernels.ptxas": TABLE + "silu 9 0 0\n"}, "silu: in the table, but no such kernel", []),
    ("a table of no version", {"kernels.ptxas": TABLE.replace(" 13.0.", " .")}, "does not say which nvcc it was made with", []),
    ("a line twice", {"kernels.ptxas": TABLE + "norm 99 0 0\n"}, "kernels.ptxas:4: each line", []),
    ("no report", {"new.cu.o": ""}, "new.cu.o: no report of this object", []),
    ("an empty report", {"row.cu.o.ptxas": "\n"}, "row.cu.o.ptxas: says nothing of ptxas", []),
    ("an entry without figures", {"row.cu.o.ptxas": kernel(NORM) + kernel(NORM).splitlines(keepends=True)[0]}, "words that this script does not know", []),
    ("a file of host code", {"host.cu.o": "", "host.cu.o.ptxas": "ptxas info    : 0 bytes gmem\n"}, None, []),
    ("no table", {"kernels.ptxas": None}, "is not there; make it with --write", []),
    ("no build", {name: None for name in GOOD}, "no object of a .cu file is there", []),
]


def run(files, arguments):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {"kernels.ptxas": TABLE, **GOOD, **files}.items():
            if text is not None:
                (root / name).write_text(text)
        if "old" in arguments:
            os.utime(root / "row.cu.o.ptxas", (0, 0))
            arguments = []
        command = [sys.executable, "-B", str(CHECK), "--objects", folder, "--table", str(root / "kernels.ptxas"), *(arguments or ["--nvcc", "13.0.88"])]
        done = subprocess.run(command, capture_output=True, text=True)
        table = root / "kernels.ptxas"
        return done.returncode, done.stdout + done.stderr, table.read_text() if table.is_file() else ""


def main():
    failures = []
    for label, files, wanted, arguments in [*CASES, ("an old report", {}, "row.cu.o: no report of this object", ["old"])]:
        code, output, _ = run(files, arguments)
        if (code == 0) != (wanted is None) or (wanted and wanted not in output):
            failures.append(f"{label}: ended with {code}, wanted {wanted!r}, said:\n{output}")
    code, output, table = run({"kernels.ptxas": None}, ["--nvcc", "13.0.88", "--write"])
    if code != 0 or "norm      32    0    0" not in table or "gemv<*>   64   16 1024" not in table or "nvcc 13.0." not in table:
        failures.append(f"--write: ended with {code}, said:\n{output}\nand wrote:\n{table}")
    code, output, table = run({}, ["--write"])
    if code == 0 or "--write needs --nvcc" not in output or table != TABLE:
        failures.append(f"--write without a version: ended with {code}, said:\n{output}\nand wrote:\n{table}")
    print("\n".join(failures) if failures else f"ptxas_check: {len(CASES) + 3} cases as expected")
    sys.exit(1 if failures else 0)


main()
