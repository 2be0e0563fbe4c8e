#!/usr/bin/env bash
# Installs Python packages into an environment: install-packages.sh ENVIRONMENT ARGUMENTS OF pip install...
# By uv, which takes some third of pip's processor time and time, or by pip where uv cannot be installed or fails.
# All output goes to standard error.
set -euo pipefail
exec 1>&2
bin=$1/bin
shift
export PIP_DISABLE_PIP_VERSION_CHECK=1

# uv reads no configuration of pip: it must not ask another index than the one configured there.
index=${PIP_INDEX_URL:-$("$bin/pip" config get global.index-url 2>/dev/null || true)}
[ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
export UV_NATIVE_TLS=1

# uv builds the wheel of PySpark, of which there is a source archive alone. To compress its 460 MB of jars, which are
# compressed already, would take 20 s of processor time.
stored=pyspark:--build-option=--compression=stored

if "$bin/pip" -q install -c constraints.txt uv &&
    "$bin/uv" pip install -q --python "$bin/python" --config-settings-package "$stored" "$@"; then
    exit 0
fi
echo "uv did not install the packages: pip does (a minute or two)"
exec "$bin/pip" -q install --use-pep517 "$@"
