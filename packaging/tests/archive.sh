. "$(dirname "$0")/use.sh"
files=$1
tar -xJf "$files"/headwater-*-"$(uname -m)".tar.xz -C /tmp
use /tmp/headwater-*/bin/headwater
/tmp/headwater-*/install.sh --prefix /opt/headwater/1
use /opt/headwater/1/bin/headwater

# The module file, with the system's Lmod.
set +u
. /usr/share/lmod/lmod/init/profile
module use /opt/headwater/1/share/modulefiles
module --redirect show headwater | grep -q /opt/headwater/1/bin || fail 'module show'
module --redirect help headwater | grep -q 'headwater help' || fail 'module help'
module load headwater
[ "$(command -v headwater)" = /opt/headwater/1/bin/headwater ] || fail "module load: $PATH"
[ "$LIBRARY_PATH" = /opt/headwater/1/lib ] || fail "module load: $LIBRARY_PATH"
use headwater
module unload headwater
command -v headwater && fail "module unload: $PATH"
[ -z "$LIBRARY_PATH$CPATH" ] || fail "module unload: $LIBRARY_PATH $CPATH"

rm -r /opt/headwater
is_gone
