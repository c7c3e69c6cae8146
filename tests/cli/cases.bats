# Field cases: what bit people who measure handshakes with other tools. Each test is named by the case's id.
load common

setup_file() {
    MARK=PQSHAKE_TEST=$BATS_FILE_TMPDIR
    cd "$BATS_FILE_TMPDIR"
    pq cert ecdsa-p256 --out server >/dev/null
    pq cert ecdsa-p256 --name client --out friend >/dev/null
    pq cert ecdsa-p256 --name client --out stranger >/dev/null
}

# Certificates made in setup_file.
files() {
    SERVER_CERT=(--cert-file "$BATS_FILE_TMPDIR/server/ecdsa-p256/cert.pem" --key-file "$BATS_FILE_TMPDIR/server/ecdsa-p256/key.pem")
    CA=$BATS_FILE_TMPDIR/server/ecdsa-p256/ca.pem
    FRIENDS=$BATS_FILE_TMPDIR/friend/ecdsa-p256/ca.pem
    local who=$BATS_FILE_TMPDIR/${1:-friend}/ecdsa-p256
    CLIENT_CERT=(--client-cert "$who/cert.pem" --client-key "$who/key.pem")
}

# ---- F01: a TLS 1.3 client "succeeds" before the server has judged its certificate ----

@test "F01 preflight: a server that wants a client certificate is no measurement, without one and with a stranger's" {
    files stranger
    serve server "${SERVER_CERT[@]}" --verify-client "$FRIENDS"
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca "$CA" --out out
    [ "$status" -eq 1 ]
    says "preflight" "client certificate required" "step 'response'"
    no_figures
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca "$CA" "${CLIENT_CERT[@]}" --out out
    [ "$status" -eq 1 ]
    says "preflight" "does not trust the CA" "alert_unknown_ca"
    no_figures
    # The CA's own client is served.
    files friend
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca "$CA" "${CLIENT_CERT[@]}" --out out --json s.json
    measured s.json
    check s.json '.arms[0].counts.completed == 50'
}

@test "F01 --handshake-only: what the server rejects is labelled as the client's view" {
    files
    serve server "${SERVER_CERT[@]}" --verify-client "$FRIENDS"
    run pq load "${BRIEF[@]}" --handshake-only --target "127.0.0.1:$PORT" --ca "$CA" --out out --json s.json
    measured s.json
    says "client side only"
    check s.json '.plan.handshake_only and ([.findings[].id] | index("handshake-only") != null)'
    stop_server
    # The server's own count: it accepted none of them. (One preflight before the run, one in the trial, 5 of warm-up; none to
    # look which of a name's addresses answers.)
    grep -qE '^completed +0$' server.out
    grep -qE '^failed +57$' server.out
}

# Connections to PORT that this machine closed first: the client's.
closed_connections() {
    local port
    port=$(printf '%04X' "$PORT")
    [ "$(awk -v port=":$port" '$4 == "06" && index($3, port) { n++ } END { print n + 0 }' /proc/net/tcp)" -ge "$1" ]
}

# A server that begins to want client certificates once the preflights are over: during the warm-up.
turning_server() {
    files stranger
    serve before "${SERVER_CERT[@]}"
    (exec_pq load --target "localhost:$PORT" --ca "$CA" "$@" --rate 100 --warmup 6s --duration 2s --blocks 1 --timeout 3s \
        --out out --json s.json) >load.out 2>&1 &
    local load=$!
    wait_for 60 closed_connections 10
    stop_server
    serve after "${SERVER_CERT[@]}" --listen "127.0.0.1:$PORT" --verify-client "$FRIENDS"
    status=0
    wait "$load" || status=$?
    output=$(cat load.out)
}

@test "F01 counts: 200 handshakes without a client certificate are 0 completed, 200 failed" {
    turning_server
    [ "$status" -eq 4 ]
    check s.json '.arms[0].counts | .scheduled == 200 and .completed == 0 and
                  .failed == {"response.alert_certificate_required": 200}'
    check s.json '.arms[0].latency_ns.full.request.n // 0 == 0'
    says "no-data" "200 response.alert_certificate_required (client certificate required)"
}

@test "F01 counts: 200 handshakes with a stranger's certificate are 0 completed, 200 failed" {
    files stranger
    turning_server "${CLIENT_CERT[@]}"
    [ "$status" -eq 4 ]
    check s.json '.arms[0].counts | .completed == 0 and .failed == {"response.alert_unknown_ca": 200}'
    says "200 response.alert_unknown_ca"
}

