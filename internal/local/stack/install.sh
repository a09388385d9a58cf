# Installs a Debian package for its programs alone: no service of it is
# started, now or at boot, and no database cluster is made for it.
# Runs as root: sh -s -- postgresql | redis-server | pgbouncer | prometheus | chromium
set -eu

package=$1
export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 LC_ALL=C

# One at a time: several processes may miss the same program at once.
exec 9>/run/melmastoon-install.lock
flock 9
installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }
if installed "$package"; then exit 0; fi

policy=/usr/sbin/policy-rc.d
own_policy=
clusters=/etc/postgresql-common/createcluster.conf
saved_clusters=
undo() {
	if [ -n "$own_policy" ]; then rm -f "$policy"; fi
	if [ -n "$saved_clusters" ]; then cat "$saved_clusters" >"$clusters"; rm -f "$saved_clusters"; fi
}
trap undo EXIT
trap 'exit 130' INT TERM HUP

if [ ! -e "$policy" ]; then
	own_policy=1
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

# What apt starts must not read on in this script, nor keep the lock.
apt() {
	apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null 9>&-
}

# Stale lists are worth a try when one of the sources cannot be reached.
apt update || echo "package lists could not be refreshed" >&2

if [ "$package" = postgresql ]; then
	# Otherwise the package makes a cluster and takes port 5432 for it.
	apt install --no-install-recommends postgresql-common
	saved_clusters=$(mktemp)
	cat "$clusters" >"$saved_clusters"
	sed -i '/^[#[:space:]]*create_main_cluster[[:space:]]*=/d' "$clusters"
	echo 'create_main_cluster = false' >>"$clusters"
fi

apt install --no-install-recommends "$package"

if [ "$package" != postgresql ]; then
	# Where an administrator's policy let the service start: it is not wanted.
	service "$package" stop >/dev/null 2>&1 || true
	if command -v systemctl >/dev/null; then systemctl disable "$package" >/dev/null 2>&1 || true; fi
fi
