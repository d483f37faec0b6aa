#!/usr/bin/env python3
"""Compares the `banter` command with goldens: logits, likelihoods and greedy ids computed by independent float64 code.

    check_goldens.py --banter build/release/bin/banter [--goldens FOLDER] [--backend reference] [--threads N]
                     [--real NAME=MODEL.gguf ...] [--no-small] [--generate] [--prompts N]

FOLDER (default: $BANTER_GOLDENS) holds <model>/manifest.json of the small models, whose GGUF files stand in
FOLDER/../models/<model>/, and real_models/NAME.json. A real model is checked where --real names its file.

Greedy continuations are checked without decoding: the prompt is followed by the golden continuation and every position
must choose the next golden id, which is the same by induction and needs one prefill (batches do not change results).
With --generate the small models' continuations also run through the engine, token by token.

Bounds, on `--backend reference`: small models' logits within 1e-4 of the largest; real models' 8 best of the first step
within 2e-3, likelihood within 1e-3 relative, ids equal up to the first margin below 0.02. On other backends float32
files must be as exact; otherwise they keep float16 keys and values (2^-12 of each, times scores up to about 20: 5e-3 of
the largest logit) and with quantised weights int8 activations (0.5 % of each activation a product, random walks over 35
products: 3 %, with room 5e-2), and ids must agree up to the first margin that twice this error could turn."""
import argparse
import array
import json
import math
import os
import subprocess
import sys
import tempfile

SMALL = {"stories260K": ("F32", "F16", "Q8_0"), "babyllama105": ("F32", "F16", "Q8_0")}


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, is_good, what):
        if is_good:
            self.passed += 1
        else:
            self.failed += 1
            print(f"  FAILED: {what}")


def joined(ids):
    return ",".join(str(i) for i in ids)


