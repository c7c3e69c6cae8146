# What happens when something is killed, missing, full or in the way: finished trials stay, nothing is left behind.
load common

# Starts a long run in the background and waits for its first stored trial. The coordinator's pid goes to COORDINATOR.
long_run() {
    (exec_pq tls --rate 50 --duration 1s --warmup 100ms --blocks 50 --out out "$@") >run.out 2>&1 &
    RUN=$!
    SERVERS+=("$RUN")
    wait_for 60 stored 1
    COORDINATOR=$(marked "$PQSHAKE tls" | while read -r p; do [ "$p" = "$RUN" ] || echo "$p"; done)
    [ -n "$COORDINATOR" ]
}

stored() {
    [ -e out/run.db ] && [ "$(sql out 'select count(*) from trial' 2>/dev/null || echo 0)" -ge "$1" ]
}

# The worker of a role, once the trial is under way: its partner is there too.
worker() {
    local client server
    both() {
        client=$(marked "worker-$CLIENT_STACK client") server=$(marked "worker-$SERVER_STACK server")
        [ -n "$client" ] && [ -n "$server" ]
    }
    wait_for 30 both
    echo "${!1}"
}

@test "SIGKILL of the coordinator: finished trials are in run.db, the workers are gone within a second" {
    long_run
    worker client >/dev/null
    kill -KILL "$COORDINATOR"
    wait "$RUN" || true
    sleep 1
    no_marked
    [ "$(sql out 'pragma integrity_check')" = ok ]
    n=$(sql out "select count(*) from trial where state = 'finished'")
    [ "$n" -ge 1 ]
    [ "$(sql out "select count(*) from counter where side = 'client' and name = 'completed' and value = 50")" -eq "$n" ]
    [ "$(sql out "select count(*) from event where kind = 'end'")" -eq 0 ]
    [ ! -e out/summary.json ]
}

# killed ROLE: a worker of that role is killed in a later block; the run goes on to its end.
killed() {
    (exec_pq tls --groups X25519 --rate 50 --duration 4s --warmup 100ms --blocks 3 --out out --json s.json) >run.out 2>&1 &
    RUN=$!
    SERVERS+=("$RUN")
    wait_for 60 stored 1
    kill -KILL "$(worker "$1")"
    status=0
    wait "$RUN" || status=$?
    output=$(cat run.out)
    [ "$(sql out 'select count(*) from trial')" -eq 3 ]
    [ "$(sql out "select count(*) from trial where state = 'died' and verdict = 'unfit'")" -eq 1 ]
    [ "$(sql out "select count(*) from trial where state = 'finished'")" -eq 2 ]
    sql out "select note from trial where state = 'died'" | grep -q "the $1 worker died: killed by signal 9"
    check s.json '[.arms[0].trials[] | select(.state == "died")] | length == 1'
    check s.json '[.findings[].id] | index("lost-trial") != null'
    says "killed by signal 9"
    valid_summary s.json
    measured s.json
}

@test "SIGKILL of a server worker: its trial is kept as died, the run goes on" {
    killed server
}

@test "SIGKILL of a client worker: its trial is kept as died, the run goes on" {
    killed client
}

@test "SIGINT and SIGTERM: finished trials are kept and reported, exit 1" {
    for signal in INT TERM; do
        rm -rf out
        long_run
        kill -"$signal" "$RUN"
        status=0
        wait "$RUN" || status=$?
        output=$(cat run.out)
        [ "$status" -eq 1 ]
        says "Request latency" "interrupted" "Results: out"
        jq -e '.arms | length == 2' out/summary.json >/dev/null
        [ "$(sql out "select count(*) from event where kind = 'interrupted'")" -eq 1 ]
        [ "$(sql out "select count(*) from trial where state <> 'finished'")" -eq 0 ]
    done
}

@test "SIGINT during the preflight of a server that does not answer: nothing is written, exit 1" {
    serve silent
    kill -STOP $(marked "worker-$SERVER_STACK server") # the kernel still takes the connection
    (exec_pq load --target "localhost:$PORT" --ca silent-ca.pem --timeout 60s --out out) >run.out 2>&1 &
    RUN=$!
    wait_for 30 waiting
    kill -INT "$RUN"
    status=0
    wait "$RUN" || status=$?
    kill -CONT $(marked "worker-$SERVER_STACK server")
    [ "$status" -eq 1 ]
    grep -q interrupted run.out
    [ ! -e out ]
}

# A connection to PORT is established.
waiting() {
    awk -v port=":$(printf '%04X' "$PORT")" '$4 == "01" && index($3, port) { found = 1 } END { exit !found }' /proc/net/tcp
}

@test "results that have no place: said before anything is measured" {
    touch file
    run pq tls "${BRIEF[@]}" --out file/out
    [ "$status" -eq 2 ]
    says "cannot write the results to file/out"
    run pq tls "${BRIEF[@]}" --json nowhere/s.json --out out
    [ "$status" -eq 2 ]
    says "--json" "nowhere/s.json"
    run pq tls "${BRIEF[@]}" --out /proc/nowhere
    [ "$status" -ne 0 ]
    says "/proc"
    no_figures
    mkdir out
    touch out/run.db
    run pq tls "${BRIEF[@]}" --out out
    [ "$status" -eq 2 ]
    says "already holds a run: choose another --out"
    [ ! -s out/run.db ]
}

