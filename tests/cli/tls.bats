# pqshake tls end to end: the main comparison, and each option that changes what is measured.
load common

# The main comparison, run once for the tests that look at it. A machine that is busy with something else can make any single
# run unfit, so there are three attempts.
setup_file() {
    MARK=PQSHAKE_TEST=$BATS_FILE_TMPDIR
    cd "$BATS_FILE_TMPDIR"
    for attempt in 1 2 3; do
        rm -rf main
        status=0
        pq tls --rate 50 --duration 1s --warmup 200ms --blocks 2 --seed 7 --out main --json main.json >main.out 2>main.err ||
            status=$?
        [ "$status" -eq 4 ] || break
    done
    echo "$status" >main.status
}

# In the directory of the main comparison.
use_main() {
    cd "$BATS_FILE_TMPDIR" || return
    output=$(cat main.out main.err)
}

@test "main comparison: exit 0, both arms fit, one table, one sentence" {
    use_main
    says "Request latency" "X25519MLKEM768" "## Verdict" "the median request" "Results: main"
    [ "$(grep -c '^| p50' main.out)" -eq 1 ]
    status=$(cat main.status)
    measured main.json
    [ "$status" -eq 0 ] || ! busy_machine || skip "this machine is too busy: the generator was late in three attempts"
    [ "$status" -eq 0 ]
    check main.json '.verdict != "unfit" and (.arms | length) == 2 and all(.arms[]; .verdict != "unfit")'
    check main.json '[.arms[].name] == ["X25519", "X25519MLKEM768"] and .arms[0].baseline and (.arms[1].baseline | not)'
    check main.json '.arms[1].latency_ns.full.request.p50 - .arms[0].latency_ns.full.request.p50
                     == (.comparisons[] | select(.metric == "request.p50") | .delta)'
    check main.json '.comparisons[] | select(.metric == "bytes.to_server") | .delta == $n' --argjson n "$(to_server)"
    # Under 5 blocks there is no interval.
    check main.json '.comparisons[] | select(.metric == "request.p50")
                     | .delta_ci95 == null and .blocks == 2 and .verdict == "no interval"'
}

@test "main comparison: counts reconcile, on both sides" {
    use_main
    reconciled main.json
    check main.json 'all(.arms[]; .counts.scheduled == 100 and .counts.completed == 100)'
    run sql main "select count(*) from trial t where
        (select value from counter where trial = t.id and side = 'client' and name = 'completed') =
        (select value from counter where trial = t.id and side = 'server' and name = 'completed') and
        (select value from counter where trial = t.id and side = 'client' and name = 'started') =
        (select value from counter where trial = t.id and side = 'server' and name = 'accepted')"
    [ "$output" -eq 4 ]
    run sql main "select distinct value from counter where name = 'warmup.completed'"
    [ "$output" -eq 10 ]
}

@test "main comparison: every connection's facts are counted" {
    use_main
    check main.json 'all(.arms[]; .negotiated.groups == {(.name): 100})'
    check main.json 'all(.arms[]; .negotiated | .verified == 100 and .resumed == 0 and .early_data == 0 and .hello_retry == 0)'
    cipher=TLS_AES_256_GCM_SHA384
    [ "$STACKS" != "aws-lc aws-lc" ] || cipher=TLS_AES_128_GCM_SHA256
    check main.json 'all(.arms[]; .negotiated.ciphers == {($cipher): 100})' --arg cipher $cipher
    check main.json 'all(.arms[]; .negotiated.signatures == {ecdsa_secp256r1_sha256: 100})'
}

# AWS-LC sends neither ec_point_formats nor the server's list (docs/STACKS.md).
to_server() {
    [ "$CLIENT_STACK" = openssl ] && echo 1176 || echo 1184
}
to_client() {
    [ "$SERVER_STACK" = openssl ] && echo 1078 || echo 1088
}