class Banter:
    def __init__(self, options):
        self.command = options.banter.split()
        self.flags = ["--backend", options.backend]
        if options.threads:
            self.flags += ["--threads", str(options.threads)]

    def run(self, *arguments):
        done = subprocess.run([*self.command, *arguments, *self.flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            raise SystemExit(f"banter {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout.decode()

    def logits(self, model, ids, vocabulary):
        """[position][vocabulary]"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "logits.f32")
            self.run("logits", "--model", model, "--ids", joined(ids), "--out", path)
            return read_rows(path, vocabulary)

    def top(self, model, ids):
        return json.loads(self.run("logits", "--model", model, "--ids", joined(ids), "--top", "64", "--json")
                          .splitlines()[-1])

    def generate(self, model, ids, count):
        out = self.run("generate", "--model", model, "--ids", joined(ids), "-n", str(count), "--temp", "0",
                       "--ignore-eos", "--json")
        return json.loads(out.splitlines()[-1])["output_ids"]


def read_rows(path, vocabulary):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    if sys.byteorder == "big":
        values.byteswap()
    return [values[i : i + vocabulary] for i in range(0, len(values), vocabulary)]


def matching(chosen, expected, margins, safe_margin):
    """How many ids agree before the first that may differ; and whether every one before it does."""
    for i, (a, b) in enumerate(zip(chosen, expected)):
        if margins[i] < safe_margin:
            return i, True
        if a != b:
            return i, False
    return len(expected), True


def check_small(banter, checks, goldens, name, weight_type, options):
    folder = os.path.join(goldens, name)
    manifest = json.load(open(os.path.join(folder, "manifest.json")))
    model = os.path.join(goldens, "..", "models", name, f"{name}.{weight_type}.gguf")
    vocabulary, is_exact = manifest["vocab"], options.backend == "reference" or weight_type == "F32"
    largest = difference = 0.0
    continuations = 0
    for prompt in manifest["prompts"][: options.prompts]:
        golden, ids = prompt[weight_type], prompt["ids"]
        what = f"{name} {weight_type} prompt {prompt['index']}"
        rows = banter.logits(model, ids + golden["greedy_ids"][:-1], vocabulary)
        expected = read_rows(os.path.join(folder, golden["file"]), vocabulary)
        here = max(max(map(abs, map(float.__sub__, a, b))) for a, b in zip(map(list, rows), map(list, expected)))
        size = max(max(map(abs, row)) for row in expected)
        largest, difference = max(largest, size), max(difference, here)
        bound = 1e-4 if is_exact else {"F16": 5e-3, "Q8_0": 5e-2}[weight_type]
        checks.check(here <= bound * size, f"{what}: logits differ by {here:.2e}, largest is {size:.1f}")
        chosen = [max(range(vocabulary), key=row.__getitem__) for row in rows[len(ids) - 1 :]]
        safe = 0.0 if is_exact else 2 * bound * size
        count, is_good = matching(chosen, golden["greedy_ids"], golden["margins"], safe)
        checks.check(is_good, f"{what}: greedy id {count} differs (margin {golden['margins'][min(count, 99)]})")
        continuations += chosen == golden["greedy_ids"]
        if options.generate:
            ids_out = banter.generate(model, ids, len(golden["greedy_ids"]))
            count, is_good = matching(ids_out, golden["greedy_ids"], golden["margins"], safe)
            checks.check(is_good and len(ids_out) == len(golden["greedy_ids"]), f"{what}: generated id {count} differs")
    total = len(manifest["prompts"][: options.prompts])
    print(f"{name} {weight_type}: largest difference {difference:.2e} ({difference / largest:.1e} of the largest logit), "
          f"{continuations} of {total} continuations equal")


def check_real(banter, checks, goldens, name, model, options):
    golden = json.load(open(os.path.join(goldens, "real_models", f"{name}.json")))
    is_exact = options.backend == "reference"
    worst_top = worst_nll = 0.0
    agreeing = total = 0
    for index, prompt in enumerate(golden["prompts"][: options.prompts]):
        what = f"{name} prompt {index}"
        ids, greedy = prompt["ids"], prompt["greedy_ids"]
        result = banter.top(model, ids + greedy[:-1])
        first = dict(map(tuple, result["top"][len(ids) - 1]))
        top = max(abs(first.get(token, math.inf) - logit) for token, logit in prompt["top8"][0])
        nll = abs(math.fsum(result["nll"][: len(ids) - 1]) / prompt["nll_sum"] - 1)
        chosen = [row[0][0] for row in result["top"][len(ids) - 1 :]]
        if is_exact:
            checks.check(top <= 2e-3, f"{what}: the 8 best logits differ by {top:.2e}")
            checks.check(nll <= 1e-3, f"{what}: likelihood differs by {nll:.2e} relative")
        safe = 0.02 if is_exact else 1.0
        count, is_good = matching(chosen, greedy, prompt["margins"], safe)
        checks.check(is_good, f"{what}: greedy id {count} differs (margin {prompt['margins'][min(count, 47)]})")
        worst_top, worst_nll = max(worst_top, top), max(worst_nll, nll)
        agreeing += sum(a == b for a, b in zip(chosen, greedy))
        total += len(greedy)
        print(f"  {what}: {len(ids)} ids, 8 best within {top:.1e}, likelihood within {nll:.1e}, "
              f"{sum(a == b for a, b in zip(chosen, greedy))} of {len(greedy)} ids", flush=True)
    print(f"{name}: 8 best within {worst_top:.1e}, likelihood within {worst_nll:.1e} relative, "
          f"{agreeing} of {total} greedy ids equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banter", default="./dev banter", help="the command, with a space before arguments of its own")
    parser.add_argument("--goldens", default=os.environ.get("BANTER_GOLDENS"))
    parser.add_argument("--backend", default="reference", choices=("reference", "cpu", "cuda", "auto"))
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--real", action="append", default=[], metavar="NAME=MODEL.gguf")
    parser.add_argument("--no-small", action="store_true")
    parser.add_argument("--generate", action="store_true")
    parser.add_argument("--prompts", type=int, default=None, help="only the first N prompts of each")
    options = parser.parse_args()
    if not options.goldens:
        raise SystemExit("name the folder of goldens with --goldens or BANTER_GOLDENS")
    banter, checks = Banter(options), Checks()
    if not options.no_small:
        for name, types in SMALL.items():
            for weight_type in types:
                check_small(banter, checks, options.goldens, name, weight_type, options)
    for real in options.real:
        name, _, model = real.partition("=")
        check_real(banter, checks, options.goldens, name, model, options)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed or not checks.passed else 0


sys.exit(main())