@test "a disk that is full: a clear error, exit 1" {
    # A limit on the size of files stands for the full disk; SIGXFSZ is ignored so that the write fails.
    run bash -c 'trap "" XFSZ; ulimit -f 16; shift 0; exec env "$0" timeout --foreground 60 "$@"' "$MARK" "$PQSHAKE" tls "${BRIEF[@]}" \
        --groups X25519 --rate 100 --out out
    [ "$status" -eq 1 ]
    says "out/run.db"
}

@test "standard output that cannot be written: exit 1" {
    [ -w /dev/full ] || skip "no /dev/full"
    status=0
    pq --help >/dev/full 2>err || status=$?
    [ "$status" -eq 1 ]
    grep -q "cannot write to standard output" err
}

@test "no worker: exit 3 and where it was looked for" {
    mkdir empty
    PQSHAKE_WORKER_DIR=$PWD/empty run pq tls "${BRIEF[@]}" --out out
    [ "$status" -eq 3 ]
    says "pqshake-worker-openssl" "$PWD/empty" "PQSHAKE_WORKER_DIR"
    no_figures
    # Something that is no worker is not taken for one.
    printf '#!/bin/sh\nexit 7\n' >empty/pqshake-worker-openssl
    chmod +x empty/pqshake-worker-openssl
    PQSHAKE_WORKER_DIR=$PWD/empty run pq tls "${BRIEF[@]}" --out out
    [ "$status" -eq 1 ]
    says "exit status 7"
    no_figures
}

@test "a target that is not there: exit 1, which step failed" {
    PORT=$(free_port)
    run pq load "${BRIEF[@]}" --target "127.0.0.1:$PORT" --insecure --out out
    [ "$status" -eq 1 ]
    says "step 'connect'" "connection refused"
    no_figures
    run pq load "${BRIEF[@]}" --target nowhere.invalid:443 --insecure --out out
    [ "$status" -eq 1 ]
    says "nowhere.invalid"
    no_figures
}

@test "a server that speaks no TLS, or hangs up: exit 1 with the class" {
    serve plain --engine null
    run pq load "${BRIEF[@]}" --target "127.0.0.1:$PORT" --insecure --out out
    [ "$status" -eq 1 ]
    says "step 'tls'"
    no_figures
}

@test "F24: ulimit -n 64 with 200 in flight: exit 3, what is needed and what to do" {
    run bash -c 'ulimit -n 64; exec env "$0" timeout --foreground 60 "$@"' "$MARK" "$PQSHAKE" tls "${BRIEF[@]}" --max-inflight 200 \
        --out out
    [ "$status" -eq 3 ]
    says "--max-inflight 200" "232" "64" "ulimit -n"
    no_figures
    # Without asking for so many, the limit follows the descriptors.
    run bash -c 'ulimit -n 64; exec env "$0" timeout --foreground 60 "$@"' "$MARK" "$PQSHAKE" tls "${BRIEF[@]}" --groups X25519 \
        --out out --json s.json
    measured s.json
}

@test "more connections than the limit are dropped and counted, never late" {
    # An answer of 64 MiB takes longer than the 5 ms between two arrivals.
    run pq tls --engine null --rate 200 --duration 1s --warmup 0 --blocks 1 --bytes 67108864 --max-inflight 2 --timeout 1s --out out \
        --json s.json
    [ "$status" -eq 4 ]
    reconciled s.json
    check s.json '.arms[0].counts | .scheduled == 200 and .dropped > 0'
    [ "$(sql out "select value from counter where name = 'inflight_max'")" -le 2 ]
}

@test "a name with two addresses: the one that answers is used, and nobody sees a connection more; when none does, a useful error" {
    unshare --net --mount true 2>/dev/null || skip "cannot make namespaces"
    printf '::1 multi\n127.0.0.1 multi\n' >hosts
    pq cert ecdsa-p256 --san DNS:multi --out certs >/dev/null
    cat >script <<'END'
set -e
mount --bind hosts /etc/hosts
ip link set lo up
load() { "$PQSHAKE" load --target "multi:$1" --ca certs/ecdsa-p256/ca.pem --rate 50 --duration 200ms --warmup 0 --blocks 1 "${@:2}"; }
"$PQSHAKE" serve --listen 127.0.0.1:18443 --cert-file certs/ecdsa-p256/cert.pem --key-file certs/ecdsa-p256/key.pem >server.out &
server=$!
until grep -q listening server.out; do sleep 0.05; done
load 18443 --out one --json one.json || [ $? -eq 4 ]
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
load 18443 --out two --json two.json || [ $? -eq 4 ]
kill -TERM $server
wait $server
load 19999 --out none >none.out 2>&1 || echo "exit $?" >>none.out
END
    env "$MARK" timeout --kill-after 5 60 unshare --net --mount bash script 3>&-
    check one.json '.arms[0].counts.completed == 10'
    check two.json '.arms[0].counts.completed == 10'
    # For each run: the preflight of the run, that of the trial, and ten.
    grep -qE '^accepted +24$' server.out
    grep -q '^exit 1$' none.out
    tr '\n' ' ' <none.out | grep -q "127.0.0.1 port 19999 failed in step 'connect'"
}
