#!/usr/bin/env bash
# tests/model/check.sh [NAME…]: has spin search every state of every configuration below, or of those named. What is meant
# to hold has to hold, in a search that came to its end; each sabotage has to be found out. Under a minute of processor time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v spin >/dev/null || { echo "check.sh: spin is missing: apt-get install spin" >&2; exit 2; }

# name | holds or fails | model | definitions
configurations='
hush                 | holds | hush    |
hush-savepoints      | holds | hush    | STATEMENTS=2 ROUNDS=1
hush-three-writers   | holds | hush    | WRITERS=3 ROUNDS=1
hush-lost-connection | holds | hush    | LOSSES=1 ROUNDS=1
hush-two-relays      | holds | hush    | RELAYS=2 ROUNDS=1
hush-two-relays-loss | holds | hush    | RELAYS=2 WRITERS=1 LOSSES=1 ROUNDS=1
hush-two-relays-kill | holds | hush    | RELAYS=2 WRITERS=1 DEATHS=1
no-settling          | fails | hush    | NO_SETTLE
no-waiting           | fails | hush    | NO_WAIT
note-before-release  | fails | hush    | NOTE_BEFORE_RELEASE
scan-before-gone     | fails | hush    | SCAN_BEFORE_GONE
keeps-notes          | fails | hush    | KEEPS_NOTES
forgets-debt         | fails | hush    | FORGETS_DEBT
ignores-try          | fails | hush    | IGNORES_TRY
ignores-old          | fails | hush    | IGNORES_OLD LOSSES=1
drain-before-listen  | fails | hush    | DRAIN_BEFORE_LISTEN
clears-late          | fails | hush    | CLEARS_LATE
death-is-not-free    | fails | hush    | EXPECTS_DEATH_TO_COST_NOTHING RELAYS=2 WRITERS=1 DEATHS=1
horizon              | holds | horizon | LANES=1
horizon-full-claims  | holds | horizon | LANES=1 LIMIT=2
horizon-two-lanes    | holds | horizon | LANES=2 ROUNDS=1
note-before-reached  | fails | horizon | LANES=1 NOTE_BEFORE_REACHED
no-waiting-for-ids   | fails | horizon | LANES=1 NO_WAIT
no-confirmation      | fails | horizon | LANES=1 NO_CONFIRMATION
confirmed-too-early  | fails | horizon | LANES=1 CONFIRMED_TOO_EARLY
theirs-below-mine    | fails | horizon | LANES=1 THEIRS_BELOW_MINE
lets-go-below        | fails | horizon | LANES=2 ROUNDS=1 LETS_GO_BELOW
lets-go-in-step      | fails | horizon | LANES=2 ROUNDS=1 LETS_GO_IN_STEP
draws-before-lock    | fails | horizon | LANES=1 DRAWS_BEFORE_LOCK
'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The search of one configuration, in a folder of its own: what it found stands in the file verdict.
search() {
  local name=$1 expected=$2 model=$PWD/$3.pml found text
  shift 3
  mkdir "$scratch/$name"
  cd "$scratch/$name"
  # 2 GB of memory and paths of 5,000 steps: beyond, pan says that the search did not come to its end.
  spin -a "${@/#/-D}" "$model" >log 2>&1 && gcc -O1 -w -DSAFETY -DMEMLIM=2000 -o pan pan.c >>log 2>&1 && ./pan -m5000 -w20 >>log 2>&1 || true
  text=$(<log)
  # A deadlock is not what a sabotage is to be found out by.
  if [[ $text == *"assertion violated"* && $text == *"errors: 1"* ]]; then
    found=fails
  elif [[ $text == *"errors: 0"* && $text != *"Search not completed"* && $text != *"max search depth too small"* ]]; then
    found=holds
  else
    found="came to no end"
  fi
  if [[ $found == "$expected" ]]; then
    echo "ok: $name $found, $(sed -n 's/^ *\([0-9]*\) states, stored.*/\1 states/p' log)" >verdict
  else
    { echo "FAILED: $name was to be: $expected; it is: $found"; echo "($model ${*/#/-D})"; tail -40 log; } >verdict
  fi
}

chosen=()
while IFS='|' read -r name expected model definitions; do
  read -r name <<<"$name"
  [[ -n $name ]] || continue
  [[ $# == 0 || " $* " == *" $name "* ]] || continue
  chosen+=("$name")
  # Words apart: no definition has a space in it.
  # shellcheck disable=SC2086
  search "$name" $expected $model $definitions &
  while [[ $(jobs -rp | wc -l) -ge $(nproc) ]]; do wait -n || true; done  # 127: all have ended by now
done <<<"$configurations"
wait
[[ ${#chosen[@]} -gt 0 ]] || { echo "check.sh: no configuration has that name: $*" >&2; exit 2; }

failed=0
for name in "${chosen[@]}"; do
  cat "$scratch/$name/verdict"
  [[ $(<"$scratch/$name/verdict") == ok:* ]] || failed=1
done
exit "$failed"
