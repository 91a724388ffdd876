#!/usr/bin/env bash
# Checks and measures on this machine's GPU. No Rust and no network are needed; what else is missing is recorded.
#   ./run.sh [--tier 1|2|3] [--out FOLDER] [--seconds S] [--only TEXT] [--device cuda|emulated|cpu]
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
# Kernels that were compiled beforehand; new ones are added here too.
export EPILOGUE_CACHE="${EPILOGUE_CACHE:-$here/kernels}"
export PYTHONPATH="$here/peers${PYTHONPATH:+:$PYTHONPATH}"
exec "$here/epilogue-gpu" "$@"