# FACTS: 1216 - 32 bytes more of key share less the 8 of ec_point_formats; 1120 - 32 more less the 10 bytes that the server's
# list costs when the group is not its first. An ECDSA signature's DER has 70 to 72 bytes, rarely fewer, and so has the
# certificate's.
@test "main comparison: the hybrid adds 1176 bytes to the server, 1078 to the client" {
    use_main
    check main.json '(.arms[1].bytes.to_server - .arms[0].bytes.to_server) == $n' --argjson n "$(to_server)"
    check main.json '((.arms[1].bytes.to_client - .arms[0].bytes.to_client) - $n) | fabs <= 6' --argjson n "$(to_client)"
    size() {
        sql main "select distinct f.value from fact f join trial t on t.id = f.trial
                  where t.arm = $1 and f.name = 'message.$2'"
    }
    [ "$(size 0 server_hello) $(size 1 server_hello)" = "122 1210" ]
    [ $(($(size 1 client_hello) - $(size 0 client_hello))) -eq "$(to_server)" ]
    [ "$STACKS" = "aws-lc aws-lc" ] || [ "$(size 0 finished)" -eq 52 ]
}

@test "main comparison: latencies are resolved far below a millisecond" {
    use_main
    check main.json '[.arms[].trials[].request_ns.p50] | length == 4 and all(.[]; . > 0 and . % 1000000 != 0)'
    check main.json 'all(.arms[]; .latency_ns.full | all(.[]; .n == 100 and .min <= .p50 and .p50 <= .max))'
    check main.json 'all(.arms[]; .latency_ns.first.request.n == 2)'
    # Too few samples give no quantile.
    check main.json 'all(.arms[].latency_ns.full[]; .p99 == null and .p999 == null)'
}

@test "main comparison: run.db holds the whole run" {
    use_main
    [ "$(sql main 'pragma integrity_check')" = ok ]
    [ "$(sql main 'pragma application_id') $(sql main 'pragma user_version')" = "$((0x70717368)) 1" ]
    [ "$(sql main 'select count(*) from arm')" -eq 2 ]
    [ "$(sql main "select count(*) from trial where state = 'finished'")" -eq 4 ]
    [ "$(sql main 'select count(distinct arm || block) from trial')" -eq 4 ]
    [ "$(sql main "select count(*) from histogram where class = 'full'")" -eq 28 ] # 4 trials, 7 phases
    [ "$(sql main "select sum(length(blob)) from sample")" -eq $((4 * 50 * 64)) ]
    [ "$(sql main "select group_concat(kind) from (select kind from event order by rowid)")" = start,end ]
    [ "$(sql main "select value from run where name = 'seed'")" -eq 7 ]
    [ ! -e main/run.db-journal ]
}

@test "main comparison: summary.json, --json FILE, summary.md and what was printed agree" {
    use_main
    cmp main/summary.json main.json
    [ "$(cat main/summary.md)" = "$(sed '/^Results: /d' main.out)" ]
    valid_summary main.json
    check main.json '.schema == "pqshake/summary/1" and .plan.seed == "7" and .plan.workload == "tls"'
    check main.json '.tool.library.client.stack == $stack' --arg stack "$CLIENT_STACK"
    check main.json 'all(.arms[].cpu_ns; .client > 0 and .server > 0)'
    not grep -qiE ': *-?(nan|inf)' main.json
}

@test "constant arrivals are i / rate, in every trial" {
    use_main
    samples main 1 | awk '$1 % 20000000 != 0 { bad = 1 } { n++ } END { exit bad || n != 200 }'
}

@test "--seed: the same order and Poisson arrivals again, the same in both arms of a block, others in the next" {
    for run in a b; do
        run pq tls --seed 42 --arrivals poisson --rate 50 --duration 500ms --warmup 0 --blocks 2 --out $run --json $run.json
        measured $run.json
    done
    check a.json '.plan.arrivals == "poisson" and .plan.seed == "42"'
    order='select arm from trial order by id'
    [ "$(sql a "$order")" = "$(sql b "$order")" ]
    for block in 0 1; do
        for arm in 0 1; do
            samples a "t.block = $block and t.arm = $arm" | cut -d' ' -f1 >a.$block.$arm
            samples b "t.block = $block and t.arm = $arm" | cut -d' ' -f1 >b.$block.$arm
        done
        [ -s a.$block.0 ]
        cmp a.$block.0 a.$block.1
        cmp a.$block.0 b.$block.0
        cmp a.$block.1 b.$block.1
    done
    not cmp -s a.0.0 a.1.0
    # Poisson gaps are all different, and the last arrival is inside the window.
    [ "$(awk '{ print $1 - last; last = $1 }' a.0.0 | sort -u | wc -l)" -eq "$(wc -l <a.0.0)" ]
    [ "$(tail -n 1 a.0.0)" -lt 500000000 ]
}

