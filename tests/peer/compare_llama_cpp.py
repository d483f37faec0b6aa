#!/usr/bin/env python3
"""Compares Banter with llama.cpp's own tools: speed, greedy text and perplexity, on the same file and threads.

  compare_llama_cpp.py speed      --banter B --llama DIR --model M.gguf [--threads 2] [--rounds 5] [-p 512] [-n 128]
  compare_llama_cpp.py greedy     --banter B --llama DIR --model M.gguf [--threads 2]
  compare_llama_cpp.py perplexity --banter B --llama DIR --model M.gguf --file TEXT [--threads 2]
  compare_llama_cpp.py error      --banter B --llama DIR --model M.gguf --goldens REAL_MODEL.json [--threads 2]

DIR holds llama-bench, llama-completion, llama-perplexity and llama-server. `error` measures how far the logits of both, whose
activations are int8, lie from float64 goldens: differences within the 8 best of a prompt's first step, so that no constant counts. Speed runs are interleaved and reported as medians and
ratios, since machines are shared and noisy. Exits with 1 when a requirement of the comparison fails (speed never does).
"""

import argparse
import json
import math
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

PROMPTS = [
    "The village of Oakrest lies",
    "def quicksort(items):\n",
    "Once upon a time, in a land far away,",
    "The three most important rules of blacksmithing are",
    "今天天气很好，我们",
    "# A README for a small game engine\n\n",
    "int main(int argc, char** argv) {\n",
    "The old innkeeper looked up and said:",
    "A list of European capitals:\n- Paris\n- Berlin\n-",
    "SELECT name, price FROM",
    "In 1492, Christopher Columbus",
    "The recipe for a good stew begins with",
    "从前有一个村庄，",
    "import numpy as np\n\ndef softmax(x):\n",
    "The difference between a process and a thread is",
    "Dear Sir or Madam,\n\nI am writing to",
    "Water boils at 100 degrees Celsius because",
    "class Npc:\n    def __init__(self, name",
    "To be, or not to be, that is",
    "The dragon opened one eye and",
]


def run(command, **kwargs):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, stdin=subprocess.DEVNULL, **kwargs)


def banter_json(args, *words):
    result = run([args.banter, *words, "--json"])
    return json.loads(result.stdout.strip().splitlines()[-1])


def speed(args):
    ours = {"prefill": [], "decode": []}
    theirs = {"prefill": [], "decode": []}
    for _ in range(args.rounds):
        bench = banter_json(args, "bench", "--model", args.model, "-p", str(args.p), "-n", str(args.n), "--threads", str(args.threads))
        for phase in ours:
            ours[phase].append(bench[phase]["tokens_per_second"])
        out = run([os.path.join(args.llama, "llama-bench"), "-m", args.model, "-t", str(args.threads), "-p", str(args.p), "-n", str(args.n),
                   "-r", "1", "-o", "json"])
        for row in json.loads(out.stdout):
            theirs["prefill" if row["n_prompt"] else "decode"].append(row["avg_ts"])
    for phase in ours:
        a, b = statistics.median(ours[phase]), statistics.median(theirs[phase])
        ratio = statistics.median(x / y for x, y in zip(ours[phase], theirs[phase]))
        print(f"{phase:8} banter {a:8.1f} tokens/s   llama.cpp {b:8.1f} tokens/s   median ratio {ratio:.2f}   "
              f"(banter {min(ours[phase]):.1f}-{max(ours[phase]):.1f}, llama.cpp {min(theirs[phase]):.1f}-{max(theirs[phase]):.1f})")
    return 0


def reference_choice(args, ids, position):
    """What float32 arithmetic without quantised activations chooses as token `position` of `ids`, and by what margin."""
    with tempfile.NamedTemporaryFile() as out:
        run([args.banter, "logits", "--model", args.model, "--ids", ",".join(map(str, ids[:position])), "--out", out.name,
             "--backend", "reference", "--threads", str(args.threads)])
        data = open(out.name, "rb").read()
    vocabulary = len(data) // 4 // position
    row = struct.unpack(f"<{vocabulary}f", data[-4 * vocabulary:])
    first, second = sorted(range(vocabulary), key=lambda i: -row[i])[:2]
    return first, row[first] - row[second]


