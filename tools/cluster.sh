#!/usr/bin/env bash
# A cluster on this machine, to try things by hand: hosts h1, h2, … with a network, a Slurm and a Redis, which are
# namespaces and leave nothing behind (tests/cluster/cluster.py). Needs root and `tools/install-deps.sh --tests`.
#
#   tools/cluster.sh up [--hosts 3] [--cpus 4]     starts it in the background; --cpus: what Slurm believes of each host
#   tools/cluster.sh run HOST COMMAND …            runs a command on a host, in the folder `work` of the cluster's
#   tools/cluster.sh hosts                         names and addresses
#   tools/cluster.sh cut|mend|kill HOST            unplugs its cable, plugs it in again, turns it off
#   tools/cluster.sh link HOST [QUEUE …]           slows what it sends, as tc says it: netem delay 50ms loss 1%
#   tools/cluster.sh down                          ends everything that lives in it, and removes its files
#
# FORETIME_CLUSTER is its folder, by default /var/tmp/foretime-cluster; another folder is another cluster. Not below /tmp,
# where each host has its own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${FORETIME_CLUSTER:-/var/tmp/foretime-cluster}
cluster=("$(command -v python3)" "$here/tests/cluster/cluster.py")

usage() { sed -n '2,/^set -euo/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
fail() {
  echo "cluster.sh: $*" >&2
  exit 1
}
# The process that holds the cluster; nothing where there is none. A number that another process has by now is not taken.
holder() {
  local pid
  pid=$(cat "$folder/up.pid" 2> /dev/null) || return 0
  if tr '\0' ' ' < "/proc/$pid/cmdline" 2> /dev/null | grep -qF "cluster.py up $folder "; then echo "$pid"; fi
}
require_up() { [[ -n $(holder) ]] || fail "no cluster is up in $folder; start one with: tools/cluster.sh up"; }

up() {
  [[ -z $(holder) ]] || fail "a cluster is up in $folder already; end it with: tools/cluster.sh down"
  [[ ! -e $folder || -e $folder/up.pid ]] || fail "$folder: is there, and is no cluster's; name another one in FORETIME_CLUSTER"
  [[ $folder != *[[:space:]]* ]] || fail "FORETIME_CLUSTER is '$folder', expected no blanks: slurm.conf cannot have them"
  rm -rf "$folder"
  mkdir -p "$folder/work"
  touch "$folder/up.log"
  # An input that never ends: the cluster ends with its input.
  mkfifo "$folder/input"
  setsid "${cluster[@]}" up "$folder" --slurm --redis "$@" 0<> "$folder/input" > "$folder/up.log" 2>&1 &
  local pid=$!
  echo "$pid" > "$folder/up.pid"
  while ! grep -q READY "$folder/up.log"; do
    if ! kill -0 "$pid" 2> /dev/null; then
      cat "$folder/up.log" >&2
      rm -rf "$folder"
      exit 1
    fi
    sleep 0.1
  done
  "${cluster[@]}" hosts "$folder"
}

down() {
  local pid
  pid=$(holder)
  if [[ -n $pid ]]; then
    kill -TERM "$pid"
    while kill -0 "$pid" 2> /dev/null; do sleep 0.05; done
  fi
  [[ ! -e $folder || -e $folder/up.pid ]] || fail "$folder: is no cluster's"
  if grep -qF " $folder/" /proc/self/mountinfo; then fail "$folder: something is mounted there still; it is left as it is"; fi
  rm -rf "$folder"
}

action=${1:-}
shift || true
case $action in
  up) up "$@" ;;
  run)
    require_up
    [[ $# -ge 2 ]] || fail "run: found $# arguments, expected a host and a command"
    cd "$folder/work"
    exec "${cluster[@]}" run "$folder" "$@"
    ;;
  hosts | cut | mend | kill | link)
    require_up
    exec "${cluster[@]}" "$action" "$folder" "$@"
    ;;
  down) down ;;
  -h | --help | help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
