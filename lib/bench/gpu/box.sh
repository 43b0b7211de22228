#!/bin/sh
# Carry this repository to a GPU box without a network, and set it up there beside the box's own torch.
#
#   here:       sh lib/bench/gpu/box.sh pack box.tar 3.12      (the version of the box's Python; Linux on x86-64)
#   on the box: mkdir box && tar xf box.tar -C box && sh box/lib/bench/gpu/box.sh unpack
#
# What is committed is packed, with the wheels of requirements-box.in. They are installed into the environment itself, of which
# PYTHON is the interpreter: numba-cuda works through a .pth file that a folder of its own (pip's --target) would hide.
set -eu
cd "$(dirname "$0")/../../.."
PYTHON=${PYTHON:-python3}

case "${1-}" in
pack)
  box=$2
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' EXIT
  "$PYTHON" -m pip download --quiet --dest "$wheels/wheels" -r requirements-box.in -c requirements.lock \
    --only-binary :all: --python-version "$3" \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64
  git archive --output "$box" HEAD
  tar rf "$box" -C "$wheels" wheels
  ls -lh "$box"
  ;;
unpack)
  "$PYTHON" -c 'import torch' || { echo "$PYTHON has no torch; name the interpreter that has: PYTHON=... $0 unpack" >&2; exit 1; }
  "$PYTHON" -m pip install --quiet --no-index --find-links wheels -r requirements-box.in
  echo "now: $PYTHON -m lib.bench.gpu --out bench_gpu.csv   and: $PYTHON -m pytest -m gpu tests/test_gpu.py"
  ;;
*)
  sed -n '2,9s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