def greedy(args):
    same = bad = ours_right = 0
    for prompt in PROMPTS:
        ours = continuation(args, prompt, 32)
        theirs = run([os.path.join(args.llama, "llama-completion"), "-m", args.model, "-p", prompt, "-n", "32", "--temp", "0", "-no-cnv", "-t",
                      str(args.threads), "--no-display-prompt"]).stdout
        text = ours["text"]
        # llama-completion adds line ends and shows the end of the text; a last code point may be cut by the limit.
        theirs = theirs.replace(" [end of text]", "")
        length = min(len(text), len(theirs.rstrip("\n")))
        if text[:length].rstrip("\ufffd") == theirs[:length].rstrip("\ufffd") and length >= len(text.rstrip()) - 4:
            same += 1
            continue
        step = first_difference(args, prompt, theirs)
        ids = ours["prompt_ids"] + ours["output_ids"]
        chosen, gap = reference_choice(args, ids, len(ours["prompt_ids"]) + step)
        right = step < len(ours["output_ids"]) and chosen == ours["output_ids"][step]
        ours_right += right
        bad += gap > 0.1 and not right
        print(f"differs: {prompt!r} at token {step}: exact arithmetic agrees with {'banter' if right else 'llama.cpp or neither'}, "
              f"the two best logits are {gap:.3f} apart{'  TOO FAR' if gap > 0.1 and not right else ''}")
        print(f"   banter    {text!r}\n   llama.cpp {theirs!r}")
    print(f"{same} of {len(PROMPTS)} greedy replies equal llama.cpp's; of the others exact arithmetic goes with banter in {ours_right}, and "
          f"against it with more than 0.1 between its two best logits in {bad}")
    return 1 if bad or same + ours_right < 15 else 0


def continuation(args, prompt, tokens):
    return banter_json(args, "generate", "--model", args.model, "--prompt", prompt, "--raw", "-n", str(tokens), "--temp", "0",
                       "--threads", str(args.threads))


def first_difference(args, prompt, theirs):
    """Index of our first token whose text leaves theirs: a bisection over shorter replies, which are prefixes of each other."""
    low, high = 0, 32
    while high - low > 1:
        middle = (low + high) // 2
        if theirs.startswith(continuation(args, prompt, middle)["text"]):
            low = middle
        else:
            high = middle
    return low


def perplexity(args):
    ours = banter_json(args, "perplexity", "--model", args.model, "--file", args.file, "--ctx", "512", "--threads", str(args.threads))["perplexity"]
    out = run([os.path.join(args.llama, "llama-perplexity"), "-m", args.model, "-f", args.file, "-c", "512", "-t", str(args.threads)])
    theirs = float(re.search(r"Final estimate: PPL = ([0-9.]+)", out.stdout + out.stderr).group(1))
    off = ours / theirs - 1
    print(f"perplexity banter {ours:.4f}   llama.cpp {theirs:.4f}   difference {off * 100:+.3f} %")
    return 1 if abs(off) > 0.005 else 0


def server_best(port, ids):
    """{token: log probability} of the 20 best next tokens, from llama-server."""
    body = json.dumps({"prompt": ids, "n_predict": 1, "temperature": 0, "n_probs": 20, "cache_prompt": False}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        step = json.load(answer)["completion_probabilities"][0]
    return {entry["id"]: entry["logprob"] for entry in step["top_logprobs"]}


def rms_error(golden, found):
    """Root mean square of (found - found of the best) - (golden - golden of the best) over the golden best tokens."""
    best, best_logit = golden[0]
    pairs = [(logit - best_logit, found[token] - found[best]) for token, logit in golden[1:] if token in found and best in found]
    return math.sqrt(sum((a - b) ** 2 for a, b in pairs) / len(pairs)) if pairs else float("nan")


def error(args):
    prompts = json.load(open(args.goldens))["prompts"]
    port = 18080
    server = subprocess.Popen([os.path.join(args.llama, "llama-server"), "-m", args.model, "-t", str(args.threads), "--port", str(port), "-np", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except OSError:
                time.sleep(0.5)
        ours, theirs = [], []
        for prompt in prompts:
            golden = [(int(token), logit) for token, logit in prompt["top8"][0]]
            theirs.append(rms_error(golden, server_best(port, prompt["ids"])))
            with tempfile.NamedTemporaryFile() as out:
                run([args.banter, "logits", "--model", args.model, "--ids", ",".join(map(str, prompt["ids"])), "--out", out.name, "--threads",
                     str(args.threads)])
                data = open(out.name, "rb").read()
            vocabulary = len(data) // 4 // len(prompt["ids"])
            ours.append(rms_error(golden, dict(enumerate(struct.unpack(f"<{vocabulary}f", data[-4 * vocabulary:])))))
            print(f"{len(prompt['ids']):5} tokens   banter {ours[-1]:.4f}   llama.cpp {theirs[-1]:.4f}")
    finally:
        server.terminate()
    print(f"rms error of logit differences, median over prompts: banter {statistics.median(ours):.4f}   llama.cpp {statistics.median(theirs):.4f}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "greedy", "perplexity", "error"])
    parser.add_argument("--banter", required=True)
    parser.add_argument("--llama", required=True, help="folder of llama.cpp's tools")
    parser.add_argument("--model", required=True)
    parser.add_argument("--file", help="text for perplexity")
    parser.add_argument("--goldens", help="a real model's goldens, for error")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-p", type=int, default=512)
    parser.add_argument("-n", type=int, default=128)
    args = parser.parse_args()
    return {"speed": speed, "greedy": greedy, "perplexity": perplexity, "error": error}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
