#!/usr/bin/env python3
"""Checks that a reply depends on nothing but its prompt, sampler and seed: `banter generate` must give the same output_ids whatever
else the engine does.

  batch_invariance.py --banter B --model M.gguf [--draft D.gguf] [-n 32] [--quick] [--prompts 20]

For every prompt, greedy and sampled: alone with the defaults, then with a crowd of 2, 8 and 31 others, prefill chunks of 16, 64 and
512 tokens, 1 and 2 threads, n-gram speculation (and a draft model, where one is given), no prefix sharing, and a KV pool so small that
the crowd preempts each other; and some of these together. --quick takes fewer prompts and the most telling variants. Exits with 1 when
any reply differs, and when a crowd did not talk.
"""

import argparse
import json
import subprocess
import sys
import time

from compare_llama_cpp import PROMPTS

# Longer than the chunks that are tried, so that chunking shows; a text that repeats names, so that speculation finds something.
LORE = ("Mira keeps the Gilded Goose in Oakrest. Borin mends swords in Oakrest. Lian sells tea in Oakrest. " * 6).strip()

GREEDY = ["--temp", "0"]
SAMPLED = ["--temp", "0.9", "--top-k", "50", "--top-p", "0.95", "--repeat-penalty", "1.05"]


def variants(args):
    """(name, options) of all that must change nothing."""
    every = [(f"crowd {n}", ["--crowd", str(n)]) for n in (2, 8, 31)]
    every += [(f"chunk {n}", ["--chunk", str(n)]) for n in (16, 64, 512)]
    every += [(f"threads {n}", ["--threads", str(n)]) for n in (1, 2)]
    every += [("speculation", ["--speculate", "ngram"]), ("no prefix sharing", ["--no-prefix-sharing"])]
    every += [("crowd 8, chunk 16, speculation", ["--crowd", "8", "--chunk", "16", "--speculate", "ngram"])]
    # A pool of eight conversations of 384 tokens for 31 others: somebody always waits or gives way.
    every += [("crowd 31, little memory", ["--crowd", "31", "--ctx", "384"])]
    if args.draft:
        every += [("draft model", ["--speculate", args.draft]), ("crowd 8, draft model", ["--crowd", "8", "--speculate", args.draft])]
    if args.quick:
        wanted = {"crowd 8", "crowd 31", "chunk 16", "threads 1", "speculation", "crowd 8, chunk 16, speculation"}
        every = [v for v in every if v[0] in wanted or "draft" in v[0]]
    return every


def generate(args, prompt, sampler, seed, options):
    command = [args.banter, "generate", "--model", args.model, "--raw", "--prompt", prompt, "-n", str(args.n), "--seed", str(seed), "--ignore-eos",
               "--json", *sampler, *options]
    if "--threads" not in options:
        command += ["--threads", str(args.threads)]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {result.stderr.strip()}")
    reply = json.loads(result.stdout.strip().splitlines()[-1])
    if "--crowd" in options and reply["crowd"]["tokens"] == 0:
        sys.exit(f"the crowd of {options} did not talk, so nothing was checked")
    return reply["output_ids"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banter", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", help="a smaller model of the same vocabulary (the same file will do)")
    parser.add_argument("--threads", type=int, default=2, help="where the variant does not say")
    parser.add_argument("--prompts", type=int, help="how many of the 20 [20; quick: 3]")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("-n", type=int, default=32)
    args = parser.parse_args()
    count = args.prompts or (3 if args.quick else len(PROMPTS))
    prompts = [(LORE + " " + prompt if i % 3 == 0 else prompt) for i, prompt in enumerate(PROMPTS[:count])]
    different = compared = 0
    start = time.time()
    for number, prompt in enumerate(prompts):
        for name, sampler in (("greedy", GREEDY), ("sampled", SAMPLED)):
            alone = generate(args, prompt, sampler, 1000 + number, [])
            if len(alone) != args.n:
                sys.exit(f"prompt {number} gave {len(alone)} of {args.n} tokens")
            for what, options in variants(args):
                ids = generate(args, prompt, sampler, 1000 + number, options)
                compared += 1
                if ids == alone:
                    continue
                different += 1
                at = next((i for i, (a, b) in enumerate(zip(alone, ids)) if a != b), min(len(alone), len(ids)))
                print(f"DIFFERS: prompt {number}, {name}, {what}: token {at}: {alone[at:at + 3]} alone, {ids[at:at + 3]} here", flush=True)
        print(f"prompt {number + 1} of {count}: {compared} replies compared, {different} differ, {time.time() - start:.0f} s", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
