#!/usr/bin/env bash
# Creates a folder for the files of tests and prints its path: in memory if so many MiB are free there, else on disk.
# usage: folder-in-memory.sh MIB
set -euo pipefail
needed=$1
free=$(df --output=avail -BM /dev/shm 2> /dev/null | tail -n 1 | tr -dc 0-9) || free=0
if [ "${free:-0}" -ge "$needed" ] && mktemp -d /dev/shm/speck-XXXXXX 2> /dev/null; then exit; fi
mktemp -d
