#!/bin/sh
# Start Spindle with secrets from files: NAME_FILE=/run/secrets/name becomes the variable NAME.
set -eu
folder="${SPINDLE_SECRETS_FOLDER:-/run/secrets}"
for name in $(env | sed -n "s|^\([A-Za-z_][A-Za-z0-9_]*\)_FILE=$folder/.*|\1|p"); do
    eval "path=\$${name}_FILE"
    if [ ! -r "$path" ]; then
        echo "spindle: cannot read $path, which ${name}_FILE names; user $(id -u) must be able to read it" >&2
        exit 2
    fi
    value="$(cat "$path")"
    export "$name=$value"
    unset "${name}_FILE"
done
exec spindle "$@"
