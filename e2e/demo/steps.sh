# shellcheck shell=bash
# Named steps: each with its duration, never a silent minute, and a remedy when it fails.

# Seconds between two signs of life where lines cannot be overwritten.
readonly SIGN_EVERY=20

STEPS=()

# The steps under way, by process: those that do not wait for each other run beside each other.
declare -A STEP_NAME=() STEP_REMEDY=() STEP_LOG=() STEP_STARTED=()
# How long the last line of a step's log was the same; the line itself says nothing new then.
declare -A LAST_SHOWN=() LAST_SHOWN_AT=()
STEPS_BEGUN=0

seconds_since() { printf '%d' $((SECONDS - $1)); }

last_line() { tail -c 2000 "$1" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | cut -c1-100 || true; }

# find_news PID: sets NEWS: the last line of the step's log, or that it still is so.
find_news() {
  NEWS=$(last_line "${STEP_LOG[$1]}")
  if [[ $NEWS == "${LAST_SHOWN[$1]:-}" ]]; then
    ((SECONDS - LAST_SHOWN_AT[$1] < SIGN_EVERY)) ||
      NEWS="still at work (nothing new in the log for $(seconds_since "${LAST_SHOWN_AT[$1]}") s)"
  else
    LAST_SHOWN[$1]=$NEWS LAST_SHOWN_AT[$1]=$SECONDS
  fi
}

# A line for each step under way; on a terminal they take turns in one line.
show_life() {
  local pid format='   %4d s  %s: %s' pids=("${!STEP_NAME[@]}")
  [[ ! -t 1 ]] || pids=("${pids[SECONDS / 2 % ${#pids[@]}]}")
  for pid in "${pids[@]}"; do
    find_news "$pid"
    # shellcheck disable=SC2059 # the format is the line's
    if [[ -t 1 ]]; then
      printf "\r\033[K$format" "$(seconds_since "${STEP_STARTED[$pid]}")" "${STEP_NAME[$pid]}" "$NEWS"
    else
      printf "$format\n" "$(seconds_since "${STEP_STARTED[$pid]}")" "${STEP_NAME[$pid]}" "$NEWS"
    fi
  done
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

# Ends a process and all that it started.
end_tree() {
  local child
  for child in $(ps -o pid= --ppid "$1"); do
    end_tree "$child"
  done
  kill "$1" 2>/dev/null || true
}

# Nothing works on when a step failed or somebody pressed Ctrl-C.
end_steps() {
  local pid
  for pid in "${!STEP_NAME[@]}"; do
    end_tree "$pid"
  done
}
trap end_steps EXIT
trap 'exit 130' INT TERM

finish_step() {
  STEPS+=("$(printf '%-34s %5d s' "$1" "$2")")
  printf '   %4d s  %s: done\n' "$2" "$1"
}

# tell_durations STARTED: of every step, and of all since then.
tell_durations() {
  printf '\n'
  printf '%s\n' "${STEPS[@]}"
  printf '%-34s %5d s\n' "all" "$(seconds_since "$1")"
}

# Sets LOG.
next_log() { LOG=$LOGS/$((++STEPS_BEGUN))-${1// /-}.log; }

# begin NAME REMEDY COMMAND...: its output goes to a log; finish_begun waits for it.
begin() {
  local name=$1 remedy=$2 pid
  shift 2
  next_log "$name"
  printf '==> %s\n' "$name"
  "$@" >"$LOG" 2>&1 </dev/null &
  pid=$!
  STEP_NAME[$pid]=$name STEP_REMEDY[$pid]=$remedy STEP_LOG[$pid]=$LOG STEP_STARTED[$pid]=$SECONDS
}

# Ends the script when the step of a process that ended has failed.
take_result() {
  local pid=$1 name=${STEP_NAME[$1]}
  [[ ! -t 1 ]] || printf '\r\033[K'
  unset "STEP_NAME[$pid]"
  wait "$pid" || fail "$name" "${STEP_LOG[$pid]}" "${STEP_REMEDY[$pid]}"
  finish_step "$name" "$(seconds_since "${STEP_STARTED[$pid]}")"
}

# Shows the last lines of the logs until all begun steps have ended.
finish_begun() {
  local pid pause=1 next=$((SECONDS + SIGN_EVERY))
  [[ ! -t 1 ]] || next=$((SECONDS + 1))
  while ((${#STEP_NAME[@]} > 0)); do
    sleep 0.2
    for pid in "${!STEP_NAME[@]}"; do
      kill -0 "$pid" 2>/dev/null || take_result "$pid"
    done
    ((SECONDS >= next && ${#STEP_NAME[@]} > 0)) || continue
    [[ -t 1 ]] || pause=$SIGN_EVERY
    show_life
    next=$((SECONDS + pause))
  done
}

# step NAME REMEDY COMMAND...: alone; its output goes to a log.
step() {
  begin "$@"
  finish_begun
}

# open_step NAME REMEDY COMMAND...: its output is for people, and goes to a log as well.
open_step() {
  local name=$1 remedy=$2 started=$SECONDS
  shift 2
  next_log "$name"
  printf '==> %s\n' "$name"
  # In the background, for a function called in a condition would go on after its first failure.
  { "$@" 2>&1 </dev/null | tee "$LOG"; } &
  wait "$!" || fail "$name" "$LOG" "$remedy"
  finish_step "$name" "$(seconds_since "$started")"
}
