# pqshake serve: what it prints, what it answers, how it ends.
load common

# ask OPTION...: the lines of standard input as requests over one connection; the answers to client.out.
ask() {
    LIMIT=20 openssl s_client -connect "127.0.0.1:$PORT" -servername localhost -quiet -verify_return_error "$@" >client.out 2>client.err
}

@test "prints where it listens, its groups and its CA; SIGTERM and SIGINT print the counters, exit 0" {
    for signal in TERM INT; do
        serve "server$signal" --groups X25519MLKEM768:X25519 --threads 2
        grep -q "^CA certificate: server$signal-ca.pem$" "server$signal.out"
        printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' | ask -CAfile "server$signal-ca.pem"
        grep -q '^ok$' client.out
        kill -"$signal" "$SERVER"
        status=0
        wait "$SERVER" || status=$?
        [ "$status" -eq 0 ]
        for line in 'accepted +1' 'completed +1' 'failed +0' 'bytes_in +[1-9][0-9]*' 'bytes_out +[1-9][0-9]*' 'accept_backoff +0' \
            'cpu +[0-9.]+ s'; do
            grep -qE "^$line$" "server$signal.out"
        done
    done
}

@test "several requests on one connection, large bodies among them, then close" {
    serve server
    {
        printf 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
        printf 'GET /bytes/50000 HTTP/1.1\r\nHost: x\r\n\r\n'
        printf 'HEAD /bytes/9 HTTP/1.1\r\nHost: x\r\n\r\n'
        printf 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n'
        printf 'GET /bytes/67108865 HTTP/1.1\r\nHost: x\r\n\r\n'
        printf 'GET /bytes/200000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
    } >requests
    run ask -CAfile server-ca.pem <requests
    [ "$status" -eq 0 ] # s_client saw close_notify
    [ "$(grep -aoE 'HTTP/1.1 [0-9]+' client.out | tr '\n' ' ')" = \
        "HTTP/1.1 200 HTTP/1.1 200 HTTP/1.1 200 HTTP/1.1 405 HTTP/1.1 404 HTTP/1.1 200 " ]
    [ "$(tr -dc x <client.out | wc -c)" -ge 250000 ]
    [ "$(tr -dc x <client.out | wc -c)" -lt 250050 ]
    stop_server
    grep -qE '^failed +0$' server.out
}

@test "a port that is taken: exit 1, and the CA file of the server that has it is left alone" {
    serve server
    cp server-ca.pem before.pem
    run pq serve --listen "127.0.0.1:$PORT" --ca-out server-ca.pem
    [ "$status" -eq 1 ]
    says "cannot listen on 127.0.0.1 port $PORT" "Address already in use"
    cmp server-ca.pem before.pem
}

@test "an address that is not ours, or is none" {
    run pq serve --listen 192.0.2.1:0 --ca-out ca.pem
    [ "$status" -eq 1 ]
    says "cannot listen on 192.0.2.1"
    run pq serve --listen not-an-address:0 --ca-out ca.pem
    [ "$status" -eq 2 ]
    says "'not-an-address' is not an address to listen on"
    run pq serve --listen 127.0.0.1:0 --ca-out nowhere/ca.pem
    [ "$status" -ne 0 ]
    says "nowhere/ca.pem"
}

@test "two certificate kinds: the client's signature algorithms choose" {
    serve server --cert rsa-2048,ML-DSA-65
    for sigalgs in rsa_pss_rsae_sha256 mldsa65; do
        run pq load "${BRIEF[@]}" --duration 300ms --target "localhost:$PORT" --ca server-ca.pem --sigalgs $sigalgs --out "$sigalgs" \
            --json s.json
        measured s.json
        check s.json '.arms[0].negotiated.signatures == {($name): 15}' --arg name $sigalgs
    done
}

@test "its own certificate's names: --san" {
    serve server --san DNS:www.example
    run pq load "${BRIEF[@]}" --duration 200ms --target "127.0.0.1:$PORT" --servername www.example --ca server-ca.pem --out good \
        --json s.json
    measured s.json
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca server-ca.pem --out bad
    [ "$status" -eq 1 ]
    says "ostname mismatch"
}

@test "silent clients are timed out, counted, and disturb nobody" {
    serve server --timeout 500ms
    exec {silent}<>"/dev/tcp/127.0.0.1/$PORT"
    run timeout 10 cat <&"$silent" # until the server hangs up
    [ "$status" -eq 0 ]
    exec {silent}>&-
    printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' | ask -CAfile server-ca.pem
    grep -q '^ok$' client.out
    stop_server
    grep -qE '^failed.timeout +1 ' server.out
    grep -qE '^completed +1$' server.out
}

@test "few descriptors: it pauses accepting and serves the others" {
    (ulimit -n 40; exec_pq serve --listen 127.0.0.1:0 --ca-out ca.pem --engine null --timeout 2s) >server.out 2>&1 &
    SERVER=$!
    SERVERS+=("$SERVER")
    wait_for 30 grep -q '^listening' server.out
    PORT=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' server.out)
    for i in $(seq 60); do
        exec {open[i]}<>"/dev/tcp/127.0.0.1/$PORT"
    done
    for fd in "${open[@]}"; do
        exec {fd}>&-
    done
    exec {one}<>"/dev/tcp/127.0.0.1/$PORT"
    printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&"$one"
    run timeout 20 cat <&"$one"
    exec {one}>&-
    says "200 OK"
    stop_server
    grep -qE '^accept_backoff +[1-9]' server.out
}
