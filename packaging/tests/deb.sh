. "$(dirname "$0")/use.sh"
files=$1
export DEBIAN_FRONTEND=noninteractive
deb=$(ls "$files"/headwater_*_"$(dpkg --print-architecture)".deb)
apt-get update -q
apt-get install -q -y "$deb"
command -v fusermount3 || fail 'what the package recommends is not installed'
use headwater
ldconfig -p | grep -q libheadwater-spawn.so || fail 'the spawning library is not in the cache of the loader'
[ -s /usr/share/doc/headwater/copyright ] || fail 'no copyright file'

# Of what is on all paths, the module takes nothing away.
before=$PATH
set +u
. /usr/share/lmod/lmod/init/profile
module use /usr/share/modulefiles
module load headwater
module unload headwater
[ "$PATH" = "$before" ] || fail "loading and unloading the module changed PATH from $before to $PATH"
set -u

echo '# changed' >>/etc/headwater/site.conf
dpkg -i "$deb"
tail -1 /etc/headwater/site.conf | grep -q changed || fail 'a second installation overwrote the configuration'
apt-get remove -q -y headwater
[ -e /etc/headwater/site.conf ] || fail 'removal took the configuration'
apt-get purge -q -y headwater
is_gone
