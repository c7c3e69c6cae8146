# What a machine does to a run: kills anything at any moment, has no room, no rights, no ports, no route. Each is named by
# a clear message, and what was finished stays. (See robust.bats for single, ordered faults.)
load common

# finished DIR: its finished trials; no run.db is 0.
finished() {
    [ -e "$1/run.db" ] || { echo 0; return; }
    sqlite3 -cmd '.timeout 5000' "$1/run.db" "select count(*) from trial where state = 'finished'" 2>/dev/null || echo 0
}

# whole DIR: run.db is sound and every finished trial in it is complete.
whole() {
    [ "$(sql "$1" 'pragma integrity_check')" = ok ]
    [ "$(sql "$1" "select count(*) from trial where state = 'finished' and id not in
        (select trial from counter where side = 'client' and name = 'scheduled' and value = 10)")" -eq 0 ]
}

# strike NUMBER MILLISECONDS VICTIM: one short run; after that time one of its processes, taken by VICTIM modulo their
# number, is killed. Sets killed when there was one.
strike() {
    local out=out.$1 what=(--engine null) pids victim who before
    (($1 % 2)) || what=(--groups X25519)
    (exec_pq tls "${what[@]}" --rate 50 --duration 200ms --warmup 0 --blocks 3 --out "$out") >"$out.log" 2>&1 &
    RUN=$!
    SERVERS=("$RUN")
    sleep "$2e-3"
    mapfile -t pids < <(marked | grep -vx "$RUN")
    killed=
    if [ ${#pids[@]} -gt 0 ]; then
        victim=${pids[$3 % ${#pids[@]}]}
        who=$(tr '\0' ' ' 2>/dev/null </proc/"$victim"/cmdline || true)
        before=$(finished "$out")
        if kill -KILL "$victim" 2>/dev/null; then
            killed=1
        fi
    fi
    status=0
    wait "$RUN" || status=$?
    echo "strike $1 after $2 ms: ${who:-nobody}, exit status $status" # shown when the test fails
    wait_for 3 no_marked
    output=$(cat "$out.log") stderr=
    case $killed,$status,$who in
    1,137,*" tls "*) ;;
    1,1,*worker*) # in a preflight: nothing was measured
        says "killed by signal 9"
        [ ! -e "$out" ]
        ;;
    *,[04],*)
        [ "$(sql "$out" 'select count(*) from trial')" -eq 3 ]
        [ "$(finished "$out")" -ge 2 ]
        [ "$(sql "$out" "select count(*) from trial where state = 'died' and note not like '%killed by signal 9%'")" -eq 0 ]
        [ -s "$out/summary.json" ]
        measured "$out/summary.json"
        ;;
    *)
        echo "$output"
        return 1
        ;;
    esac
    if [ -e "$out/run.db" ]; then
        whole "$out"
        [ "$(finished "$out")" -ge "${before:-0}" ]
    fi
}

@test "SIGKILL of any process at any moment: finished trials stay, no orphan, the exit status is right" {
    RANDOM=20261130 # the same moments every time, as far as the machine allows
    local strikes=20 n=0 i
    [ -z "${PQSHAKE_FULL:-}" ] || strikes=100
    for ((i = 0; i < strikes; i++)); do
        strike "$i" $((RANDOM % 1600)) "$RANDOM"
        [ -z "$killed" ] || ((n += 1))
    done
    [ "$n" -ge $((strikes / 2)) ] # the others were over already
}

# mounted OPTIONS: `full` is a file system of that kind for pqshake alone; what it left there is in `kept` afterwards.
mounted() {
    unshare --mount true 2>/dev/null || skip "cannot make a mount namespace"
    mkdir full kept
    IN=(unshare --mount sh -c 'mount -t tmpfs -o "$0" none full && touch full/there && eval "$PREPARE" && "$@"; s=$?
        cp -r full/. kept; exit $s' "$1")
}

@test "a disk that fills up in the middle of a run: exit 1, what was finished is there and reported" {
    mounted size=192k
    run pq tls --engine null --rate 50 --duration 200ms --warmup 0 --blocks 100 --out full/out
    [ "$status" -eq 1 ]
    says "of 100 trials stored" "full/out/run.db: database or disk is full"
    n=$(finished kept/out)
    [ "$n" -ge 2 ]
    says "$n of 100 trials stored"
    whole kept/out
}

@test "a disk that is full before the report, or from the start" {
    export PREPARE='head -c 1000000 /dev/zero >full/zeros 2>/dev/null || true'
    mounted size=64k
    run pq tls "${BRIEF[@]}" --engine null --out full/out
    [ "$status" -eq 1 ]
    says "full/out"
    run pq tls "${BRIEF[@]}" --engine null --out out --json full/s.json
    [ "$status" -eq 1 ]
    says "full/s.json" "No space left on device" "Results: out"
    [ "$(finished out)" -eq 1 ]
    run pq cert ecdsa-p256 --out full/cert
    [ "$status" -ne 0 ]
    says "full/cert" "No space left on device"
}

@test "a read-only directory: exit 2 before anything is measured" {
    export PREPARE='mount -o remount,ro none full'
    mounted size=64k
    run pq tls "${BRIEF[@]}" --out full/out
    [ "$status" -eq 2 ]
    says "cannot write the results to full/out" "Read-only file system"
    run pq tls "${BRIEF[@]}" --out out --json full/s.json
    [ "$status" -eq 2 ]
    says "--json" "full/s.json" "Read-only file system"
    [ ! -e out ]
    run pq serve --listen 127.0.0.1:0 --ca-out full/ca.pem
    [ "$status" -eq 1 ]
    says "full/ca.pem" "Read-only file system"
}

@test "missing rights: a directory, a key, a port" {
    [ "$(id -u)" -eq 0 ] || skip "needs root, to be somebody else"
    cp "$PQSHAKE" pqshake # where nobody may execute it
    chmod 755 .
    mkdir closed
    (umask 077 && echo secret >key.pem)
    PQSHAKE=./pqshake
    IN=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    run pq tls "${BRIEF[@]}" --engine null --out closed/out
    [ "$status" -eq 2 ]
    says "cannot write the results to closed/out" "Permission denied"
    run pq serve --listen 127.0.0.1:0 --cert-file pqshake --key-file key.pem
    [ "$status" -eq 2 ]
    says "key.pem" "Permission denied"
}

@test "missing rights: a port below 1024" {
    network
    IN+=(setpriv --bounding-set=-net_bind_service)
    run pq serve --engine null --listen 127.0.0.1:443
    [ "$status" -eq 1 ]
    says "cannot listen on 127.0.0.1 port 443" "Permission denied"
}

@test "two runs that begin in one directory at the same time: one gets it, the other says so" {
    local runs=() statuses=() s
    for i in 1 2; do
        (exec_pq tls --engine null --rate 50 --duration 200ms --warmup 0 --blocks 3 --out out) >"$i.log" 2>&1 &
        runs+=($!)
    done
    SERVERS+=("${runs[@]}")
    for r in "${runs[@]}"; do
        s=0
        wait "$r" || s=$?
        statuses+=("$s")
    done
    output=$(cat 1.log 2.log)
    case ${statuses[*]} in
    "2 "[04] | [04]" 2") ;;
    *) echo "${statuses[*]} $output"; return 1 ;;
    esac
    says "choose another --out"
    [ "$(finished out)" -eq 3 ]
    whole out
}