# ---- F03: punctuation in a group list changes what is measured ----

@test "F03: with ':' the client's predicted share wins" {
    needs_openssl
    run pq tls "${BRIEF[@]}" --groups X25519:X25519MLKEM768 --server-groups X25519MLKEM768:X25519 --out out --json s.json
    measured s.json
    check s.json '.arms[0].negotiated | .groups == {X25519: 50} and .hello_retry == 0'
    check s.json '.arms[0].latency_ns | has("retry") | not'
}

@test "F03 and F23: with '/' the server forces a retry, counted and shown apart; phases do not overlap, with and without" {
    needs_openssl
    run pq tls --groups X25519:X25519MLKEM768,X25519MLKEM768 --server-groups X25519MLKEM768/X25519 \
        --rate 100 --duration 5s --warmup 100ms --blocks 1 --out out --json s.json
    measured s.json
    reconciled s.json
    check s.json 'all(.arms[]; .negotiated.groups == {X25519MLKEM768: 500})'
    check s.json '[.arms[].negotiated.hello_retry] == [500, 0] and [.arms[].class] == ["retry", "full"]'
    check s.json '.arms[0].latency_ns | has("full") | not'
    check s.json '.arms[0].latency_ns.retry.request.n == 500 and .arms[1].latency_ns.full.request.n == 500'
    says "500 of 500 connections saw a HelloRetryRequest"
    valid_summary s.json

    # Every row: scheduled <= started <= tcp <= tls <= first <= done.
    samples out 1 >rows
    [ "$(wc -l <rows)" -eq 1000 ]
    awk '$9 != 0 || $2 < 0 || $3 < $2 || $4 < $3 || $5 < $4 || $6 < $5 || $6 > 1e10 { print; bad = 1 } END { exit bad }' rows
    [ "$(awk '{ print $10 }' rows | sort | uniq -c | tr -s ' ' | tr '\n' ';')" = " 500 0; 500 2;" ]
    # The phases' means sum to the whole's, and the whole's is that of the rows.
    check s.json 'all(.arms[]; .latency_ns[.class]
        | ((.start_lag.mean + .connect.mean + .tls.mean + .first_byte.mean + .body.mean - .request.mean) | fabs <= 1000)
          and ((.start_lag.mean + .service.mean - .request.mean) | fabs <= 1000))'
    for arm in 0 1; do
        mean=$(samples out "t.arm = $arm" | awk '{ sum += $6 } END { printf "%.3f", sum / NR }')
        check s.json '.arms[$arm] | (.latency_ns[.class].request.mean - $mean) | fabs <= 1000' \
            --argjson arm $arm --argjson mean "$mean"
    done
}

# ---- F06: a saturated generator is not the server's ceiling ----

@test "F06: 1,000,000/s on one thread is generator-limited, exit 4" {
    run pq tls --groups X25519 --rate 1000000 --threads 1 --duration 3s --warmup 0 --blocks 1 --timeout 5s --out out --json s.json
    [ "$status" -eq 4 ]
    says "generator-limited" "UNFIT"
    reconciled s.json
    check s.json '.arms[0] | .verdict == "unfit" and .counts.scheduled == 3000000 and .offered_per_s == 1000000
                  and .counts.dropped > 0 and .counts.started < 2970000 and (.reasons | index("generator-limited") != null)'
    check s.json '.findings[] | select(.id == "generator-limited") | .text | test("started [0-9.]+ % of 3000000 arrivals")'
}

@test "F06: 100,000/s is generator-limited too, in both arms, and is compared with nothing" {
    run pq tls --rate 100000 --duration 500ms --warmup 0 --blocks 1 --timeout 3s --max-inflight 500 --out out --json s.json
    [ "$status" -eq 4 ]
    says "generator-limited" "UNFIT"
    reconciled s.json
    check s.json 'all(.arms[]; .verdict == "unfit" and .counts.scheduled == 50000)'
    check s.json 'all(.comparisons[]; .verdict == "unfit" and .delta == null)'
}

# ---- F21: percentiles need samples ----

# n connections, none of them with cryptography: what counts here is how many there are.
count_of() {
    run pq tls --engine null --rate "$1" --duration "$2" --warmup 0 --blocks 1 --out "out.$1" --json "$1.json"
    measured "$1.json"
}

