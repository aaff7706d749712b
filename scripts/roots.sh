# Debian systems of their own in .roots/, for the scripts that run commands in them; to be sourced.

# What is put into a system is for all of its users.
umask 022

# The Debian release that has a PostgreSQL. 19 is in experimental, which comes on top of sid; 16 is in none, but the Perl
# modules of 17's tests work with it, too.
# shellcheck disable=SC2034
declare -A debian_of=([15]=bookworm [16]=trixie [17]=trixie [18]=forky [19]=sid [arm64]=forky)

checkout=$(cd "$(dirname "$0")/.." && pwd)
roots=$checkout/.roots

# Where this machine gets its own packages from: sources LABEL FORMAT, a line for each of Debian's.
sources() {
    [ -n "$(apt-get indextargets)" ] || apt-get -qq update
    apt-get indextargets --format "$2" 'Created-By: Packages' "$1"
}

# Mounts end with the private namespace that made them, so nothing is ever mounted here when a root is deleted; if that
# ever fails to hold, stop instead of deleting through a mount.
delete() {
    if grep -qF " $1" /proc/mounts; then
        echo "$1 has something mounted in it: not deleting it" >&2
        exit 1
    fi
    rm -rf --one-file-system "$1"
}

# Runs a command with its output in $log, the end of which is shown if it fails.
logged() {
    # shellcheck disable=SC2154
    "$@" >>"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
}

# bootstrap RELEASE ROOT: the least of a Debian.
bootstrap() {
    local release=$1 new=$2 mirror
    "$checkout/scripts/need" debootstrap
    delete "$new"
    mkdir -p "$roots"
    : >"$log"
    # shellcheck disable=SC2016
    mirror=$(sources 'Label: Debian' '$(REPO_URI)' | head -n 1)
    # The script is named because debootstrap has none for a release younger than itself.
    logged unshare --mount debootstrap --variant=minbase "$release" "$new" "$mirror" \
        /usr/share/debootstrap/scripts/sid
    printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
    chmod +x "$new/usr/sbin/policy-rc.d"
    # A mirror that lags behind is good enough to test on, so an expired release file is accepted.
    echo 'Acquire::Check-Valid-Until "false";' >"$new/etc/apt/apt.conf.d/lagging-mirror"
}

# add_packages ROOT PACKAGE...
add_packages() {
    local new=$1
    shift
    logged unshare --mount sh -c "mount -t proc proc '$new/proc' && DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
        chroot '$new' sh -c 'apt-get update && apt-get install -y --no-install-recommends $* && apt-get clean'"
}

# PostgreSQL 16.2 as a Python package, of which nothing but its files is used.
wheel="pgserver==0.1.4 --hash=sha256:d595789b47624a3d963aa9aa6359da9be31beb7e61f1a45541953242068b8813"
wheel_place=/opt/wheel/pgserver/pginstall

# Puts the wheel's PostgreSQL where Debian's would be.
add_wheel() {
    "$checkout/scripts/need" python3-pip
    echo "$wheel" >"$1/opt/wheel.txt"
    logged python3 -m pip install --target "$1/opt/wheel" --no-deps --no-compile --require-hashes --only-binary :all: \
        --platform manylinux2014_x86_64 --python-version 3.11 --requirement "$1/opt/wheel.txt"
    ln -s "$wheel_place" "$1/usr/lib/postgresql/16"
}

# What a system has beside its files; in a private mount namespace, with which these mounts end. Shared memory is not the
# machine's, where it would outlive servers that are killed.
mount_system() {
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
}

# Runs this script again, with these arguments, in mount and process namespaces of its own.
in_namespaces() {
    exec unshare --mount --pid --fork --kill-child "$0" "$@"
}
