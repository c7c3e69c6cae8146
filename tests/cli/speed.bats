# pqshake speed: what is timed is said, figures are in order, and what makes no sense is refused.
load common

@test "speed: one row an operation, minimum <= median <= maximum, as text and as JSON" {
    run --separate-stderr pq speed x25519 ML-DSA-44 --duration 50ms --json speed.json
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    grep -q '^OpenSSL 3' <<<"$output"
    [ "$(grep -cE '^(X25519|ML-DSA-44)? +(keygen|derive|sign|verify) ' <<<"$output")" -eq 5 ]
    jq -e '.schema == "pqshake/speed/1" and ([.stacks[0].operations[] | "\(.algorithm) \(.operation)"] ==
        ["X25519 keygen", "X25519 derive", "ML-DSA-44 keygen", "ML-DSA-44 sign", "ML-DSA-44 verify"]) and .stacks[0].missing == []' speed.json
    jq -e '[.stacks[0].operations[] | .n >= 20 and .min_ns > 1000 and .min_ns <= .p50_ns and .p50_ns <= .max_ns and .mean_ns >= .min_ns
        and .mean_ns <= .max_ns and (.per_s * .mean_ns / 1e9 | . > 0.999 and . < 1.001)] | all' speed.json
    # The calls are one after the other and fill the time asked for.
    jq -e '[.stacks[0].operations[] | .n * .mean_ns >= 25e6] | all' speed.json
    jq -e '.stacks[0].facts.library_version | startswith("OpenSSL 3")' speed.json
}

@test "speed: a slow operation has its twenty calls, and no quantile without the samples for it" {
    run --separate-stderr pq speed SLH-DSA-SHA2-128f --duration 1ms --json -
    [ "$status" -eq 0 ]
    jq -e '.stacks[0].operations | length == 3 and ([.[] | select(.operation == "sign") |
        .n >= 20 and .n < 100 and .p50_ns != null and .p99_ns == null] == [true])' <<<"$output"
}

@test "speed: an algorithm that is none, a bad duration, an output that cannot be written: exit 2, nothing timed" {
    run --separate-stderr pq speed X25519 ML-KEM-769
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    says 'no algorithm "ML-KEM-769"' "pqshake list algorithms"
    run pq speed --duration 5
    [ "$status" -eq 2 ]
    says "--duration" "unit"
    run pq speed X25519 --json nowhere/speed.json
    [ "$status" -eq 2 ]
    says "--json"
}

@test "speed: a library given twice, and one that has nothing of what was asked" {
    run --separate-stderr pq speed X25519 --stack openssl,openssl
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    says "--stack: openssl is given twice"
    [ -x "$(dirname "$PQSHAKE")/pqshake-worker-aws-lc" ] || skip "this build has no AWS-LC"
    run pq speed X448 --stack aws-lc
    [ "$status" -eq 3 ]
    says "X448 this library does not have it" "nothing was timed"
}