@test "--json - prints strict JSON and nothing else; --aa measures an arm against itself" {
    run --separate-stderr pq tls --aa "${BRIEF[@]}" --duration 500ms --out out --json -
    printf '%s\n' "$output" >s.json
    measured s.json
    cmp s.json out/summary.json
    check s.json '(.arms | length) == 2 and .arms[0].factors.groups == .arms[1].factors.groups'
    check s.json '.arms[0].name != .arms[1].name and all(.arms[]; .negotiated.groups == {X25519: .counts.completed})'
    check s.json '(.arms[1].bytes.to_client - .arms[0].bytes.to_client) | fabs <= 6'
}

@test "--cert, --baseline, --threads, --server-threads: ML-DSA-65 has its sizes, and the sign is the baseline's" {
    run pq tls "${BRIEF[@]}" --groups X25519 --cert ecdsa-p256,ML-DSA-65 --baseline ml-dsa-65 --threads 2 \
        --server-threads 2 --out out --json s.json
    measured s.json
    reconciled s.json
    check s.json '[.arms[].name] == ["ecdsa-p256", "ML-DSA-65"] and .plan.baseline == "ML-DSA-65" and .plan.threads == 2'
    check s.json 'all(.comparisons[]; .baseline == "ML-DSA-65" and .arm == "ecdsa-p256")'
    check s.json '.arms[1].negotiated.signatures == {mldsa65: 50}'
    check s.json '.arms[0].bytes.to_client - .arms[1].bytes.to_client < -8000'
    [ "$(sql out "select value from fact where name = 'message.certificate_verify' and value + 0 > 100")" -eq 3317 ]
    [ "$(sql out "select count(*) from fact where name = 'threads' and value + 0 = 2")" -eq 4 ]
    # Both generator threads started half of the one schedule.
    [ "$(sql out "select count(*) from counter where name = 'scheduled' and value = 50")" -eq 2 ]
    check s.json 'all(.arms[]; .latency_ns.first.request.n == 2)'
}

@test "--ipv6, --bytes and --close rst" {
    grep -qs '^0*1 ' /proc/net/if_inet6 || skip "no IPv6 loopback on this machine"
    run pq tls "${BRIEF[@]}" --groups X25519MLKEM768 --ipv6 --bytes 100000 --close rst --out out --json s.json
    measured s.json
    reconciled s.json
    check s.json '.arms[0] | .counts.completed == 50 and .negotiated.verified == 50 and .bytes.to_client > 100000'
    check s.json '.arms[0].bytes.to_client < 105000'
    [ "$(sql out "select value from fact where name = 'close'")" = rst ]
}

@test "--handshake-only is the client's view only, --insecure is marked on everything" {
    run pq tls "${BRIEF[@]}" --groups X25519 --handshake-only --insecure --out out --json s.json
    measured s.json
    says "client side only" "INSECURE" "certificates were not verified (--insecure)"
    check s.json '.plan.insecure and .plan.handshake_only and .arms[0].negotiated.verified == 0'
    check s.json '[.findings[].id] | index("insecure") != null and index("handshake-only") != null'
    grep -q INSECURE out/summary.md
    grep -q "client side only" out/summary.md
    # Nothing was asked, so nothing came after the handshake.
    samples out 1 | awk '$10 != 0 || $9 != 0 { bad = 1 } { n++ } END { exit bad || n != 50 }'
}

@test "--engine null measures the tool itself" {
    run pq tls "${BRIEF[@]}" --engine null --out out --json s.json
    measured s.json
    reconciled s.json
    says "no cryptography"
    check s.json '.arms[0] | .counts.completed == 50 and .negotiated.groups == {} and .bytes.to_client < 300'
}

@test "DEFAULT offers the library's list, and the library prefers the hybrid" {
    run pq tls "${BRIEF[@]}" --duration 500ms --groups DEFAULT --server-groups X25519MLKEM768:X25519 --out out --json s.json
    measured s.json
    check s.json '.arms[0].negotiated.groups == {X25519MLKEM768: 25}'
}