@test "few descriptors: either it works or it says which limit" {
    for n in 6 8 12; do
        run bash -c 'n=$1; shift; ulimit -n "$n"; exec env "$0" timeout --foreground 60 "$@"' "$MARK" "$n" "$PQSHAKE" tls \
            "${BRIEF[@]}" --engine null --out out
        [ "$status" -eq 3 ]
        says "Too many open files" "ulimit -n"
        no_figures
    done
}

@test "no route, and routes that refuse or swallow: each its class" {
    network
    attempt() {
        run pq load "${BRIEF[@]}" --engine null --target 192.0.2.1:443 --timeout 500ms --out out
        [ "$status" -eq 1 ]
        says "192.0.2.1 port 443" "step 'connect'" "$@"
        no_figures
    }
    attempt "unreachable"
    for kind in unreachable blackhole prohibit; do
        "${IN[@]}" ip route add "$kind" 192.0.2.0/24
        attempt "unreachable" "look at the route"
        "${IN[@]}" ip route del "$kind" 192.0.2.0/24
    done
    "${IN[@]}" ip route add 192.0.2.0/24 dev lo # what is sent there is never answered
    attempt "no answer within the timeout"
}

# ---- F24: limits of this machine read as the server's latency ----

@test "F24: 100 source ports: refused when they cannot last, a class of its own when others hold them" {
    network
    "${IN[@]}" sh -c 'ip address add 10.9.9.9/32 dev lo && echo "40000 40099" >/proc/sys/net/ipv4/ip_local_port_range'
    serve server --engine null --listen 10.9.9.9:0
    local load=(load --engine null --target "10.9.9.9:$PORT" --warmup 0 --blocks 1)
    run pq "${load[@]}" --rate 200 --duration 2s --out out
    [ "$status" -eq 3 ]
    says "100 source ports" "200 connections/s" "net.ipv4.ip_local_port_range" "--close rst"
    [ ! -e out ]
    # A server that does not answer: connections stay open and keep their ports. (Resets leave none behind, so the preflight has
    # nothing to say against this one.)
    (exec_pq "${load[@]}" --close rst --rate 80 --duration 3s --timeout 5s --out out --json s.json) >load.out 2>&1 &
    RUN=$!
    wait_for 30 [ -e out/run.db ]
    wait_for 30 running
    sleep 0.5
    kill -STOP "$(marked "worker-$SERVER_STACK server")"
    status=0
    wait "$RUN" || status=$?
    kill -CONT "$(marked "worker-$SERVER_STACK server")"
    [ "$status" -eq 4 ]
    reconciled s.json
    check s.json '.arms[0].counts | .scheduled == 240 and .started == 240 and .failed["local.ports"] > 0'
    check s.json '.arms[0].reasons | index("local-limit") != null'
    output=$(cat load.out) says "ran out of source ports"
}

