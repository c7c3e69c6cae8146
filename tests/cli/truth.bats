# Known truths are recovered: delays, failures, stalls, certificates and CPU that the test itself arranges or measures.
# Field cases are named by their id. RELAY is tests/relay.c.
load common
: "${RELAY:?path of the built relay}"

# relay NAME ROUTE...: the relay in the background, its port in RELAY_PORT.
relay() {
    local name=$1
    shift
    (exec env "$MARK" "$RELAY" 0 "$@" 3>&-) >"$name.out" 2>&1 &
    RELAY_PID=$!
    SERVERS+=("$RELAY_PID")
    wait_for 10 grep -q '^listening' "$name.out" || { cat "$name.out"; return 1; }
    RELAY_PORT=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$name.out")
}

stop_relay() {
    kill -TERM "$RELAY_PID"
    wait "$RELAY_PID"
}

# Where the ClientHello lists X25519 and one more group: supported_groups (RFC 8446, 4.2.7), of which only the first has a key
# share. The handshakes are alike, and the relay can tell the arms apart.
WITH_P256=000a00060004001d0017
WITH_P384=000a00060004001d0018
ARMS=X25519,X25519:P-256,X25519:P-384

# Connections to PORT that this machine closed first: the client's.
closed_connections() {
    local port
    port=$(printf '%04X' "$PORT")
    [ "$(awk -v port=":$port" '$4 == "06" && index($3, port) { n++ } END { print n + 0 }' /proc/net/tcp)" -ge "$1" ]
}

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# ---- a known delay ----

# From here on this shell and what it starts run before everything else on the machine, where that is allowed: half a
# millisecond is not to be seen through the jobs of others.
urgent() {
    chrt --rr --pid 10 $BASHPID >/dev/null 2>&1 || renice -n -15 -p $BASHPID >/dev/null 2>&1 || true
}

# Whether the run in delay.json is precise enough: then `recovered` tells 0.5 ms from nothing and from 1.1 ms.
precise() {
    check delay.json '[.comparisons[] | select(.metric == "request.p50")] | all(.[]; .detectable != null and .detectable < 250000)' \
        >/dev/null
}

# A run of three attempts that could not, on a machine that has more to do than its CPUs can, shows nothing.
need_precision() {
    cd "$BATS_FILE_TMPDIR"
    precise || ! busy_machine || skip "this machine is too busy to see half a millisecond"
}

# 0.5 and 2 ms, injected into the server's first flight of two arms of a run that has a third without. All at once: what
# disturbs the machine disturbs all of them. Made once, for the tests that look at it.
setup_file() {
    urgent
    MARK=PQSHAKE_TEST=$BATS_FILE_TMPDIR
    cd "$BATS_FILE_TMPDIR"
    serve server --groups X25519:P-256:P-384
    relay relay "$WITH_P256:500:$PORT" "$WITH_P384:2000:$PORT" ":0:$PORT"
    for attempt in 1 2 3; do
        [ "$attempt" -eq 1 ] || ! precise || break
        rm -rf delay
        status=0
        pq tls --target "localhost:$RELAY_PORT" --ca server-ca.pem --groups "$ARMS" --rate 150 --duration 700ms \
            --warmup 100ms --blocks 6 --timeout 3s --seed "$attempt" --out delay --json delay.json >delay.out 2>&1 || status=$?
    done
    stop_relay
    stop_server
    SERVERS=()
}

# recovered ARM DELAY_US: delta and interval of request p50 against the arm without a delay. A 95 % interval misses one truth in
# twenty, a test must not: its 99.9 % interval (t .9995 / t .975 is 2.7 at 6 blocks), and 60 us for what waiting
# longer itself costs (a core that slept deeper wakes later).
recovered() {
    jq -c '.comparisons[] | select(.arm == $arm and .metric == "request.p50") | {arm, blocks, delta, delta_ci95, verdict}' \
        --arg arm "$1" "$BATS_FILE_TMPDIR/delay.json"
    cat "$BATS_FILE_TMPDIR/relay.out"
    check "$BATS_FILE_TMPDIR/delay.json" '.comparisons[] | select(.arm == $arm and .metric == "request.p50")
        | .blocks >= 5 and .delta_ci95[0] > 0 and .verdict == "differs"
          and (2.7 * (.delta_ci95[1] - .delta) + 60000) as $width | (.delta - 1000 * $us | fabs) <= $width' \
        --arg arm "$1" --argjson us "$2"
}

