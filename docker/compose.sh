# Sourced by up and down, from this folder: compose ARG… is whichever Compose this machine has.

# Its folder's name, the default, says nothing.
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-relay}

if docker compose version >/dev/null 2>&1; then
	compose() { docker compose -f compose.yaml "$@"; }
elif command -v docker-compose >/dev/null; then
	compose() { docker-compose -f compose.yaml "$@"; }
else
	echo "${0##*/}: neither 'docker compose' nor 'docker-compose' is here: install Docker's Compose" >&2
	exit 1
fi