running() {
    [ -n "$(marked "worker-$CLIENT_STACK client")" ]
}

@test "F24: a backlog of 8 and a burst of 500: TCP's waits are counted and named, not taken for the server's work" {
    serve server --backlog 8
    # A handshake takes the server longer than ten of these arrivals do: its queue is full at once.
    run pq load --ca server-ca.pem --target "localhost:$PORT" --rate 50000 --duration 10ms --warmup 0 --blocks 1 --timeout 5s \
        --max-inflight 1000 --out out --json s.json
    [ "$status" -eq 4 ]
    reconciled s.json
    check s.json '.arms[0].counts | .scheduled == 500 and .dropped == 0'
    stop_server
    grep -qE '^listen_overflows +[1-9]' server.out
    check s.json '.findings[] | select(.id == "retransmitted") | .severity == "warning"'
    [ "$(sql out "select value from counter where side = 'client' and name = 'retransmitted'")" -gt 50 ]
}

# ---- F27: memory grew ----

# rss PID, descriptors PID
rss() {
    awk '$1 == "VmRSS:" { print $2; found = 1 } END { exit !found }' "/proc/$1/status"
}

descriptors() {
    find "/proc/$1/fd" -mindepth 1 | wc -l
}

running_or_over() {
    running || ! kill -0 "$RUN" 2>/dev/null
}

# flat HANDSHAKES RATE LOAD-OPTION...: the server on PORT is given so many, twice. Its memory after the second half is less
# than 1 MB above that after the first, and its descriptors are as many; the client's likewise within its window.
flat() {
    local half=$1 rate=$2 server client seconds series kb n i before=0 after fds_before fds_after
    shift 2
    server=$(marked "worker-$SERVER_STACK server")
    # As many at once as there ever are: the heap keeps the memory of its fullest moment.
    run pq load "$@" --target "localhost:$PORT" --rate 100000 --duration 10ms --warmup 0 --blocks 1 --out burst
    output=
    seconds=$((half / rate))
    for i in 1 2; do
        (exec_pq load "$@" --target "localhost:$PORT" --rate "$rate" --duration "${seconds}s" --warmup 0 --blocks 1 \
            --out "out.$i" --json "$i.json") >"$i.log" 2>&1 &
        RUN=$!
        SERVERS+=("$RUN")
        wait_for 30 [ -e "out.$i/run.db" ]
        wait_for 30 running_or_over
        client=$(marked "worker-$CLIENT_STACK client")
        series=() # of the client's memory, to its end
        while kb=$(rss "$client" 2>/dev/null); do
            series+=("$kb")
            sleep 0.2
        done
        n=${#series[@]}
        wait "$RUN" || [ $? -eq 4 ] || { cat "$i.log"; return 1; }
        # Of a machine that is busy with other things not all are asked, but enough.
        if ! check "$i.json" '.arms[0].counts | .completed >= $half * 0.6 and .failed == {}' --argjson half "$half"; then
            busy_machine && skip "this machine is too busy"
            return 1
        fi
        after=$(rss "$server") fds_after=$(descriptors "$server")
        echo "server $before -> $after kB, client ${series[*]} kB, descriptors $fds_after"
        [ "$n" -ge 6 ]
        [ $((series[n * 2 / 3] - series[n / 3])) -lt 1024 ] # in the middle of its window
        [ "$i" -eq 1 ] || [ $((after - before)) -lt 1024 ]
        [ "$i" -eq 1 ] || [ "$fds_after" -eq "$fds_before" ]
        before=$after fds_before=$fds_after
    done
}

@test "F27: memory and descriptors are flat without cryptography (--full: over 100,000 connections)" {
    local how=(--engine null --max-inflight 64)
    serve server --engine null
    if [ -n "${PQSHAKE_FULL:-}" ]; then flat 50000 5000 "${how[@]}"; else flat 8000 1000 "${how[@]}"; fi
}

@test "F27: memory and descriptors are flat over 10,000 TLS handshakes" {
    [ -n "${PQSHAKE_FULL:-}" ] || skip "only with ./check --full"
    local how=(--ca server-ca.pem --max-inflight 16) # one takes some 35 kB: all of them less than the limit
    serve server
    flat 5000 250 "${how[@]}"
}