@test "a delay of 0.5 ms is recovered as the delta: the interval covers it and excludes zero" {
    need_precision
    recovered X25519:P-256 500
    # The relay says itself that it did so, to every connection of the arm: preflights, warm-up and window.
    grep -qE '^route 0: [0-9]+ connections, mean delay (5[0-9][0-9]|[6-9][0-9][0-9]|[0-9]{4,})\.' "$BATS_FILE_TMPDIR/relay.out"
}

@test "a delay of 2 ms is recovered as the delta: the interval covers it and excludes zero" {
    need_precision
    recovered X25519:P-384 2000
    check "$BATS_FILE_TMPDIR/delay.json" 'all(.arms[]; .negotiated.groups | keys == ["X25519"])'
}

@test "the delay is where it was put: in the phase TLS, not in connect or start lag" {
    check "$BATS_FILE_TMPDIR/delay.json" '[.arms[].latency_ns.full] | (.[2].tls.p50 - .[0].tls.p50) > 1500000
        and ((.[2].connect.p50 - .[0].connect.p50) | fabs) < 500000 and (.[2].start_lag.p50 - .[0].start_lag.p50) < 500000'
}

@test "our server counted the client's connections to the unit" {
    cd "$BATS_FILE_TMPDIR"
    # Every connection of the run went through the relay to this server: a preflight of each arm before the run, one in each of
    # the 18 trials, 15 warm-up connections and 105 in the window (of each attempt).
    each=$((3 + 18 * (1 + 15 + 105)))
    relayed=$(awk '/^route/ { n += $3 } END { print n }' relay.out)
    completed=$(sed -nE 's/^completed +([0-9]+)$/\1/p' server.out)
    [ "$relayed" -eq "$completed" ]
    [ $((relayed % each)) -eq 0 ] && [ $((relayed / each)) -ge 1 ]
    reconciled delay.json
    check delay.json 'all(.arms[].counts; .scheduled == 630 and .completed == 630)'
}

@test "quantiles, means and intervals agree with an independent computation from the samples" {
    perl -MStatistics::Distributions -e 1 2>/dev/null || skip "libstatistics-distributions-perl is not installed"
    cd "$BATS_FILE_TMPDIR"
    {
        jq -r '.arms | to_entries[] | .key as $arm | .value.trials[] | .block as $b | .request_ns | to_entries[]
               | "trial \($arm) \($b) \(.key) \(.value)"' delay.json
        jq -r '[.arms[].name] as $names | .comparisons[] | select(.metric | test("^request")) | .arm as $arm
               | "compared \($names | index($arm)) \(.metric[8:]) \(.delta) \(.delta_ci95[0]) \(.delta_ci95[1]) \(.detectable)"' \
            delay.json
        for arm in 0 1 2; do
            for block in 0 1 2 3 4 5; do
                samples delay "t.arm = $arm and t.block = $block" |
                    awk -v of="$arm $block" '$9 == 0 && $10 == 0 { print "sample", of, $6 }'
            done
        done
    } >figures
    perl "$BATS_TEST_DIRNAME/independent.pl" <figures
    # It would see a fault: one figure off by a percent.
    awk '/^compared 1 p50/ { $4 *= 1.01 } { print }' figures >wrong
    not perl "$BATS_TEST_DIRNAME/independent.pl" <wrong
}

# ---- F05: a server that stands still ----

