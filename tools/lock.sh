#!/bin/sh
# Writes requirements/*.txt from requirements/*.in: exact versions, with the hashes of every file of each
# version, for CPython 3.11 and later. Needs uv (pip install uv). test.txt comes first; the others follow it,
# so that one version of a package is used everywhere.
set -eu
cd "$(dirname "$0")/../requirements"
UV=${UV:-uv}
lock() {
    name=$1; shift
    "$UV" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-annotate --custom-compile-command "make lock" "$@" "$name.in" -o "$name.txt"
    echo "requirements/$name.txt: $(grep -c '==' "$name.txt") packages"
}
lock test --upgrade
lock glibc217 --upgrade # another cramjam than that of test.txt
for name in build runtime executor bench cross release; do
    lock "$name" --upgrade -c test.txt
done
