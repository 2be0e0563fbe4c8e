#!/usr/bin/env bash
# Makes sure of what does not come from pip: Java 17 with its compiler, Maven, Mosquitto, Python's venv, OpenMP; with the
# argument `browser`, of Chromium and its driver instead, which only the tests of the dashboard need, or with `shells`
# of zsh and fish, which only the tests of their completion need.
# Installs what is missing by the system's package manager, or says exactly what to install.
# All output goes to standard error.
set -euo pipefail
exec 1>&2
PATH="$PATH:/usr/sbin:/usr/local/sbin"
PYTHON="${PYTHON:-python3}"

java_new_enough() {
    local major
    command -v java >/dev/null && command -v javac >/dev/null || return 1
    major=$(javac -version 2>&1 | sed -E 's/^javac ([0-9]+).*/\1/')
    [ "${major:-0}" -ge 17 ]
}

python_new_enough() {
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

missing=()
if [ "${1:-}" = browser ]; then
    all="Chromium and chromedriver"
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
        missing+=(chromium)
    command -v chromedriver >/dev/null || missing+=(chromedriver)
elif [ "${1:-}" = shells ]; then
    all="zsh and fish"
    command -v zsh >/dev/null || missing+=(zsh)
    command -v fish >/dev/null || missing+=(fish)
else
    if ! python_new_enough; then
        found=$("$PYTHON" --version 2>&1 || true)
        echo "SpecK needs Python 3.11 or newer, and $PYTHON is: ${found:-not there}. Name another:  make PYTHON=python3.11 ..."
        exit 1
    fi
    all="Java 17 or newer with javac, Maven 3.8, Mosquitto 2, Python's venv, the runtime of OpenMP (libgomp)"
    java_new_enough || missing+=(java)
    command -v mvn >/dev/null || missing+=(maven)
    command -v mosquitto >/dev/null || missing+=(mosquitto)
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || missing+=(venv)
    "$PYTHON" -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null || missing+=(openmp)
fi
[ ${#missing[@]} -eq 0 ] && exit 0

apt_java() {  # the compiler of a Java that Spark and Flink know; releases of Debian and Ubuntu have different ones
    local version
    for version in 17 21; do
        apt-cache show "openjdk-$version-jdk-headless" >/dev/null 2>&1 && break
    done
    echo "openjdk-$version-jdk-headless"
}

packages() {  # the manager's own names of what is missing
    local name
    for name in "${missing[@]}"; do
        case "$1:$name" in
            apt-get:java) apt_java ;;
            dnf:java) echo java-17-openjdk-devel ;;
            apt-get:venv) echo python3-venv ;;
            apt-get:chromedriver) echo chromium-driver ;;
            dnf:venv) echo python3 ;;
            apt-get:openmp) echo libgomp1 ;;
            dnf:openmp) echo libgomp ;;
            *) echo "$name" ;;
        esac
    done
}

for manager in apt-get dnf; do
    command -v "$manager" >/dev/null || continue
    if [ "$(id -u)" -eq 0 ]; then
        rights=()
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        rights=(sudo -n)
    else
        mapfile -t wanted < <(packages "$manager")
        echo "SpecK needs: ${missing[*]}. Install them first, as root:  $manager install ${wanted[*]}"
        exit 1
    fi
    # Which packages there are is known only after this.
    [ "$manager" = apt-get ] && "${rights[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    mapfile -t wanted < <(packages "$manager")
    echo "installing ${wanted[*]}"
    "${rights[@]}" env DEBIAN_FRONTEND=noninteractive "$manager" install -y -q "${wanted[@]}" </dev/null
    exit 0
done
echo "SpecK needs: ${missing[*]} ($all)."
echo "No package manager known here (apt-get, dnf) was found; install them, then run make again."
exit 1
