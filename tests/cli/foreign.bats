# Peers that are not ours: openssl s_client against our server, openssl s_server against our client. Which group was
# negotiated is asserted at both ends.
load common

setup_file() {
    MARK=PQSHAKE_TEST=$BATS_FILE_TMPDIR
    cd "$BATS_FILE_TMPDIR"
    pq cert ecdsa-p256 ML-DSA-65 --out certs >/dev/null
}

# get PATH OPTION...: one request by s_client, everything it says into client.out.
get() {
    local path=$1
    shift
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$path" |
        LIMIT=20 openssl s_client -connect "127.0.0.1:$PORT" -servername localhost -verify_return_error -ign_eof "$@" \
            >client.out 2>client.err
}

@test "s_client gets its answer over X25519MLKEM768 and over X25519, and the server counts it" {
    serve server --groups X25519MLKEM768:X25519
    [ "$(sed -n 's/^groups: //p' server.out)" = X25519MLKEM768:X25519 ]
    get / -CAfile server-ca.pem -groups X25519MLKEM768
    grep -q '^Negotiated TLS1.3 group: X25519MLKEM768$' client.out
    grep -q 'Verify return code: 0 (ok)' client.out
    grep -q '^HTTP/1.1 200 OK' client.out
    grep -q '^ok$' client.out
    get / -CAfile server-ca.pem -groups X25519
    grep -qE '^(Negotiated TLS1.3 group: X25519$|(Peer|Server) Temp Key: X25519,)' client.out
    get /bytes/100000 -CAfile server-ca.pem
    grep -q '^Negotiated TLS1.3 group: X25519MLKEM768$' client.out
    [ "$(wc -c <client.out)" -gt 100000 ]
    get /nowhere -CAfile server-ca.pem
    grep -q '^HTTP/1.1 404' client.out
    stop_server
    grep -qE '^accepted +4$' server.out
    grep -qE '^failed +0$' server.out
}

@test "s_client that has no group in common, speaks TLS 1.2 or does not trust the CA is refused, counted by class" {
    serve server --groups X25519MLKEM768
    run get / -CAfile server-ca.pem -groups X25519
    [ "$status" -ne 0 ]
    grep -q 'handshake failure' client.err
    run get / -CAfile server-ca.pem -tls1_2
    [ "$status" -ne 0 ]
    grep -q 'protocol version' client.err
    pq cert ecdsa-p256 --out other >/dev/null
    run get / -CAfile other/ecdsa-p256/ca.pem
    [ "$status" -ne 0 ]
    # Whoever connects and says nothing, or does not speak TLS, disturbs nobody.
    exec {idle}<>"/dev/tcp/127.0.0.1/$PORT"
    printf 'GET / HTTP/1.0\r\n\r\n' >"/dev/tcp/127.0.0.1/$PORT"
    get / -CAfile server-ca.pem
    grep -q '^ok$' client.out
    exec {idle}>&-
    stop_server
    grep -qE '^accepted +6$' server.out
    grep -qE '^completed +1$' server.out
    grep -qE '^failed +5$' server.out
    grep -qE '^failed.version +1 ' server.out
    grep -qE '^failed.alert_unknown_ca +1 ' server.out || plain_alert
    grep -qE '^failed.plaintext +1 ' server.out
}

@test "a client certificate that the CA issued is let in, another is not" {
    pq cert ecdsa-p256 --name client --out client >/dev/null
    serve server --verify-client client/ecdsa-p256/ca.pem
    get / -CAfile server-ca.pem -cert client/ecdsa-p256/cert.pem -key client/ecdsa-p256/key.pem
    grep -q '^ok$' client.out
    run get / -CAfile server-ca.pem
    not grep -q '^ok$' client.out
    grep -q 'certificate required' client.err
}

# foreign_run KIND MODE GROUP: load against s_server with that certificate, mode (-www, -WWW) and one group.
foreign_run() {
    local dir=$BATS_FILE_TMPDIR/certs/$1
    printf 'ok\n' >body
    foreign "server$2" -cert "$dir/cert.pem" -key "$dir/key.pem" "$2" -groups "$3"
    run pq load "${BRIEF[@]}" --duration 600ms --groups "$3" --target "localhost:$PORT" --ca "$dir/ca.pem" "${@:4}" --out "out$2" \
        --json s.json
    measured s.json
    reconciled s.json
    check s.json '.arms[0] | .negotiated.groups == {($group): 30} and .negotiated.verified == 30 and .counts.completed == 30' \
        --arg group "$3"
    check s.json '.arms[0].cpu_ns | .server == null and (.server_reason | length > 0)'
    check s.json '[.findings[].id] | index("foreign-cpu") != null'
}

@test "load against s_server -www: the group is the one asked for, the server's CPU is unknown with its reason" {
    foreign_run ecdsa-p256 -www X25519MLKEM768
    # The same from the other end: s_server's status page names the group.
    get / -CAfile "$BATS_FILE_TMPDIR/certs/ecdsa-p256/ca.pem"
    grep -q 'X25519MLKEM768' client.out
}

@test "load against s_server -WWW with an ML-DSA-65 certificate: file, status and signature" {
    foreign_run ml-dsa-65 -WWW X25519 --path /body
    check s.json '.arms[0].negotiated.signatures == {mldsa65: 30}'
    # A page that is not there is a failure of its class, not a latency.
    run pq load "${BRIEF[@]}" --groups X25519 --target "localhost:$PORT" --ca "$BATS_FILE_TMPDIR/certs/ml-dsa-65/ca.pem" \
        --path /nothing-here --expect 204 --out other
    [ "$status" -eq 1 ]
    says "step 'response'" "http_status"
}
