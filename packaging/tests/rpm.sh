. "$(dirname "$0")/use.sh"
files=$1
rpm=$(ls "$files"/headwater-*."$(uname -m)".rpm)
required=$(rpm --query --package --requires "$rpm")
case $required in *'libc.so.6(GLIBC_2.28)'*) ;; *) fail "the C library is not required: $required" ;; esac
case $required in *libfabric*) fail "what is only recommended is required: $required" ;; esac
# The package manager of this system is another one, so nothing is known to provide the C library.
rpm --install --nodeps "$rpm"
rpm --verify --nodeps headwater
use headwater
echo '# changed' >>/etc/headwater/site.conf
rpm --upgrade --nodeps --force "$rpm"
tail -1 /etc/headwater/site.conf | grep -q changed || fail 'a second installation overwrote the configuration'
rpm --erase headwater
rm /etc/headwater/site.conf.rpmsave
rmdir /etc/headwater 2>/dev/null || :
is_gone
