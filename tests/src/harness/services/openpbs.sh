# Starts OpenPBS on this node, as one of a cluster: sh openpbs.sh EXEC CONTROLLER NODE…, where EXEC is where it is
# installed, CONTROLLER is the node that controls, and NODEs are all others. Ends when it is killed.
set -eu
exec=$1 controller=$2
shift 2
mkdir -p /run/pbs
# Where Debian's PostgreSQL, OpenPBS's database, has its socket.
install -d -o postgres /run/postgresql
mount -t tmpfs -o mode=755 tmpfs /run/pbs
export PBS_CONF_FILE=/run/pbs/pbs.conf PATH="$exec/bin:$exec/sbin:$PATH"
here=$(hostname)
controls=$([ "$here" = "$controller" ] && echo 1 || echo 0)
cat >$PBS_CONF_FILE <<X
PBS_EXEC=$exec
PBS_SERVER=$controller
PBS_HOME=/run/pbs/home
PBS_START_SERVER=$controls
PBS_START_SCHED=$controls
PBS_START_COMM=$controls
PBS_START_MOM=1
X
# It makes the directories, and reports what it can't do in a system of today.
bash "$exec/libexec/pbs_habitat" || :
if [ $controls = 1 ]; then
    pbs_comm
    pbs_sched
    pbs_server
fi
pbs_mom
if [ $controls = 1 ]; then
    until qmgr -c "set server acl_roots = root@*"; do sleep 0.2; done
    for node in "$here" "$@"; do pbsnodes "$node" || qmgr -c "create node $node"; done
fi
exec sleep infinity
