#!/bin/sh
# Set up this repository on a GPU machine without a network, next to the torch that it already has.
#
#   here:           sh lib/study/bench/gpu/box.sh pack box.tar 3.12 13.0
#   on the machine: mkdir box && tar xf box.tar -C box && sh box/lib/study/bench/gpu/box.sh unpack
#
# 3.12 is the version of Python on that machine (Linux on x86-64). 13.0 is the newest version of CUDA
# that its driver supports, which nvidia-smi shows. If the machine has nvcc, give "none" instead; then
# the compiler in CUDA_HOME is used.
#
# `pack` packs what is committed, and the wheels of requirements-box.in. `unpack` installs the wheels
# into the environment of the interpreter PYTHON. A folder of their own (pip's --target) does not
# work, because numba-cuda needs its .pth file in the environment.
set -eu
PYTHON=${PYTHON:-python3}

case "${1-}" in
pack)
  box=$(realpath "$2")
  cd "$(dirname "$0")/../../../.."
  parts=$(mktemp -d)
  trap 'rm -rf "$parts"' EXIT
  mkdir "$parts/wheels"
  if [ "$4" = none ]; then
    grep -v ^nvidia-nvvm requirements-box.in >"$parts/wheels/needed.txt"
  else
    sed "s/^nvidia-nvvm$/nvidia-nvvm==$4.*/" requirements-box.in >"$parts/wheels/needed.txt"
  fi
  "$PYTHON" -m pip download --quiet --dest "$parts/wheels" -r "$parts/wheels/needed.txt" \
    -c requirements.lock --only-binary :all: --python-version "$3" \
    --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64
  git archive --output "$box" HEAD
  tar rf "$box" -C "$parts" wheels
  ls -lh "$box"
  ;;
unpack)
  cd "$(dirname "$0")/../../../.."
  "$PYTHON" -c 'import torch' 2>/dev/null || {
    echo "$PYTHON has no torch; name the interpreter that has: PYTHON=... sh $0 unpack" >&2
    exit 1
  }
  "$PYTHON" -m pip install --quiet --no-index --find-links wheels -r wheels/needed.txt
  echo "now: PYTHONPATH=lib $PYTHON -m study.bench.gpu --out bench_gpu.csv"
  ;;
*)
  sed -n '2,13s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
