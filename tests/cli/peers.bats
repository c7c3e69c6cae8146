# Peers of another make, from a Debian 13 in a directory (tools/peers): our generator against nginx, HAProxy and openssl, their
# clients against our server. The group is asserted at both ends, and counts agree with nginx's access log to the unit.
# Skipped where that root cannot be made (not root, not Debian, no namespaces).
load common

GROUP=X25519MLKEM768
PEERS=() # process ids of `unshare`: whatever runs in such a process namespace ends with it

setup_file() {
    local status=0
    PEERS_ROOT=$("$BATS_TEST_DIRNAME/../../tools/peers" 2>"$BATS_FILE_TMPDIR/why") || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || { cat "$BATS_FILE_TMPDIR/why"; return 1; }
    export PEERS_ROOT
    MARK=PQSHAKE_TEST=$BATS_FILE_TMPDIR
    cd "$BATS_FILE_TMPDIR"
    pq cert ecdsa-p256 --out certs >/dev/null
    cat certs/ecdsa-p256/cert.pem certs/ecdsa-p256/key.pem >certs/ecdsa-p256/both.pem
}

setup() {
    MARK=PQSHAKE_TEST=$BATS_TEST_TMPDIR
    [ -n "$PEERS_ROOT" ] || skip "$(tail -n 1 "$BATS_FILE_TMPDIR/why")"
    cd "$BATS_TEST_TMPDIR" || return
    cp "$BATS_FILE_TMPDIR"/certs/ecdsa-p256/*.pem .
}

teardown() {
    local p
    for p in "${PEERS[@]}"; do
        kill -KILL "$p" 2>/dev/null
    done
    stop_all
    no_processes
}

# exec_in ROOT COMMAND...: a command in that root, with mounts and process ids of its own. The root is read-only there; the test's
# directory is its /mnt, where the command starts.
exec_in() {
    # shellcheck disable=SC2016
    exec env "${MARK:?}" timeout --foreground --kill-after 10 "${LIMIT:-90}" unshare --mount --pid --fork --kill-child sh -ec '
        mount --bind "$0" "$0"
        mount -o remount,bind,ro "$0"
        mount --rbind /dev "$0/dev"
        mount --bind . "$0/mnt"
        exec chroot "$0" env -C /mnt "$@"' "$@" 3>&-
}

in_root() {
    (exec_in "$PEERS_ROOT" "$@")
}

# The process number PID's only child.
child_of() {
    pgrep -P "$1"
}

listening() {
    (: <"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null
}

# peer NAME COMMAND...: a server of that root on 127.0.0.1:PORT; its output goes to NAME.out, its process id to SERVER.
peer() {
    local name=$1 limiter unshare
    shift
    (exec_in "$PEERS_ROOT" "$@") >"$name.out" 2>&1 </dev/null &
    limiter=$!
    wait_for 5 child_of "$limiter" >/dev/null
    unshare=$(child_of "$limiter")
    PEERS+=("$unshare")
    wait_for 30 listening || { cat "$name.out"; return 1; }
    SERVER=$(child_of "$unshare")
    PEER=$limiter
}

# Ends the last peer in order, by a signal that it handles: the first process of a namespace is deaf to others.
stop_peer() {
    kill -"$1" "$SERVER"
    wait "$PEER"
}

# nginx with a worker on PORT; access.log has a line per request: group, protocol, status, request.
nginx() {
    PORT=$(free_port)
    cat >nginx.conf <<END
daemon off;
worker_processes 1;
pid nginx.pid;
events { }
http {
    log_format facts '\$ssl_curve \$ssl_protocol \$status \$request';
    access_log access.log facts;
    client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; uwsgi_temp_path tmp; scgi_temp_path tmp;
    server {
        listen 127.0.0.1:$PORT ssl;
        ssl_certificate both.pem;
        ssl_certificate_key key.pem;
        ssl_protocols TLSv1.3;
        ssl_ecdh_curve X25519MLKEM768:X25519;
        location / { return 200 "ok\n"; }
        location /busy { root /mnt; }
    }
}
END
    # The probe of `listening` is a connection without a request: no line.
    peer nginx nginx -p /mnt/ -c nginx.conf -e stderr
}

# logged GROUP: how many requests nginx answered well over that group. It writes the code point of one whose name it does not know.
logged() {
    grep -cE "^(${1/$GROUP/$GROUP|0x11ec}) TLSv1.3 200 GET / HTTP/1.1\$" access.log
}

requests() {
    [ "$(wc -l <access.log)" -ge "$1" ]
}

# handshakes DIR ARM: all that the run made with that arm: one preflight before the run and one in each trial, the warm-up and the
# cohort.
handshakes() {
    sql "$1" "select 1 + count(distinct t.id) + sum(c.value) from arm a join trial t on t.arm = a.id join counter c on c.trial = t.id
        where a.name like '%$2' and c.side = 'client' and c.name in ('completed', 'warmup.completed')"
}

# cpu_ns PID: user and system time of a process and of its children, living or waited for, in nanoseconds, by the kernel's
# scheduler (living ones) and its accounting (others).
cpu_ns() {
    local p ns=0
    for p in "$1" $(pgrep -P "$1"); do
        ns=$((ns + $(awk '{ s += $1 } END { printf "%.0f", s }' /proc/"$p"/task/*/schedstat)))
        ns=$((ns + $(sed 's/.*) //' /proc/"$p"/stat | awk -v hz="$(getconf CLK_TCK)" '{ printf "%.0f", ($14 + $15) * 1e9 / hz }')))
    done
    echo "$ns"
}

