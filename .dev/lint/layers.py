"""Include directions: a layer of sdk/src includes only itself and the layers before it; hosts include <banter/...> only."""

import re

from common import CODE, arguments, files, finish, read

# What each layer may include, besides itself and the public headers of sdk/include.
BELOW_TEXT = ["base", "formats"]
BELOW_BACKENDS = BELOW_TEXT + ["text", "ops"]
LAYERS = {
    "base": [],
    "formats": ["base"],
    "text": BELOW_TEXT,
    "ops": BELOW_TEXT + ["text"],
    "backend_cpu": BELOW_BACKENDS,
    "backend_cuda": BELOW_BACKENDS,
    "kv": BELOW_BACKENDS,
    "sampling": BELOW_BACKENDS,
    "model": BELOW_BACKENDS + ["kv", "sampling"],
    "dialogue": BELOW_BACKENDS + ["kv", "sampling", "model"],
    "remote": BELOW_BACKENDS,
    "engine": BELOW_BACKENDS + ["kv", "sampling", "model", "dialogue", "remote", "backend_cpu"],
    "api": BELOW_BACKENDS + ["kv", "sampling", "model", "dialogue", "remote", "engine", "backend_cpu"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def check_sdk(path, name, quote, include):
    layer = path.parts[2]
    top = include.split("/")[0]
    if layer not in LAYERS:
        return f"{path}: unknown layer {layer!r}; add it to .dev/lint/layers.py"
    if top == "banter":
        return None
    if quote == '"' and "/" not in include:
        return f'{path}: #include "{include}": write the path from sdk/src, e.g. "{layer}/{include}"'
    if quote == '"' and top not in LAYERS:
        return f'{path}: #include "{include}": no layer has this name; system headers take <>'
    if top in LAYERS and top != layer and top not in LAYERS[layer]:
        return f'{path}: #include "{include}": layer {layer} may not include {top} (allowed: {", ".join(LAYERS[layer]) or "nothing"})'
    return None


def main():
    root = arguments()
    findings, checked = [], 0
    for path in files(root, "sdk/src", "sdk/include", "samples", "plugin_unreal", "plugin_godot"):
        if path.suffix not in CODE:
            continue
        checked += 1
        for quote, include in INCLUDE.findall(read(root / path)):
            top = include.split("/")[0]
            if path.parts[:2] == ("sdk", "src") and len(path.parts) > 3:
                finding = check_sdk(path, path.name, quote, include)
            elif path.parts[:2] == ("sdk", "include"):
                bad = quote == '"' and top != "banter" or top in LAYERS
                finding = f'{path}: #include "{include}": a public header includes only banter/ and system headers' if bad else None
            elif top in LAYERS or "sdk/src" in include:
                finding = f'{path}: #include "{include}": samples and plugins include <banter/...> only'
            else:
                finding = None
            if finding:
                findings.append(finding)
    finish("include directions", findings, checked)


main()
