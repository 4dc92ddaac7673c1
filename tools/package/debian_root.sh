# shellcheck shell=bash
# shellcheck disable=SC2154  # what the scripts that source it set
# Bare Debian systems made by debootstrap, for the scripts of this folder that source it: fresh_root.sh, cuda_root.sh.
# They set `root` (the folder), `suite`, `mirror` (empty: the one that this machine's apt uses for Debian, else
# debootstrap's own), and `source_root` (the source tree). What is mounted in a system is unmounted at the script's end.

# debian_root_check NAME: ends the script NAME with exit code 2 where a system cannot be made.
debian_root_check() {
  [[ $root != / ]] || { echo "$1: DIR must not be the running system" >&2; exit 2; }
  [[ $(id -u) == 0 ]] || { echo "$1: needs root" >&2; exit 2; }
  command -v debootstrap > /dev/null || { echo "$1: needs debootstrap (apt-get install debootstrap)" >&2; exit 2; }
}

root_variables=()

# make_root [COMPONENTS]: main, or main,contrib,non-free.
make_root() {
  if [[ -z $mirror ]]; then
    # shellcheck disable=SC2016  # $(REPO_URI) is apt's own
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' \
      2> /dev/null | head -n 1 || true)
  fi
  mkdir -p "$root"
  debootstrap --variant=minbase --components="${1:-main}" "$suite" "$root" ${mirror:+"$mirror"}
}

# Where the host reaches its mirror through a proxy, so must the new system; services must not start in it. What dpkg
# unpacks there need not survive a loss of power.
prepare_root() {
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  apt-config dump | grep -iE '^Acquire::(http|https)::Proxy ' > "$root/etc/apt/apt.conf.d/90host-proxy" || true
  printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
  chmod +x "$root/usr/sbin/policy-rc.d"
  echo force-unsafe-io > "$root/etc/dpkg/dpkg.cfg.d/fast"
  # Certificates that npm is told to trust here.
  if [[ -f ${NODE_EXTRA_CA_CERTS:-} ]]; then
    mkdir -p "$root/etc/ssl"
    cp -L "$NODE_EXTRA_CA_CERTS" "$root/etc/ssl/host-certificates.crt"
    root_variables+=(NODE_EXTRA_CA_CERTS=/etc/ssl/host-certificates.crt)
  fi
}

mounted=()
unmount_all() {
  local i
  for ((i = ${#mounted[@]} - 1; i >= 0; --i)); do umount -l "${mounted[i]}" || true; done
}
trap unmount_all EXIT
mount_at() {
  local target=$root$1
  shift
  mkdir -p "$target"
  if ! mountpoint -q "$target"; then
    mount "$@" "$target"
    mounted+=("$target")
  fi
}
# A /dev of its own: with the host's, mounting and unmounting below it would reach the host. The root is a mount by itself,
# since tests make namespaces, which a folder's root is refused.
mount_all() {
  mount_at / -o bind "$root"
  mount_at /proc -t proc proc
  mount_at /sys -o bind,ro /sys
  mount_at /dev/shm -t tmpfs tmpfs
  mount_at /dev/pts -t devpts devpts
}

# Puts the committed tree into the system, as /root/foretime.
clone_tree() {
  rm -rf "${root:?}/root/foretime"
  commit=$(git -C "$source_root" rev-parse --short HEAD)
  git clone -q --no-hardlinks "$source_root" "$root/root/foretime"
  # The clone belongs to whoever ran git out here; inside, everything is root's.
  chown -R 0:0 "$root/root/foretime"
}

# in_root COMMAND: runs it in the system's /root/foretime, with a clean environment and the variables NAME=VALUE in
# root_variables.
in_root() {
  chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    LANG=C.UTF-8 CI=true DEBIAN_FRONTEND=noninteractive "${root_variables[@]}" bash -c "cd /root/foretime && $1"
}

# timed NAME COMMAND...: its exit code; NAME and the seconds are a line of the report.
report=()
timed() {
  local name=$1 began=$SECONDS status=0
  shift
  echo "== $name"
  "$@" || status=$?
  report+=("$name: $((SECONDS - began)) s$([[ $status == 0 ]] || echo ", FAILED with exit code $status")")
  return "$status"
}
print_report() {
  echo "== Debian ($suite) in $root, commit $commit, $(nproc) cores"
  printf '%s\n' "${report[@]}"
}