@test "tls against nginx: both groups at both ends, every request in its access log, its CPU by --target-pid" {
    nginx
    before=$(cpu_ns "$SERVER")
    run pq tls --groups $GROUP,X25519 --target "localhost:$PORT" --ca ca.pem --target-pid "$SERVER" "${BRIEF[@]}" --rate 100 \
        --blocks 2 --out out --json s.json
    after=$(cpu_ns "$SERVER")
    measured s.json
    reconciled s.json
    valid_summary s.json
    check s.json 'all(.arms[]; .negotiated.groups == {(.factors.groups): 200} and .negotiated.verified == 200)'
    # The kernel's sum over the whole run has the preflights and warm-ups in it: less is impossible, much more too.
    sum=$(sql out "select sum(value) from counter where side = 'server' and name = 'cpu_ns'")
    echo "by --target-pid $sum ns, read here $((after - before)) ns"
    [ "$sum" -gt 0 ]
    [ "$sum" -le "$((after - before))" ]
    [ "$((sum * 100))" -ge "$(((after - before) * 75))" ]
    [ "$(sql out "select distinct side || ' ' || name || ' ' || value from fact where name in ('cpu_source', 'process') order by 1")" = \
        "$(printf 'server cpu_source target-pid\nserver process nginx')" ]
    check s.json 'all(.arms[].cpu_ns; .server > 10000 and (has("server_reason") | not))'
    check s.json '[.findings[] | select(.id == "foreign-cpu").text | test("processes of nginx, by --target-pid")] == [true, true]'
    says 'server CPU'
    stop_peer TERM
    [ "$(logged $GROUP)" -eq "$(handshakes out $GROUP)" ]
    [ "$(logged X25519)" -eq "$(handshakes out X25519)" ]
    [ "$(wc -l <access.log)" -eq $((2 * (200 + 2 * 10 + 3))) ]
}

@test "--target-pid: no such process, another process, one that ends, none without a target" {
    nginx
    go=(load --groups $GROUP --target "localhost:$PORT" --ca ca.pem "${BRIEF[@]}")
    run pq "${go[@]}" --target-pid 999999999 --out none
    [ "$status" -eq 1 ]
    says '--target-pid: there is no process 999999999'
    [ ! -e none ]
    (exec env "$MARK" timeout --foreground 60 sleep 60 3>&-) &
    SERVERS+=($!)
    run pq "${go[@]}" --target-pid "$!" --out idle
    [ "$status" -eq 4 ]
    [[ "$(sql idle 'select note from trial')" == *"used no CPU while 50 connections completed, so it is not the server" ]]
    : >access.log # which nginx appends to
    (exec_pq "${go[@]}" --duration 3s --target-pid "$SERVER" --out ends >ends.out 2>&1) &
    run_pid=$!
    wait_for 30 requests 30 # preflights and warm-up are 7
    stop_peer TERM
    status=0
    wait "$run_pid" || status=$?
    [ "$status" -eq 4 ]
    [[ "$(sql ends 'select note from trial')" == *"--target-pid: there is no process $SERVER" ]]
    run pq tls --target-pid 1 --out own
    [ "$status" -eq 2 ]
    says '--target-pid goes with --target'
}

@test "load against HAProxy that ends TLS and answers by itself: its log names the group of every connection" {
    PORT=$(free_port)
    cat >haproxy.cfg <<END
global
    log stdout format raw local0
    nbthread 1
defaults
    mode http
    timeout client 10s
frontend tls
    bind 127.0.0.1:$PORT ssl crt both.pem curves X25519MLKEM768:X25519 ssl-min-ver TLSv1.3
    log global
    log-format "facts %[ssl_fc_curve] %sslv %ST"
    http-request return status 200 content-type text/plain string ok
END
    peer haproxy haproxy -db -f haproxy.cfg
    run pq load --groups $GROUP --target "localhost:$PORT" --ca ca.pem --target-pid "$SERVER" "${BRIEF[@]}" --out out --json s.json
    measured s.json
    reconciled s.json
    check s.json '.arms[0] | .negotiated.groups == {($group): 50} and .negotiated.verified == 50 and .cpu_ns.server > 10000' \
        --arg group $GROUP
    stop_peer USR1
    [ "$(grep -c "^facts $GROUP TLSv1.3 200$" haproxy.out)" -eq "$(handshakes out $GROUP)" ]
}

