# shellcheck shell=bash
# Named steps: each with its duration, never a silent minute, and a remedy when it fails.

# Seconds between two signs of life where lines cannot be overwritten.
readonly SIGN_EVERY=20

STEPS=()

seconds_since() { printf '%d' $((SECONDS - $1)); }

# How long the last line of a log was the same; the line itself says nothing new then.
LAST_SHOWN='' LAST_SHOWN_AT=0

last_line() { tail -c 2000 "$1" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c1-100 || true; }

# Sets NEWS: the last line of a log, or that it still is so.
find_news() {
  NEWS=$(last_line "$1")
  if [[ $NEWS == "$LAST_SHOWN" ]]; then
    ((SECONDS - LAST_SHOWN_AT < SIGN_EVERY)) ||
      NEWS="still at work (nothing new in the log for $(seconds_since "$LAST_SHOWN_AT") s)"
  else
    LAST_SHOWN=$NEWS LAST_SHOWN_AT=$SECONDS
  fi
}

show_life() {
  local name=$1 started=$2 log=$3 format='   %4d s  %s: %s'
  find_news "$log"
  # shellcheck disable=SC2059 # the format is the line's
  if [[ -t 1 ]]; then
    printf "\r\033[K$format" "$(seconds_since "$started")" "$name" "$NEWS"
  else
    printf "$format\n" "$(seconds_since "$started")" "$name" "$NEWS"
  fi
}

# Shows the last line of a quiet step's log until its process ends.
watch_step() {
  local pid=$1 name=$2 started=$3 log=$4 pause=1 next=$((SECONDS + SIGN_EVERY))
  [[ -t 1 ]] && next=$((SECONDS + 1))
  LAST_SHOWN=''
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    ((SECONDS >= next)) || continue
    [[ -t 1 ]] || pause=$SIGN_EVERY
    show_life "$name" "$started" "$log"
    next=$((SECONDS + pause))
  done
  [[ ! -t 1 ]] || printf '\r\033[K'
}

fail() {
  local name=$1 log=$2 remedy=$3
  {
    printf '\nFAILED: %s\n' "$name"
    [[ ! -s $log ]] || printf '\nthe last lines of its log:\n%s\n' "$(tail -n 15 "$log" | cut -c1-300)"
    printf '\nlog:  %s\ntry:  %s\n' "$log" "$remedy"
  } >&2
  exit 1
}

finish_step() {
  STEPS+=("$(printf '%-34s %5d s' "$1" "$2")")
  printf '   %4d s  %s: done\n' "$2" "$1"
}

# step NAME REMEDY COMMAND...: its output goes to a log.
step() {
  local name=$1 remedy=$2 started=$SECONDS log pid
  shift 2
  log=$LOGS/$((${#STEPS[@]} + 1))-${name// /-}.log
  printf '==> %s\n' "$name"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  watch_step "$pid" "$name" "$started" "$log"
  wait "$pid" || fail "$name" "$log" "$remedy"
  finish_step "$name" "$(seconds_since "$started")"
}

# open_step NAME REMEDY COMMAND...: its output is for people, and goes to a log as well.
open_step() {
  local name=$1 remedy=$2 started=$SECONDS log
  shift 2
  log=$LOGS/$((${#STEPS[@]} + 1))-${name// /-}.log
  printf '==> %s\n' "$name"
  # In the background, for a function called in a condition would go on after its first failure.
  { "$@" 2>&1 </dev/null | tee "$log"; } &
  wait "$!" || fail "$name" "$log" "$remedy"
  finish_step "$name" "$(seconds_since "$started")"
}