@test "F05: a server stopped for 5 of 10 s: every arrival in that time is delayed by what was left of it" {
    serve server
    (exec_pq load --target "localhost:$PORT" --ca server-ca.pem --rate 50 --duration 10s --warmup 0 --blocks 1 --timeout 9s \
        --out out --json s.json) >load.out 2>&1 &
    local load=$! worker status=0
    worker=$(marked "pqshake-worker-$SERVER_STACK server")
    wait_for 60 closed_connections 4 # two preflights, then the window has begun
    sleep 2.4
    kill -STOP "$worker"
    stopped=$(now_ms)
    sleep 5
    kill -CONT "$worker"
    frozen=$(($(now_ms) - stopped))
    wait "$load" || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 4 ] # it may well be called overloaded
    reconciled s.json
    check s.json '.arms[0].counts | .scheduled == 500 and .completed == 500'
    samples out 1 | awk '{ print $6 }' | sort -n >latencies
    echo "frozen $frozen ms; in ns: $(sed -n '125p;250p;375p;500p' latencies | tr '\n' ' ')"
    awk -v frozen="$frozen" '{ ms[NR] = $1 / 1e6; delayed += $1 > 100e6 }
        END { if (NR != 500) exit 1
              if (ms[500] < frozen - 40 || ms[500] > frozen + 500) { print "max", ms[500]; exit 1 }
              if (ms[375] < 0.45 * frozen || ms[375] > 0.6 * frozen) { print "p75", ms[375]; exit 1 }
              if (ms[125] > 50) { print "p25", ms[125]; exit 1 }
              if (delayed < 240 || delayed > 290) { print "delayed", delayed; exit 1 } }' latencies
    # The report says the same.
    check s.json '.arms[0].latency_ns.full.request | .max / 1e6 > $frozen - 40 and .p75 / 1e6 > 0.45 * $frozen and .p25 == null' \
        --argjson frozen "$frozen"
}

# ---- F09: failures flatter no percentile ----

@test "F09: a server gone from 3 to 6 s of 10: 30 % failures, by class, and percentiles of the others only" {
    pq cert ecdsa-p256 --out server >/dev/null
    local cert=(--cert-file server/ecdsa-p256/cert.pem --key-file server/ecdsa-p256/key.pem)
    serve before "${cert[@]}"
    (exec_pq load --target "localhost:$PORT" --ca server/ecdsa-p256/ca.pem --rate 100 --duration 10s --warmup 0 --blocks 1 \
        --timeout 5s --out out --json s.json) >load.out 2>&1 &
    local load=$! status=0
    wait_for 60 closed_connections 4
    sleep 2.9
    kill -KILL "$(marked "pqshake-worker-$SERVER_STACK server")"
    down=$(now_ms)
    sleep 2.9
    serve after "${cert[@]}" --listen "127.0.0.1:$PORT"
    up=$(now_ms)
    wait "$load" || status=$?
    [ "$status" -eq 4 ]
    reconciled s.json
    # As many as were due while it was gone; `serve` notices up to 50 ms late that it is back.
    echo "gone for $((up - down)) ms"
    check s.json '.arms[0].counts | (.failed | add) as $failed | .scheduled == 1000 and .started == 1000
                  and ($failed - $ms / 10 | fabs) <= 20 and $failed == 1000 - .completed
                  and (.failed["connect.refused"] >= $failed - 20)' --argjson ms $((up - down))
    check s.json '.arms[0] | (.latency_ns.full.request | .n) == .counts.completed and .verdict == "unfit"
                  and (.reasons | index("failures") != null) and .achieved_per_s < 80'
    grep -q "connections failed" load.out
    # The quantiles are those of the completed ones.
    samples out 1 | awk '$9 == 0 { print $6 }' | sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }' >p50
    check s.json '(.arms[0].latency_ns.full.request.p50 / $p50 - 1 | fabs) < 0.001' --argjson p50 "$(cat p50)"
}

# ---- F10: arms that differ in something nobody declared ----

