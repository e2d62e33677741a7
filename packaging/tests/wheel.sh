. "$(dirname "$0")/use.sh"
files=$1
python3 -m venv /opt/venv
/opt/venv/bin/pip install --quiet --no-index "$files"/headwater-*-"manylinux_2_28_$(uname -m)".whl
use /opt/venv/bin/headwater
/opt/venv/bin/pip check
ln -s /opt/venv/bin/headwater /usr/local/bin/headwater
use headwater
rm /usr/local/bin/headwater
# Environments are copied to a file system that all nodes see, and are moved.
cp -a /opt/venv /srv/copied
mv /opt/venv /opt/moved
use /srv/copied/bin/headwater
use /opt/moved/bin/headwater
rm -r /srv/copied
mv /opt/moved /opt/venv
/opt/venv/bin/pip uninstall --quiet --yes headwater
is_gone
