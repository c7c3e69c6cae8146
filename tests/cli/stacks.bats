# TLS stacks: every pair of client and server interoperates, says which libraries ran, and differs in what docs/STACKS.md says.
load common

setup_file() {
    [ -x "$(dirname "$PQSHAKE")/pqshake-worker-aws-lc" ] || skip "this build has no AWS-LC ('pqshake list --stacks')"
}

BRIEF=(--blocks 1 --duration 400ms --warmup 100ms --rate 50)
PAIRS=(--client-stack "openssl,aws-lc" --server-stack "openssl,aws-lc")
# A short run of one block says so.
valid_but_short() {
    [ "$status" -eq 0 ] || [ "$status" -eq 4 ]
    # What a noisy machine and a short run may say; nothing about what was negotiated, verified or counted.
    jq -e '[.arms[].reasons[]] - ["few-blocks", "few-samples", "generator-late", "lag", "loopback", "starved", "steal", "short-window",
        "busy", "server-busy", "overloaded", "thin-interval", "outlier", "environment-changed", "foreign-cpu"] == []' s.json
}

@test "every pair: 20 of 20 handshakes, the group at both ends, both libraries named, totals reconcile to the unit" {
    run pq tls "${PAIRS[@]}" --groups X25519,X25519MLKEM768 "${BRIEF[@]}" --out out --json s.json
    valid_but_short
    jq -e '[.arms[] | .counts.completed == 20 and .counts.failed == {} and .negotiated.verified == 20] | length == 8 and all' s.json
    jq -e '[.arms[] | .negotiated.groups == {(.factors.groups): 20}] | all' s.json
    for side in client server; do
        [ "$(sqlite3 out/run.db "SELECT count(*) FROM arm a JOIN trial t ON t.arm = a.id JOIN fact f ON f.trial = t.id
            WHERE f.side = '$side' AND f.name = 'stack' AND a.key LIKE '%$side-stack=' || f.value || '%'")" -eq 8 ]
        [ "$(sqlite3 out/run.db "SELECT count(DISTINCT value) FROM fact WHERE side = '$side' AND name = 'library_version'")" -eq 2 ]
        [ "$(sqlite3 out/run.db "SELECT count(*) FROM fact WHERE side = '$side' AND name = 'build_id' AND length(value) >= 32")" -eq 8 ]
    done
    # The server's group is the client's, counted by itself.
    [ "$(sqlite3 out/run.db "SELECT count(*) FROM fact c JOIN fact s USING (trial, name, value) WHERE c.side = 'client'
        AND s.side = 'server' AND name = 'group' AND c.n = 20 AND s.n >= 20")" -eq 8 ]
    # What the hybrid's shares add is the standard's, whatever the stack: ServerHello +1088.
    for client in openssl aws-lc; do
        for server in openssl aws-lc; do
            sizes=$(sqlite3 out/run.db "SELECT f.value FROM arm a JOIN trial t ON t.arm = a.id JOIN fact f ON f.trial = t.id
                WHERE f.name = 'message.server_hello' AND a.key LIKE '%client-stack=$client %server-stack=$server%'
                ORDER BY CAST(f.value AS INTEGER)")
            [ "$(tail -n 1 <<<"$sizes")" -eq "$(($(head -n 1 <<<"$sizes") + 1088))" ]
        done
    done
    jq -e '[.arms[] | .library.client.stack == .factors["client-stack"] and .library.server.stack == .factors["server-stack"]] | all' s.json
    says "OpenSSL 3." "and AWS-LC" "as a whole and of groups (docs"
    says "Across TLS libraries (client openssl -> aws-lc)" "Across TLS libraries (server openssl -> aws-lc)"
    # Declared differences are no warning.
    ! grep -q undeclared <<<"$output"
}

@test "every pair: certificates of every kind" {
    kinds=ecdsa-p256,ecdsa-p384,rsa-2048,rsa-3072,ed25519,ML-DSA-44,ML-DSA-65,ML-DSA-87
    # AWS-LC offers Ed25519 only when told to.
    for client in openssl aws-lc; do
        [ $client = openssl ] || kinds=${kinds/ed25519,/}
        LIMIT=120 run pq tls --client-stack $client --server-stack openssl,aws-lc --cert $kinds "${BRIEF[@]}" \
            --duration 200ms --warmup 0 --groups X25519MLKEM768 --out "out-$client" --json s.json
        valid_but_short
        jq -e '[.arms[] | .counts.completed == 10 and .negotiated.verified == 10] | length == $n and all' s.json \
            --argjson n $((2 * $(tr ',' '\n' <<<$kinds | wc -l)))
        jq -e '[.arms[] | .negotiated.signatures | keys[0]] | unique | length >= 5' s.json
    done
    run pq tls --client-stack aws-lc --cert ed25519 --sigalgs ed25519 "${BRIEF[@]}" --groups X25519 --out out-ed --json s.json
    valid_but_short
    jq -e '.arms[0].negotiated.signatures == {"ed25519": 20}' s.json
}

@test "what a stack cannot do is refused in the preflight, with the reason, and nothing is measured" {
    run pq tls --client-stack openssl,aws-lc --groups X448 "${BRIEF[@]}" --out out
    [ "$status" -eq 1 ]
    says "preflight of arm" "'X448' is not a list of key-exchange groups that AWS-LC" "pqshake list groups"
    [ ! -e out ]
    run pq tls --client-stack aws-lc --cert ed25519 --groups X25519 "${BRIEF[@]}" --out out
    [ "$status" -eq 1 ]
    says "preflight of arm" "alert_handshake_failure" "signatures (library default)"
    [ ! -e out ]
}

@test "a bad name, a worker of another stack, a stack that is missing: a clear error" {
    run pq tls --client-stack openssl,boringssl
    [ "$status" -eq 2 ]
    says '--client-stack: "boringssl" is no TLS stack' "pqshake list --stacks"
    run pq tls --client-worker "$(dirname "$PQSHAKE")/pqshake-worker-aws-lc" "${BRIEF[@]}" --out out
    [ "$status" -eq 2 ]
    says "is of stack aws-lc, not openssl: --client-stack and"
    run pq tls --client-stack openssl,aws-lc --client-worker /x "${BRIEF[@]}" --out out
    [ "$status" -eq 2 ]
    says "names 2 stacks, but the path of the worker is that of one"
    mkdir only
    ln -s "$(dirname "$PQSHAKE")/pqshake-worker-openssl" only/
    PQSHAKE_WORKER_DIR=$PWD/only run pq tls --client-stack aws-lc "${BRIEF[@]}" --out out
    [ "$status" -eq 3 ]
    says "no worker pqshake-worker-aws-lc" "which PQSHAKE_WORKER_DIR names"
    PQSHAKE_WORKER_DIR=$PWD/only run pq list --stacks
    [ "$status" -eq 0 ]
    grep -q '^openssl *OpenSSL 3' <<<"$output"
    grep -q '^aws-lc *missing: .*g++' <<<"$output"
    # The rest works without it.
    PQSHAKE_WORKER_DIR=$PWD/only run pq tls --groups X25519 "${BRIEF[@]}" --out alone --json s.json
    valid_but_short
    PQSHAKE_WORKER_DIR=$PWD/only run pq list groups
    grep -qE '^X25519 +yes +- +32 +32 +classical$' <<<"$output"
    [ ! -e out ]
}

@test "serve, cert and speed of the other stack; a foreign client and a foreign server" {
    run pq cert --stack aws-lc ML-DSA-65 --out certs
    [ "$status" -eq 0 ]
    openssl verify -CAfile certs/ml-dsa-65/ca.pem certs/ml-dsa-65/cert.pem
    run pq speed --stack openssl,aws-lc X25519 X448 --duration 20ms --json speed.json
    [ "$status" -eq 0 ]
    jq -e '[.stacks[] | [.stack, (.operations | length), .missing]] == [["openssl", 4, []], ["aws-lc", 2, ["X448"]]]' speed.json

    serve server --server-stack aws-lc --cert ML-DSA-65
    printf 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
        LIMIT=20 openssl s_client -connect "127.0.0.1:$PORT" -servername localhost -CAfile server-ca.pem -verify_return_error \
            -ign_eof -groups X25519MLKEM768 >answer 2>&1
    grep -q '^ok' answer
    grep -qi 'group: X25519MLKEM768' answer
    run pq load --client-stack aws-lc --target "localhost:$PORT" --ca server-ca.pem --groups X25519MLKEM768 "${BRIEF[@]}" --out out \
        --json s.json
    valid_but_short
    jq -e '.arms[0].counts.completed == 20 and .arms[0].negotiated.groups == {"X25519MLKEM768": 20}' s.json

    foreign peer -WWW -cert certs/ml-dsa-65/cert.pem -key certs/ml-dsa-65/key.pem -groups X25519MLKEM768
    printf '0123456789' >ten
    run pq load --client-stack aws-lc --target "127.0.0.1:$PORT" --ca certs/ml-dsa-65/ca.pem --path /ten "${BRIEF[@]}" --out foreign --json s.json
    jq -e '.arms[0].counts.completed == 20 and .arms[0].negotiated.groups == {"X25519MLKEM768": 20}
        and .arms[0].negotiated.signatures == {"mldsa65": 20}' s.json
}