# Both kinds of certificate, of one CA file that trusts both.
two_kinds() {
    pq cert rsa-2048 --out server >/dev/null
    pq cert ML-DSA-65 --out server >/dev/null
    RSA=server/rsa-2048 MLDSA=$(ls -d server/[mM][lL]*65)
    cat "$RSA/ca.pem" "$MLDSA/ca.pem" >ca.pem
    cat "$RSA/cert.pem" >both-cert.pem
    cat "$RSA/key.pem" >both-key.pem
}

@test "F10: two certificates behind one address: what the arms negotiated differs, and is declared by --sigalgs" {
    serve server --cert rsa-2048,ML-DSA-65
    run pq tls --target "localhost:$PORT" --ca server-ca.pem --groups X25519 --sigalgs mldsa65:rsa_pss_rsae_sha256,rsa_pss_rsae_sha256 \
        "${BRIEF[@]}" --out out --json s.json
    measured s.json
    check s.json '[.arms[].negotiated.signatures | keys[]] == ["mldsa65", "rsa_pss_rsae_sha256"]'
    check s.json '[.findings[].id] | index("undeclared") == null'
    check s.json '.arms[0].bytes.to_client - .arms[1].bytes.to_client > 4000'
}

@test "F10: another server behind the same address for one arm is an undeclared difference, said in every output" {
    two_kinds
    serve rsa --cert-file "$RSA/cert.pem" --key-file "$RSA/key.pem"
    local rsa_port=$PORT
    serve mldsa --cert-file "$MLDSA/cert.pem" --key-file "$MLDSA/key.pem"
    relay relay "$WITH_P256:0:$rsa_port" ":0:$PORT"
    run pq tls --target "localhost:$RELAY_PORT" --ca ca.pem --groups X25519,X25519:P-256 "${BRIEF[@]}" --out out --json s.json
    measured s.json
    says "undeclared" "signature: mldsa65 / rsa_pss_rsae_sha256" "certificate.key"
    grep -q undeclared out/summary.md
    check s.json '.findings[] | select(.id == "undeclared") | .severity == "warning" and (.text | test("certificate.chain_bytes"))'
}

# ---- F11: the chain is verified ----

@test "F11: an ML-DSA-65 chain with the right CA, a wrong one, none, and --insecure" {
    two_kinds
    serve server --cert-file "$MLDSA/cert.pem" --key-file "$MLDSA/key.pem"
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca "$MLDSA/ca.pem" --out right --json right.json
    measured right.json
    check right.json '.arms[0].negotiated | .verified == 50 and .signatures == {mldsa65: 50}'
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --ca "$RSA/ca.pem" --out out
    [ "$status" -eq 1 ]
    says "certificate did not verify"
    no_figures
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --out out
    [ "$status" -eq 2 ]
    says "needs --ca"
    no_figures
    run pq load "${BRIEF[@]}" --target "localhost:$PORT" --insecure --out insecure --json insecure.json
    measured insecure.json
    says "INSECURE"
    check insecure.json '.plan.insecure and .arms[0].negotiated.verified == 0 and ([.findings[].id] | index("insecure") != null)'
    # What was not verified is not in the client's CPU: an ML-DSA-65 chain takes two verifications.
    check insecure.json '.arms[0].cpu_ns.client < $with' --argjson with "$(jq '.arms[0].cpu_ns.client' right.json)"
}

# ---- F18: the same code is not different from itself ----

# significant N BLOCKS: how many of N comparisons of an arm with itself differ in request p50.
significant() {
    local i differ=0
    for ((i = 1; i <= $1; i++)); do
        status=0
        pq tls --aa --rate 150 --duration 200ms --warmup 0 --blocks "$2" --seed "$i" --out "aa$i" --json "aa$i.json" \
            >/dev/null 2>&1 || status=$?
        [ "$status" -eq 0 ] || [ "$status" -eq 4 ] || return 1
        check "aa$i.json" 'any(.comparisons[]; .metric == "request.p50")' || return 1
        differ=$((differ + $(jq '[.comparisons[] | select(.metric == "request.p50" and .verdict == "differs")] | length' "aa$i.json")))
    done
    echo "$differ"
}

