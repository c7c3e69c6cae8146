# Workers behind a command prefix: network namespaces, and a second host over ssh, which is an sshd of the test's own. What is
# behind it carries this test's mark as well, so that "nothing is left" counts both sides.
load common

# A server namespace and a client namespace with an ordinary Ethernet between them: NS_S (10.77.0.1), NS_C (10.77.0.2).
namespaces() {
    local id=$BASHPID
    [ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
    ip netns add "pqs$id" 2>/dev/null || skip "this system has no network namespaces"
    NS_S=pqs$id
    ip netns add "pqc$id" && NS_C=pqc$id
    # Where / is no mount point, in a bare chroot, ip cannot enter what it made.
    ip -n "$NS_S" link set lo up 2>/dev/null || skip "this system does not let ip into a network namespace"
    ip link add s0 netns "$NS_S" type veth peer name c0 netns "$NS_C" || skip "this kernel has no veth"
    ip -n "$NS_S" addr add 10.77.0.1/24 dev s0
    ip -n "$NS_C" addr add 10.77.0.2/24 dev c0
    ip -n "$NS_S" link set s0 up
    ip -n "$NS_C" link set c0 up
}

# ssh_host [PREFIX...]: starts an sshd on ADDRESS (127.0.0.1), itself behind a prefix; SSH is the command that gets there.
ssh_host() {
    local sshd port
    [ -n "${PQSHAKE_FULL:-}" ] || skip "only with ./check --full"
    sshd=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd) || skip "there is no sshd"
    [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd || skip "sshd needs /run/sshd"
    port=$(free_port)
    ssh-keygen -q -t ed25519 -N '' -f host_key
    ssh-keygen -q -t ed25519 -N '' -f user_key
    cp user_key.pub authorized_keys
    echo "[${ADDRESS:=127.0.0.1}]:$port $(cut -d' ' -f1,2 host_key.pub)" >known_hosts
    cat >sshd_config <<END
ListenAddress $ADDRESS:$port
HostKey $PWD/host_key
AuthorizedKeysFile $PWD/authorized_keys
PidFile $PWD/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
SetEnv $MARK
END
    cat >ssh_config <<END
Host far
    HostName $ADDRESS
    Port $port
    User $(id -un)
    IdentityFile $PWD/user_key
    IdentitiesOnly yes
    UserKnownHostsFile $PWD/known_hosts
    BatchMode yes
END
    "$@" "$sshd" -D -f "$PWD/sshd_config" -E "$PWD/sshd.log" 3>&- &
    SERVERS+=("$!")
    wait_for 10 [ -s sshd.pid ]
    SSH="ssh -F $PWD/ssh_config far"
}

teardown() {
    stop_all
    no_processes
    [ -z "$NS_S" ] || ip netns del "$NS_S"
    [ -z "$NS_C" ] || ip netns del "$NS_C"
}

stored() {
    [ -e out/run.db ] && [ "$(sql out 'select count(*) from trial' 2>/dev/null || echo 0)" -ge "$1" ]
}

fact() {
    sql out "select distinct value from fact where side = '$1' and name = '$2'"
}

# Starts a run of three trials in the background and waits until one is stored and the next under way.
second_trial() {
    (exec_pq tls --groups X25519 --rate 50 --duration 4s --warmup 100ms --blocks 3 --out out --json s.json "$@") >run.out 2>&1 &
    RUN=$!
    SERVERS+=("$RUN")
    wait_for 60 stored 1
    both() { [ -n "$(far client)" ] && [ -n "$(far server)" ]; }
    wait_for 30 both
}

# processes EXECUTABLE ROLE: those of that program whose command line ends in that of this build's worker in that role. Without
# starting any others: on a busy machine that would take longer than a trial.
processes() {
    local dir words
    for dir in /proc/[0-9]*; do
        [[ $dir/exe -ef $1 ]] && mapfile -d '' -t words <"$dir/cmdline" 2>/dev/null || continue
        [ "${words[*]: -2}" = "${PQSHAKE%/*}/pqshake-worker-openssl $2" ] && echo "${dir#/proc/}"
    done
    return 0
}

# The worker itself of a role, not the prefix before it.
far() {
    processes "${PQSHAKE%/*}/pqshake-worker-openssl" "$1"
}

# The ssh that leads to it.
link_to() {
    processes "$(command -v ssh)" "$1"
}

gone() {
    ! kill -0 "$1" 2>/dev/null
}

# The run goes on to its end: one trial is lost, two are finished.
one_lost() {
    status=0
    wait "$RUN" || status=$?
    output=$(cat run.out)
    sql out "select state, note from trial order by id" # for whoever reads of a failure
    [ "$(sql out "select group_concat(state, ' ') from (select state from trial order by state = 'finished')")" = "$1 finished finished" ]
    sql out "select note from trial where state = '$1'" | grep -qF "$2"
    measured s.json
    reconciled s.json
}

@test "two network namespaces: no loopback, everything counted, own server still" {
    namespaces
    run pq tls "${BRIEF[@]}" --groups X25519MLKEM768 --server-via "ip netns exec $NS_S" --client-via "ip netns 'exec' $NS_C" \
        --server-host 10.77.0.1 --out out --json s.json
    measured s.json
    reconciled s.json
    valid_summary s.json
    check s.json '.arms[0].counts.completed == 50 and .arms[0].cpu_ns.server > 0'
    check s.json '[.findings[].id] | index("loopback") == null and index("foreign-cpu") == null'
    check s.json '.environment.server.via == $ns and .environment.client.via != null' --arg ns "ip netns exec $NS_S"
    [ "$(fact client loopback)" = no ]
    [ "$(fact client same_machine)" = yes ]
    [ "$(fact client target)" = own ]
    [ "$(fact client via)" = "ip netns 'exec' $NS_C" ]
    [ "$(fact client tcp.mss)" -le 1460 ]
    no_marked
}

@test "a server that the client cannot reach: exit 2 before anything is measured, --server-host is named" {
    namespaces
    for via in --server-via --client-via; do
        run pq tls "${BRIEF[@]}" "$via" "ip netns exec $NS_S" --out out
        [ "$status" -eq 2 ]
        says "127.0.0.1" "cannot reach" "--server-host"
        [ ! -e out ]
    done
    # Behind the same prefix both have the same loopback.
    run pq tls "${BRIEF[@]}" --groups X25519 --server-via "ip netns exec $NS_S" --client-via "ip netns exec $NS_S" --out out \
        --json s.json
    measured s.json
    [ "$(fact client loopback)" = yes ]
}

@test "over ssh, both sides: as here" {
    ssh_host
    run pq tls "${BRIEF[@]}" --server-via "$SSH" --client-via "$SSH" --out out --json s.json
    measured s.json
    reconciled s.json
    check s.json 'all(.arms[]; .counts.completed == 50 and .negotiated.verified == 50 and .cpu_ns.server > 0)'
    [ "$(fact server via)" = "$SSH" ]
    no_marked
}

@test "a server over ssh in another namespace, a client in this machine's other one" {
    namespaces
    ADDRESS=10.77.0.1
    ssh_host ip netns exec "$NS_S"
    run pq tls "${BRIEF[@]}" --groups X25519 --server-via "ip netns exec $NS_C $SSH" --client-via "ip netns exec $NS_C" \
        --server-host 10.77.0.1 --out out --json s.json
    measured s.json
    reconciled s.json
    [ "$(fact client loopback)" = no ]
    no_marked
}

@test "load and serve through a prefix" {
    ssh_host
    (exec_pq serve --listen 127.0.0.1:0 --server-via "$SSH" --ca-out ca.pem) >served.out 2>&1 &
    SERVER=$!
    SERVERS+=("$SERVER")
    wait_for 30 grep -q '^CA' served.out
    port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' served.out)
    run pq load "${BRIEF[@]}" --target "localhost:$port" --ca ca.pem --client-via "$SSH" --out out --json s.json
    measured s.json
    stop_server
    grep -q '^completed  *5[0-9]' served.out # warm-up and preflight too
    # SIGKILL sends nothing through ssh: the end of its input must end the server.
    (exec_pq serve --listen 127.0.0.1:0 --server-via "$SSH" --ca-out ca2.pem) >served2.out 2>&1 &
    SERVERS+=("$!")
    wait_for 30 grep -q '^CA' served2.out
    server=$(far server)
    kill -KILL $(marked "$PQSHAKE serve" | while read -r p; do [ "$(readlink "/proc/$p/exe")" = "$PQSHAKE" ] && echo "$p"; done)
    wait_for 2 gone "$server"
}

@test "no worker at that path: exit 3 over ssh, the option is named" {
    ssh_host
    for side in server client; do
        run pq tls "${BRIEF[@]}" "--$side-via" "$SSH" "--$side-worker" /nowhere/worker --out out
        [ "$status" -eq 3 ]
        says "/nowhere/worker" "the $side worker (through 'ssh -F" "exit status 127" "--$side-worker"
        [ ! -e out ]
    done
    run pq tls "${BRIEF[@]}" --server-via "no-such-prefix far" --out out
    [ "$status" -eq 3 ]
    says "no-such-prefix"
}

@test "a link that cannot be made: exit 1, what ssh said" {
    ssh_host
    rm authorized_keys
    run pq tls "${BRIEF[@]}" --server-via "$SSH" --out out
    [ "$status" -eq 1 ]
    says "Permission denied" "the server worker (through 'ssh -F" "exit status 255"
    [ ! -e out ]
}

@test "a worker of another release, or of another channel: exit 1, both versions are named" {
    fake=${PQSHAKE%/*}/tests/fake/pqshake-worker-openssl
    [ -x "$fake" ] || skip "the fake worker is not built"
    version=$("$PQSHAKE" --version | cut -d' ' -f2)
    run pq tls "${BRIEF[@]}" --server-via "env 'PQS_FAKE=another release'" --server-worker "$fake" --out out
    [ "$status" -eq 1 ]
    says "server worker" "release 9.8.7" "of $version"
    run pq tls "${BRIEF[@]}" --client-via "env PQS_FAKE=another\\ channel" --client-worker "$fake" --out out
    [ "$status" -eq 1 ]
    says "client worker" "channel version 200" "this program 1"
    [ ! -e out ]
}

@test "a killed ssh: noticed at once, its trial is lost, the worker behind it ends, the run goes on" {
    ssh_host
    for role in server client; do
        rm -rf out
        second_trial --server-via "$SSH" --client-via "$SSH"
        worker=$(far "$role")
        kill -KILL "$(link_to "$role")"
        wait_for 2 gone "$worker"
        one_lost died "the $role worker (through '"
        no_marked
    done
}

@test "a far worker that is killed: its trial is lost, the run goes on" {
    ssh_host
    second_trial --server-via "$SSH"
    kill -KILL "$(far server)"
    one_lost died "died, or the link to it: exit status 255"
}

@test "a frozen ssh: given up after 30 s, the worker behind it ends, the run goes on" {
    ssh_host
    second_trial --client-via "$SSH"
    worker=$(far client)
    kill -STOP "$(link_to client)"
    one_lost failed "silent for 30 s"
    gone "$worker"
}

@test "SIGKILL of the coordinator ends the workers behind ssh in every state" {
    ssh_host
    (exec_pq tls --rate 50 --duration 60s --warmup 60s --blocks 1 --out out --server-via "$SSH" --client-via "$SSH") >run.out 2>&1 &
    SERVERS+=("$!")
    loaded() { [ -e out/run.db ] && [ -n "$(far client)" ] && [ -n "$(far server)" ]; }
    wait_for 60 loaded || { cat run.out; return 1; }
    sleep 1 # into the warm-up
    kill -KILL $(marked "$PQSHAKE tls")
    wait_for 2 no_marked
    # A preflight whose server never answers.
    (exec_pq serve --listen 127.0.0.1:0 --ca-out ca.pem) >silent.out 2>&1 &
    SERVERS+=("$!")
    wait_for 30 grep -q '^CA' silent.out
    port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' silent.out)
    server=$(far server)
    kill -STOP "$server"
    (exec_pq load --target "localhost:$port" --ca ca.pem --timeout 60s --client-via "$SSH" --out out2) >run2.out 2>&1 &
    SERVERS+=("$!")
    connected() { awk -v port=":$(printf '%04X' "$port")" '$4 == "01" && index($3, port) { f = 1 } END { exit !f }' /proc/net/tcp; }
    wait_for 30 connected
    client=$(far client)
    kill -KILL $(marked "$PQSHAKE load")
    wait_for 2 gone "$client"
    kill -CONT "$server"
}

@test "prefixes and addresses that make no sense: exit 2" {
    try() {
        run pq tls "$@" --out out
        [ "$status" -eq 2 ]
    }
    try --server-via "ssh 'far"
    says "--server-via" "ends within a quote"
    try --client-via ' '
    says "--client-via" "no word"
    try --server-host 0.0.0.0
    says "--server-host" "IP address"
    try --server-host somewhere
    says "--server-host" "somewhere"
    try --server-host ::1 --ipv6
    says "--ipv6" "--server-host"
    for option in --server-via --server-worker --server-host; do
        try --target localhost:1 --insecure "$option" 10.0.0.1
        says "$option" "--target"
    done
    [ ! -e out ]
}
