"""Header documentation: every BANTER_API function says what it does, what it returns, who may call it and since when."""

import re

import header
from common import arguments, files, finish, read


def check(path, function):
    name, result, parameters, comment, line = function
    where = f"{path}:{line}: {name}"
    if not comment:
        yield f"{where}: no /** comment */ before it"
        return
    if not re.search(r"Thread safety: *\S", comment):
        yield f'{where}: its comment lacks "Thread safety:"'
    if not re.search(r"Since: *\d+\.\d+\.\d+", comment):
        yield f'{where}: its comment lacks "Since: X.Y.Z"'
    if result != "void" and not re.search(r"@returns +\S", comment):
        yield f"{where}: returns {result}, but its comment lacks @returns"
    if result == "void" and "@returns" in comment:
        yield f"{where}: returns nothing, but its comment has @returns"
    for parameter in re.findall(r"@param +(?:\[out\] +)?(\w+)", comment):
        if not re.search(rf"\b{parameter}\b", parameters):
            yield f"{where}: its comment describes {parameter!r}, which is no parameter"


def main():
    root = arguments()
    findings, checked = [], 0
    for path in files(root, "sdk/include/banter"):
        for function in header.functions(read(root / path)):
            checked += 1
            findings.extend(check(path, function))
    finish("header documentation", findings, checked)


main()
