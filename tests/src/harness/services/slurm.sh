# Starts Slurm on this node, as one of a cluster: sh slurm.sh DIRECTORY NODES CONTROLLER [LIBRARY], where all nodes
# see DIRECTORY, NODES is a hostlist, CONTROLLER is the node that controls, and LIBRARY is preloaded into slurmd.
# Plugins are loaded if there is a DIRECTORY/plugstack.conf. TRACKED_BY=cgroup makes Slurm
# kill what is left of a step, by control groups of version 1. Ends with its children.
set -eu
directory=$1 nodes=$2 controller=$3
mkdir -p /run/munge /var/tmp/munge /var/tmp/slurmd /var/tmp/slurmctld
chmod 755 /run/munge
chmod 700 /var/tmp/munge
install -m 400 "$directory/munge.key" /var/tmp/munge/key
munged --force --foreground --key-file=/var/tmp/munge/key --socket=/run/munge/munge.socket.2 \
    --pid-file=/run/munge/munged.pid --log-file=/var/tmp/munge/log --seed-file=/var/tmp/munge/seed --num-threads=1 &
while ! munge -n >/dev/null 2>&1; do sleep 0.02; done
echo CgroupPlugin=cgroup/v1 >/var/tmp/cgroup.conf
cat >/var/tmp/slurm.conf <<X
ClusterName=bench
SlurmctldHost=$controller
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/${TRACKED_BY:-linuxproc}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/var/tmp/slurmd
StateSaveLocation=/var/tmp/slurmctld
SlurmctldLogFile=/var/tmp/slurmctld.log
SlurmdLogFile=/var/tmp/slurmd.log
NodeName=$nodes CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
X
if [ -e "$directory/plugstack.conf" ]; then echo "PlugStackConfig=$directory/plugstack.conf" >>/var/tmp/slurm.conf; fi
export SLURM_CONF=/var/tmp/slurm.conf
if [ "$(hostname)" = "$controller" ]; then slurmctld -D -f $SLURM_CONF & fi
env ${4:+LD_PRELOAD=$4} slurmd -D -f $SLURM_CONF &
wait
