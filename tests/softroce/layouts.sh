# layouts.sh: the ways to lay out RDMA devices in the guest, sourced by job.sh.
# Each layout_NAME COUNT makes the devices, waits until they are usable, and exports
#   SOFTROCE_DEVICES    their names, separated by blanks
#   SOFTROCE_ADDRESSES  the IPv4 address that belongs to each
#   SOFTROCE_GID_INDEX  the index of the RoCE v2 GID made from that address (1 on each)

# The GID table and the port state follow the network device a little later.
wait_for_device()
{
    local port=/sys/class/infiniband/$1/ports/1 i state type
    for ((i = 0; i < 250; i++)); do
        state='' type=''
        read -r state <"$port/state"
        read -r type <"$port/gid_attrs/types/1"
        [[ $state == *ACTIVE && $type == 'RoCE v2' ]] && return 0
        sleep 0.02
    done 2>/dev/null
    echo "softroce: device $1 has state '$state' and GID 1 of type '$type' after 5 s" >&2
    return 1
}

announce()
{
    export SOFTROCE_GID_INDEX=1 SOFTROCE_DEVICES=$1 SOFTROCE_ADDRESSES=$2
}

# One device on the loopback interface: every verb works, rdma_cm does not (it finds no device
# for a loopback address). GID 0 is link-local, but lo has no such address; with it, GID 0 can be
# reached too (UCX needs an IPv6 GID there).
layout_lo()
{
    ip -batch - <<-'END' || return 1
	link set lo up
	address add fe80::200:ff:fe00:0/64 dev lo nodad
	END
    rdma link add rxe0 type rxe netdev lo || return 1
    announce rxe0 127.0.0.1
    wait_for_device rxe0
}

# One device on a dummy interface that has an address: rdma_cm works too.
layout_dummy()
{
    ip -batch - <<-'END' || return 1
	link set lo up
	link add sfab0 mtu 9000 type dummy
	address add 10.9.1.1/24 dev sfab0
	link set sfab0 up
	END
    rdma link add rxe0 type rxe netdev sfab0 || return 1
    announce rxe0 10.9.1.1
    wait_for_device rxe0
}

# COUNT devices rx0, rx1, ... on veth pairs whose far ends p0, p1, ... meet in a bridge. All
# addresses belong to one machine, so the kernel would short-cut the traffic through lo; policy
# routing keeps it on the wires, where netem and link down act on it:
#   - an interface answers ARP for its own address only, and accepts packets from local addresses;
#   - the table of local addresses is asked last for what leaves, so that a packet from one of our
#     addresses to another goes out through the sender's veth;
#   - rdma_cm looks routes up with the outgoing interface given instead of "from this machine",
#     hence the second rule for each device.
layout_multi()
{
    local count=$1 i address table names='' addresses='' knob
    for knob in all/rp_filter=0 default/rp_filter=0 all/accept_local=1 default/accept_local=1 \
        all/arp_ignore=1 all/arp_announce=2; do
        echo "${knob#*=}" >"/proc/sys/net/ipv4/conf/${knob%=*}" || return 1
    done
    {
        echo "link set lo up"
        echo "link add sfabbr mtu 4500 type bridge"
        echo "link set sfabbr up"
        echo "rule add pref 9000 lookup local"
        echo "rule del pref 0"
        for ((i = 0; i < count; i++)); do
            address=10.7.0.$((i + 1)) table=$((1000 + i))
            echo "link add v$i mtu 4500 type veth peer name p$i mtu 4500"
            echo "link set p$i master sfabbr"
            echo "link set p$i up"
            echo "address add $address/32 dev v$i"
            echo "link set v$i up"
            echo "route add 10.7.0.0/24 dev v$i src $address table $table"
            echo "rule add pref $((1000 + i)) from $address to $address lookup local"
            echo "rule add pref $((2000 + i)) from $address to 10.7.0.0/24 iif lo lookup $table"
            echo "rule add pref $((3000 + i)) from $address to 10.7.0.0/24 oif v$i lookup $table"
        done
    } | ip -batch - || return 1
    for ((i = 0; i < count; i++)); do
        rdma link add "rx$i" type rxe netdev "v$i" || return 1
        names+=" rx$i" addresses+=" 10.7.0.$((i + 1))"
    done
    announce "${names# }" "${addresses# }"
    for ((i = 0; i < count; i++)); do
        wait_for_device "rx$i" || return 1
    done
}