@test "load against openssl s_server of that OpenSSL" {
    PORT=$(free_port)
    peer s_server openssl s_server -accept "127.0.0.1:$PORT" -tls1_3 -cert cert.pem -key key.pem -www -groups $GROUP:X25519
    run pq load --groups $GROUP --target "localhost:$PORT" --ca ca.pem --target-pid "$SERVER" "${BRIEF[@]}" --out out --json s.json
    measured s.json
    reconciled s.json
    check s.json '.arms[0] | .negotiated.groups == {($group): 50} and .cpu_ns.server > 10000' --arg group $GROUP
    # Its own word, asked in the same way: the status page.
    printf 'GET / HTTP/1.0\r\n\r\n' | openssl s_client -connect "127.0.0.1:$PORT" -CAfile ca.pem -groups $GROUP -quiet >page 2>&1 || true
    grep -q "$GROUP" page
}

@test "curl and s_client of that root against serve: the group at both ends" {
    serve server --groups $GROUP:X25519
    in_root curl -sv --curves $GROUP --cacert server-ca.pem "https://localhost:$PORT/" >curl.out 2>curl.err
    [ "$(cat curl.out)" = ok ]
    grep -qE "SSL connection using TLSv1.3 / [A-Z0-9_]+ / $GROUP / " curl.err
    in_root curl -sv --curves $GROUP:X25519 --cacert server-ca.pem "https://localhost:$PORT/bytes/300000" >curl.out 2>curl.err
    [ "$(wc -c <curl.out)" -eq 300000 ]
    printf 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
        in_root openssl s_client -connect "127.0.0.1:$PORT" -servername localhost -CAfile server-ca.pem -verify_return_error \
            -ign_eof -groups $GROUP >client.out 2>client.err
    grep -q "^Negotiated TLS1.3 group: $GROUP\$" client.out
    grep -q '^ok$' client.out
    in_root curl -s --curves X25519 --cacert server-ca.pem "https://localhost:$PORT/" >curl.out
    [ "$(cat curl.out)" = ok ]
    stop_server
    grep -qE "^group.$GROUP +3$" server.out
    grep -qE '^group.X25519 +1$' server.out
    grep -qE '^completed +4$' server.out
    grep -qE '^failed +0$' server.out
}

@test "headless Chromium against serve: its page arrives over $GROUP" {
    [ -n "$PQSHAKE_FULL" ] || skip "only with ./check --full"
    command -v chromium >/dev/null || skip "chromium is not installed"
    serve server --groups $GROUP:X25519
    # What it trusts is the certificate's key, since its store of CAs is not ours to change.
    pin=$("$OPENSSL" s_client -connect "127.0.0.1:$PORT" -CAfile server-ca.pem </dev/null 2>/dev/null | "$OPENSSL" x509 -pubkey -noout |
        "$OPENSSL" pkey -pubin -outform der | "$OPENSSL" dgst -sha256 -binary | base64)
    env "$MARK" HOME="$PWD" timeout --kill-after 10 90 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --no-first-run --disable-background-networking --user-data-dir="$PWD/profile" --ignore-certificate-errors-spki-list="$pin" \
        --log-net-log="$PWD/net.json" --dump-dom "https://localhost:$PORT/" >dom 2>chromium.err 3>&-
    grep -q ok dom
    stop_server
    # The pin above took one handshake.
    [ "$(sed -n "s/^group.$GROUP *//p" server.out)" -ge 2 ]
    not grep -q '^group.X25519 ' server.out
    # 4588 is the code point of X25519MLKEM768.
    grep -q '"key_exchange_group":4588' net.json
}

@test "pqshake builds on that release's own OpenSSL and passes its unit tests there" {
    [ -n "$PQSHAKE_FULL" ] || skip "only with ./check --full"
    LIMIT=1500
    source=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    root=$("$source/tools/peers" --build 2>why) || { cat why; return 1; }
    mkdir source
    git -C "$source" ls-files -z --cached --others --exclude-standard | tar -C "$source" --null -T - -cf - | tar -C source -xf -
    hdr=$("$source/tools/deps" hdrhistogram)
    cp -r "$hdr" hdr
    (exec_in "$root" sh -ec '
        mount -t proc proc /proc
        mount -t tmpfs tmpfs /tmp
        cmake -S source -B build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DPQSHAKE_TESTS=ON -DPQSHAKE_HDR_ROOT=/mnt/hdr
        cmake --build build
        ctest --test-dir build --output-on-failure -R "^unit[.]"') >build.out 2>&1 || { tail -n 60 build.out; return 1; }
    grep -qE "^-- OpenSSL: the system's, 3[.][5-9]" build.out
    grep -q '^100% tests passed' build.out
}