@test "F18: --aa on the primary metric: intervals that exclude zero are as rare as they should be" {
    if [ "${PQSHAKE_FULL:-}" ]; then
        n=$(significant 20 10)
        echo "$n of 20 differ"
        [ "$n" -le 5 ] # 5 % nominal: more than 5 of 20 once in 3,000
    else
        n=$(significant 2 5)
        echo "$n of 2 differ"
        [ "$n" -le 1 ]
    fi
}

# ---- F19: the first handshake ----

@test "F19: the first handshake of a context is a class of its own and sets no maximum" {
    serve server
    run pq load --target "localhost:$PORT" --ca server-ca.pem --rate 400 --duration 2500ms --warmup 0 --blocks 1 \
        --out out --json s.json
    measured s.json
    # The preflight, before the window.
    check s.json '.arms[0].latency_ns | .first.service.n == 1 and .full.request.n == 1000'
    samples out 1 >rows
    [ "$(awk '$9 == 0 && $10 == 0' rows | wc -l)" -eq 1000 ]
    max=$(awk '$6 > max { max = $6; at = NR } END { print max }' rows)
    check s.json '.arms[0].latency_ns | .full.request.max == $max' --argjson max "$max"
    # Nor does the first of the thousand, which is not the context's first any more.
    awk 'NR == 1 { first = $6 } $6 > first { slower++ } END { print slower; exit slower < 1 }' rows
    says "first handshake"
}

# ---- CPU ----

# cpu_of PID: milliseconds on a CPU so far, from the scheduler's own accounting of its threads (not what the program asks).
cpu_of() {
    cat /proc/"$1"/task/*/schedstat 2>/dev/null | awk '{ ns += $1 } END { printf "%d\n", ns / 1e6 }'
}

@test "CPU per handshake is the kernel's: client and server agree with the scheduler's accounting of their processes" {
    [ -r /proc/self/schedstat ] || skip "this kernel has no /proc/PID/schedstat"
    (exec_pq tls --groups X25519 --rate 200 --duration 4s --warmup 0 --blocks 1 --out out --json s.json) >tls.out 2>&1 &
    local run=$! client server status=0
    wait_for 60 eval '[ "$(marked "pqshake-worker-$CLIENT_STACK client")" ] && [ "$(cpu_of "$(marked "pqshake-worker-$CLIENT_STACK client")")" -gt 200 ]'
    client=$(marked "pqshake-worker-$CLIENT_STACK client") server=$(marked "pqshake-worker-$SERVER_STACK server")
    began=$(now_ms) client_before=$(cpu_of "$client") server_before=$(cpu_of "$server")
    sleep 2
    client_ms=$(($(cpu_of "$client") - client_before)) server_ms=$(($(cpu_of "$server") - server_before))
    handshakes=$((200 * ($(now_ms) - began) / 1000))
    wait "$run" || status=$?
    measured s.json
    echo "$handshakes handshakes: client $client_ms ms, server $server_ms ms; $(jq -c '.arms[0].cpu_ns' s.json)"
    # Of 400 of the 800 handshakes: a part, so not the same figure.
    check s.json '.arms[0].cpu_ns | (.client / ($client * 1e6 / $n) - 1 | fabs) < 0.2
                                 and (.server / ($server * 1e6 / $n) - 1 | fabs) < 0.2' \
        --argjson client "$client_ms" --argjson server "$server_ms" --argjson n "$handshakes"
    # The load under which it was measured stands beside it.
    check s.json '.arms[0] | (.cpu_ns.server_busy / (.cpu_ns.server * 200 / 1e9) - 1 | fabs) < 0.05
                  and .cpu_ns.client_busy > 0.02 and .cpu_ns.client_busy < 1'
    grep -q "CPU per handshake is that of the load shown" tls.out
}