@test "F21: 1, 7, 999 and 1000 samples give the percentiles that they support" {
    count_of 1 1s
    check 1.json '.arms[0].latency_ns.full.request | .n == 1 and .p50 == null and .p99 == null and .max > 0 and .min == .max'
    count_of 7 1s
    check 7.json '.arms[0].latency_ns.full.request | .n == 7 and .p50 == null and .p99 == null and .max > 0'
    count_of 499.5 2s
    check 499.5.json '.arms[0].latency_ns.full.request | .n == 999 and .p50 > 0 and .p95 > 0 and .p99 == null'
    count_of 500 2s
    check 500.json '.arms[0].latency_ns.full.request | .n == 1000 and .p95 > 0 and .p99 > 0 and .p999 == null'
    not grep -qiE ': *-?(nan|inf)' out.*/summary.json
}

@test "F21: when nothing succeeds there is no data, not a figure" {
    files
    # It serves the two preflights and is gone. By its address: a name with several costs a connection to look which answers.
    foreign server -cert "${SERVER_CERT[1]}" -key "${SERVER_CERT[3]}" -www -naccept 2
    run pq load "${BRIEF[@]}" --target "127.0.0.1:$PORT" --ca "$CA" --out out --json s.json
    [ "$status" -eq 4 ]
    reconciled s.json
    check s.json '.arms[0] | .counts.completed == 0 and .counts.failed == {"connect.refused": 50}
                  and (.reasons | index("no-data") != null)'
    # But for the start lag, which is the generator's whatever becomes of the connection.
    check s.json '[.arms[0].latency_ns | to_entries[] | select(.key != "first") | .value | to_entries[]
                   | select(.key != "start_lag") | .value.p50] | length > 0 and all(.[]; . == null)'
    check s.json '.arms[0] | .cpu_ns.client == null and .bytes.to_client == null and .achieved_per_s == 0'
    says "no-data" "connection refused"
    valid_summary s.json
}

# ---- F28: what a failed negotiation says ----

@test "F28: X25519 against a server that only has X25519MLKEM768" {
    run pq tls "${BRIEF[@]}" --groups X25519 --server-groups X25519MLKEM768 --out out
    [ "$status" -eq 1 ]
    says "preflight of arm X25519" "alert_handshake_failure" "client offers: groups X25519" \
        "server accepts: groups X25519MLKEM768" "hint: no group in common"
    no_figures
    # The second arm would work, but one failed preflight ends the run before its first trial.
    run pq tls "${BRIEF[@]}" --groups X25519MLKEM768,X25519 --server-groups X25519MLKEM768 --out out
    [ "$status" -eq 1 ]
    says "preflight of arm X25519:" "hint: "
    no_figures
}

@test "F28: the same against a foreign server, whose groups are not known" {
    files
    foreign server -cert "${SERVER_CERT[1]}" -key "${SERVER_CERT[3]}" -www -groups X25519MLKEM768
    run pq load "${BRIEF[@]}" --groups X25519 --target "localhost:$PORT" --ca "$CA" --out out
    [ "$status" -eq 1 ]
    says "alert_handshake_failure" "client offers: groups X25519" "hint: the server must accept one of these groups"
    no_figures
}

@test "F28: unknown groups" {
    run pq tls "${BRIEF[@]}" --groups X25519MLKEM786 --out out
    [ "$status" -eq 1 ]
    says "'X25519MLKEM786' is not a list of key-exchange groups" "pqshake list groups"
    no_figures
    run pq tls "${BRIEF[@]}" --groups '?bogus' --out out
    [ "$status" -eq 1 ]
    says "bogus' is not a list of key-exchange groups"
    no_figures
}

@test "F28: a key of another certificate" {
    files
    run pq serve --listen 127.0.0.1:0 --cert-file "${SERVER_CERT[1]}" --key-file "$BATS_FILE_TMPDIR/friend/ecdsa-p256/key.pem"
    [ "$status" -eq 1 ]
    says "the private key does not belong to the certificate"
    no_figures
}

@test "F28: an expired certificate, a certificate of another name and one of another CA" {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -not_before 20200101000000Z -not_after 20200201000000Z 2>/dev/null
    serve server --cert-file cert.pem --key-file key.pem
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca cert.pem --out out
    [ "$status" -eq 1 ]
    says "step 'tls'" "certificate did not verify" "certificate has expired"
    no_figures
    files
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca "$CA" --out out
    [ "$status" -eq 1 ]
    says "certificate did not verify"
    no_figures
    stop_server
    grep -q 'failed.alert_' server.out || plain_alert
    serve named "${SERVER_CERT[@]}"
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --servername other.example --ca "$CA" --out out
    [ "$status" -eq 1 ]
    says "certificate did not verify" "ostname mismatch"
    no_figures
}
