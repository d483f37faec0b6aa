"""What ptxas says of every kernel against the table sdk/src/backend_cuda/kernels.ptxas: registers, stack, spills, static shared memory.

usage: ptxas_check.py --objects FOLDER --table FILE [--nvcc VERSION] [--library FILE] [--write]

FOLDER is where the build left <object>.ptxas beside each object of a .cu file (sdk/cmake/keep_report.py). The table has a line for
each kernel, templates as one: the most of all instances and cards. A kernel without a line, a line without a kernel, and any
figure above its line's are faults; spills are faults whatever the table says. Register counts are compared only with the nvcc that
the table was made with (major.minor), since they are that compiler's choice. --write makes the table anew.
"""

import argparse
import pathlib
import re
import subprocess
import sys

COLUMNS = ("registers", "stack", "shared")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
HEAD = """# Made by tests/cuda/ptxas_check.py --write with nvcc {nvcc}. The most that any instance of a kernel takes on any card: registers
# of a thread, bytes of its stack (arrays that are not in registers), bytes of static shared memory of a block. No kernel spills.
"""


def demangle(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return dict(zip(names, done.stdout.splitlines()))


def short_name(name):
    """'void banter::cuda::(anonymous namespace)::norm_kernel<8>(banter::cuda::NormArgs)' -> 'norm_kernel<*>'."""
    name = name.replace("(anonymous namespace)::", "").replace("banter::cuda::", "")
    name = re.sub(r"^(void|static) ", "", name)
    match = re.match(r"[\w:]+", name)
    if not match:
        return name
    return match.group(0) + ("<*>" if name[match.end():].startswith("<") else "")


def read_report(text):
    """(mangled name, card, figures) of each kernel in a report."""
    kernels, name, card, figures = [], None, None, {}
    for line in text.splitlines():
        if match := ENTRY.search(line):
            name, card, figures = match.group(1), match.group(2), {}
        elif name and (match := STACK.search(line)):
            figures.update(stack=int(match.group(1)), spills=int(match.group(2)) + int(match.group(3)))
        elif name and (match := USED.search(line)):
            shared = SHARED.search(line)
            figures.update(registers=int(match.group(1)), shared=int(shared.group(1)) if shared else 0)
            kernels.append((name, card, figures))
            name = None
    return kernels


def read_reports(folder, findings):
    objects = sorted(folder.rglob("*.cu.o"))
    kernels = []
    if not objects:
        findings.append(f"{folder}: no object of a .cu file is there; build banter_cuda first")
    for path in objects:
        report = path.with_name(path.name + ".ptxas")
        if not report.is_file() or report.stat().st_mtime < path.stat().st_mtime - 60:
            findings.append(f"{path}: no report of this object beside it; build it anew")
            continue
        text = report.read_text(encoding="utf-8")
        found = read_report(text)
        # A file of host code alone has no kernel; then ptxas says so of its constants.
        if "ptxas info" not in text or len(found) != len(re.findall(r"[Cc]ompiling entry|registers", text)) / 2:
            findings.append(f"{report}: says nothing of ptxas, or in words that this script does not know")
        kernels += found
    return kernels


def summarise(kernels, findings):
    names = demangle(sorted({name for name, _, _ in kernels})) if kernels else {}
    most = {}
    for name, card, figures in kernels:
        if "spills" not in figures:
            findings.append(f"{names[name]} ({card}): the report lacks its stack and spills")
            continue
        if figures["spills"] > 0:
            findings.append(f"{names[name]} ({card}): spills {figures['spills']} bytes")
        line = most.setdefault(short_name(names[name]), {column: 0 for column in COLUMNS})
        for column in COLUMNS:
            if figures[column] >= line[column]:
                line[column] = figures[column]
                line["where " + column] = f"{names[name]} ({card})"
    return most


def read_table(path, findings):
    lines, nvcc = {}, None
    if not path.is_file():
        findings.append(f"{path}: is not there; make it with --write")
        return lines, nvcc
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := re.search(r"with nvcc (\d+\.\d+)", line):
            nvcc = match.group(1)
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 1 + len(COLUMNS) or not all(word.isdigit() for word in words[1:]) or words[0] in lines:
            findings.append(f"{path}:{number}: each line is a kernel's name, once, and {', '.join(COLUMNS)}")
            continue
        lines[words[0]] = dict(zip(COLUMNS, map(int, words[1:])))
    return lines, nvcc


def compare(most, table, columns, findings):
    for name in sorted(most.keys() - table.keys()):
        findings.append(f"{name}: not in the table")
    for name in sorted(table.keys() - most.keys()):
        findings.append(f"{name}: in the table, but no such kernel was built")
    for name in sorted(most.keys() & table.keys()):
        for column in columns:
            if most[name][column] > table[name][column]:
                findings.append(f"{most[name]['where ' + column]}: {column} {most[name][column]}, the table allows {table[name][column]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--objects", type=pathlib.Path, required=True)
    parser.add_argument("--table", type=pathlib.Path, required=True)
    parser.add_argument("--nvcc", default="")
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    findings = []
    kernels = read_reports(options.objects, findings)
    most = summarise(kernels, findings)
    nvcc = ".".join(options.nvcc.split(".")[:2])
    if options.write and not re.fullmatch(r"\d+\.\d+", nvcc):
        parser.error("--write needs --nvcc with the version that built the objects: registers are compared with that one's only")
    if options.write:
        width = max((len(name) for name in most), default=0)
        rows = [f"{name:{width}} " + " ".join(f"{most[name][column]:4}" for column in COLUMNS) + "\n" for name in sorted(most)]
        options.table.write_text(HEAD.format(nvcc=nvcc) + "".join(rows), encoding="utf-8")
    table, made_with = read_table(options.table, findings)
    columns = COLUMNS
    if options.table.is_file() and made_with is None:
        findings.append(f"{options.table}: does not say which nvcc it was made with; make it anew with --write")
    if nvcc and made_with != nvcc:
        print(f"note: the table was made with nvcc {made_with}, this is {nvcc}: registers and stack are not compared")
        columns = ("shared",)
    compare(most, table, columns, findings)
    if not kernels:
        findings.append("nothing to check: no kernel was found")
    print("\n".join(findings))
    cards = sorted({card for _, card, _ in kernels})
    worst = max(most.items(), key=lambda item: item[1]["registers"], default=None)
    print(f"{len(kernels)} kernels of {len(most)} names for {' '.join(cards)}" +
          (f"; most registers: {worst[1]['registers']} in {worst[1]['where registers']}" if worst else ""))
    if options.library:
        print(f"{options.library.name}: {options.library.stat().st_size / 1e6:.1f} MB")
    print(f"ptxas report: {len(findings)} finding(s)")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
