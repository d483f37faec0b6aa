#!/usr/bin/env python3
"""Compares many characters at once with llama.cpp's llama-batched-bench, on the same file, threads and lengths.

  compare_batched.py --banter B --llama DIR --model M.gguf [--threads 2] [--rounds 3] [--npcs 1,2,4,8,16] [-p 128] [-n 64] [--require]

DIR holds llama-batched-bench. Both read prompts of -p tokens and then decode -n tokens of every sequence together; the
decode speed of all sequences together counts. Runs are interleaved and reported as medians and ratios, since machines are
shared and noisy. With --require, exits with 1 unless 8 and 16 characters are twice as fast as llama.cpp's.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys


def run(command):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, stdin=subprocess.DEVNULL).stdout


def banter(args, count):
    out = run([args.banter, "bench", "--model", args.model, "--threads", str(args.threads), "--npcs", str(count), "-p", str(args.p), "-n",
               str(args.n), "-r", "1", "--json"])
    row = json.loads(out.strip().splitlines()[-1])["npcs"][0]
    assert row["count"] == count
    return row["prefill_tokens_per_second"], row["aggregate_tokens_per_second"], row["itl_ms"]


def llama(args, count):
    context = count * (args.p + args.n) + 64
    out = run([os.path.join(args.llama, "llama-batched-bench"), "-m", args.model, "-t", str(args.threads), "-tb", str(args.threads), "-c",
               str(context), "-b", "2048", "-ub", "512", "-npp", str(args.p), "-ntg", str(args.n), "-npl", str(count), "--output-format", "jsonl"])
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    rows = [row for row in rows if row["pl"] == count]
    return rows[-1]["speed_pp"], rows[-1]["speed_tg"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--banter", required=True)
    parser.add_argument("--llama", required=True, help="folder of llama.cpp's tools")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--npcs", default="1,2,4,8,16")
    parser.add_argument("--require", action="store_true", help="fail below twice the speed with 8 and with 16 characters")
    parser.add_argument("-p", type=int, default=128)
    parser.add_argument("-n", type=int, default=64)
    args = parser.parse_args()
    short = []
    print(f"{'npcs':>4} | {'decode, tokens/s of all':^42} | {'prefill, tokens/s':^28} | ITL ms")
    print(f"{'':>4} | {'banter':>10} {'llama.cpp':>10} {'ratio':>6} {'(spread)':>13} | {'banter':>10} {'llama.cpp':>10} {'ratio':>6} |  p50    p99")
    for count in map(int, args.npcs.split(",")):
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(banter(args, count))
            theirs.append(llama(args, count))
        ratios = [a[1] / b[1] for a, b in zip(ours, theirs)]
        prefill = statistics.median(a[0] / b[0] for a, b in zip(ours, theirs))
        ratio = statistics.median(ratios)
        middle = lambda rows, column: statistics.median(row[column] for row in rows)
        print(f"{count:4} | {middle(ours, 1):10.1f} {middle(theirs, 1):10.1f} {ratio:6.2f} ({min(ratios):5.2f}-{max(ratios):5.2f}) | "
              f"{middle(ours, 0):10.1f} {middle(theirs, 0):10.1f} {prefill:6.2f} | {statistics.median(row[2]['p50'] for row in ours):6.1f} "
              f"{statistics.median(row[2]['p99'] for row in ours):6.1f}", flush=True)
        if count in (8, 16) and ratio < 2:
            short.append(count)
    if short and args.require:
        print(f"less than twice as fast with {short} characters", file=sys.stderr)
    return 1 if short and args.require else 0


if __name__ == "__main__":
    sys.exit(main())
